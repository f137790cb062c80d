"""The command ``lakestep``, for scripts and people on call."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lakestep import _build, _errors, _inspect
from lakestep._options import Conf, Master, Remote, check_one, fail, pairs, session

app = typer.Typer(
    help="Lakestep on this machine.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, 1 after an error on stderr, 2 after wrong usage, 130 after Ctrl-C.

    An error has no stack trace.
    """
    for stream in (sys.stdout, sys.stderr):
        # What others have written may have no place in the encoding of this terminal.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(arguments, prog_name="lakestep")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except _errors.LakestepError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"lakestep: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


@app.command("jar")
def print_jar(
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="The Spark of the cluster, 4.1 for example. Default: that of this PySpark.",
        ),
    ] = None,
) -> None:
    """Print the path of the JAR, for spark-submit --jars; with --spark 4.1 for that Spark."""
    print(_build.jar_path(spark))


@app.command("version")
def print_version() -> None:
    """Print the version, and the Spark and Delta of each JAR."""
    of_this_pyspark = _build.jar_path()
    others = [path for path in _build.jars().values() if path != of_this_pyspark]
    lines = [f"lakestep {_build.version()}"]
    for path in [of_this_pyspark, *others]:
        jar = _build.jar_properties(path)
        if jar["version"] != _build.version():
            raise _errors.error(
                "LAKESTEP_VERSION_MISMATCH", jar=jar["version"], wheel=_build.version()
            )
        used = ", used with the PySpark that is installed" if path == of_this_pyspark else ""
        lines.append(f"  Spark {jar['spark']}, Delta {jar['delta']}{used}")
    print("\n".join(lines))


@app.command("run")
def run_sql_file(
    file: Annotated[
        str, typer.Argument(help="SQL statements with semicolons between them; - is stdin.")
    ],
    atomic: Annotated[
        bool, typer.Option("--atomic", help="Run all of it as one transaction.")
    ] = False,
    var: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="The value of :NAME, a string. Repeatable."),
    ] = None,
    conf: Conf = None,
    master: Master = None,
    remote: Remote = None,
    results: Annotated[
        bool, typer.Option("--results", help="Show every query, and not only the last one.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Show results as lines of JSON, all rows of them.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Run the statements of a file in one session; with --atomic as one transaction."""
    from lakestep import _run_file, _statements

    check_one(master, remote)
    variables, settings = pairs(var, "--var"), pairs(conf, "--conf")
    job = _run_file.Job(
        name="<stdin>" if file == "-" else file,
        statements=_statements.split(_text(file)),
        atomic=atomic,
        variables=variables,
        show_all=results,
        as_json=as_json,
        quiet=quiet,
    )
    if unused := job.unused():
        names = ", ".join(f":{name}" for name in sorted(unused))
        raise typer.BadParameter(f"the file has no parameter {names}", param_hint="--var")
    if atomic and (boundary := job.boundary()):
        why = "with --atomic the file is one transaction, and holds no BEGIN, COMMIT or ROLLBACK"
        fail(f"{job.name}:{boundary.line}: {boundary.title}: {why}. Nothing was run.")
    if not job.statements:
        return
    with session(settings, master, remote) as spark:
        raise typer.Exit(_run_file.run_job(spark, job))


@app.command(
    "dbt", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def run_dbt(
    arguments: Annotated[
        list[str], typer.Argument(help="As for dbt: build --project-dir shop, for example.")
    ],
    conf: Conf = None,
    master: Master = None,
) -> None:
    """Run dbt as one transaction: committed if all of it passed, else rolled back."""
    from lakestep import _dbt, _run_file

    if not _dbt.is_installed():
        fail("dbt is not installed. Say: pip install 'lakestep[dbt]'")
    # As dbt does: names that end with the process would be of no use.
    settings = {"spark.sql.catalogImplementation": "hive", **pairs(conf, "--conf")}
    with session(settings, master, None) as spark:
        result = _dbt.run(spark, arguments, cancel=lambda: _run_file.cancel(spark))
    if result.success:
        return
    if result.exception is not None:
        print(result.exception, file=sys.stderr)
    print("The run was rolled back.", file=sys.stderr)
    raise typer.Exit(_dbt.exit_code(result))


# Commands that look at a timeline.
app.add_typer(_inspect.app)


def _text(file: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file}: it is not UTF-8", param_hint="FILE") from None
