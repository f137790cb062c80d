"""What several commands have in common: options, the session that some need, how one fails."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from lakestep import _errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Conf = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A setting of Spark. Repeatable."),
]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="Spark's master, local[4] for example.")
]
Remote = Annotated[
    str | None, typer.Option(metavar="URL", help="A server of Spark Connect, sc://host:port.")
]


def check_one(master: str | None, remote: str | None) -> None:
    """Refuse two ways to Spark."""
    if master is not None and remote is not None:
        raise typer.BadParameter("there is one of --master and --remote")


@contextmanager
def session(
    settings: dict[str, str], master: str | None, remote: str | None, root: str | None = None
) -> Iterator[SparkSession]:
    """Start Spark with Lakestep for the body, and bring what follows a COMMIT to its end."""
    from lakestep import _report, _run_file

    try:
        spark = _run_file.session(settings, master, remote, root)
    except _errors.LakestepError:
        raise
    except Exception as error:
        fail(f"Spark does not start. {_report.message_of(error)}")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    try:
        yield spark
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Its JVM may have died.
        with suppress(ConnectionError):
            spark.stop()


def fail(text: str) -> NoReturn:
    """End the command with an error."""
    print(text, file=sys.stderr)
    raise typer.Exit(1)


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """Return what ``NAME=VALUE`` says, of an option that is repeated."""
    found = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text!r} is not name=value", param_hint=option)
        if name in found:
            raise typer.BadParameter(f"{name} is given twice", param_hint=option)
        found[name] = value
    return found
