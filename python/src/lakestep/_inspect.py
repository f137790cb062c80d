"""The commands that look at a timeline. Only `recover`, and `doctor` if asked, start Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakestep import _report
from lakestep._options import Conf, Master, Remote, check_one, fail, pairs, session

if TYPE_CHECKING:
    from lakestep._findings import Finding
    from lakestep._timeline import Timeline

_VARIABLE = "LAKESTEP_ROOT"
_ID = re.compile(r"t[0-9a-f]{32}")

# Of SHOW TIMELINE, what a line has room for.
_NARROW = ("entry", "state", "transaction_id", "name", "user", "ordered_at", "tables", "added_rows")

Root = Annotated[
    str,
    typer.Argument(
        metavar="ROOT",
        envvar=_VARIABLE,
        help="The folder of the timeline, as spark.lakestep.root names it.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print lines of JSON, with times in UTC.")]
Endpoint = Annotated[
    str | None,
    typer.Option(metavar="URL", help="An S3 that is not Amazon's. Default: AWS_ENDPOINT_URL."),
]
Last = Annotated[
    int | None, typer.Option("--last", metavar="N", min=1, help="Only the newest N entries.")
]
From = Annotated[int | None, typer.Option("--from", metavar="N", min=1, help="The first entry.")]
To = Annotated[int | None, typer.Option("--to", metavar="N", min=1, help="The last entry.")]

app = typer.Typer()


@app.command("timeline")
def show_timeline(
    root: Root,
    last: Last = None,
    first: From = None,
    to: To = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="Show all columns, as SHOW TIMELINE and --json do.")
    ] = False,
    as_json: Json = False,
    endpoint: Endpoint = None,
) -> None:
    """List transactions by their entries, the newest first: the last 100, or those asked for."""
    from lakestep import _listings

    if last is not None and (first is not None or to is not None):
        raise typer.BadParameter("there is --last, or --from and --to", param_hint="--last")
    with _timeline(root, endpoint) as timeline:
        newest = timeline.newest()
        until = newest if to is None else min(to, newest)
        most = last or (100 if first is None else None)
        begin = first if first is not None else max(until - (most or 0) + 1, 1)
        with _report.counting("entries", max(until - begin + 1, 0)) as seen:
            rows: list[dict[str, Any]] = []
            for status in timeline.statuses(begin, until):
                rows += reversed(_listings.timeline(status))
                seen()
    if not as_json and not wide:
        rows = [{name: row[name] for name in _NARROW} for row in rows]
    _report.show_rows(rows[::-1], as_json=as_json)


@app.command("show")
def show_transaction(
    which: Annotated[
        list[str],
        typer.Argument(metavar="[ROOT] TRANSACTION", help="Its id, or the number of its entry."),
    ],
    as_json: Json = False,
    endpoint: Endpoint = None,
) -> None:
    """Show all that the timeline knows of one transaction, by its id or its entry."""
    from lakestep import _listings

    root, name = _root_and_name(which)
    with _timeline(root, endpoint) as timeline:
        if _ID.fullmatch(name):
            with _report.counting("entries read") as seen:
                row = _listings.described(name, timeline.describe(name, seen))
        else:
            number, newest = int(name), timeline.newest()
            if not 1 <= number <= newest:
                fail(f"There is no entry {number}: the newest is {newest}.")
            row = _listings.described_entry(timeline.status(number))
    if as_json:
        _report.show_rows([row], as_json=True)
    else:
        conflict = row.get("conflict")
        _report.show_fields({**row, "conflict": [conflict] if conflict else None})
    if row["state"] == "NOT_FOUND":
        raise typer.Exit(1)


@app.command("transactions")
def list_transactions(
    root: Root,
    of_all: Annotated[
        bool, typer.Option("--all", help="Also those that are open, or left open by who died.")
    ] = False,
    as_json: Json = False,
    endpoint: Endpoint = None,
) -> None:
    """List the transactions in flight; with --all also those that have no entry yet."""
    from lakestep import _listings

    with _timeline(root, endpoint) as timeline:
        now = _listings.now_ms()
        requested = timeline.open_transactions() if of_all else []
        rows = [_listings.open_transaction(one, now) for one in requested]
        known = {row["transaction_id"] for row in rows}
        in_flight = [_listings.in_flight(s, now) for s in timeline.unfinished(timeline.newest())]
        # One of them may have got its entry since.
        rows += [row for row in in_flight if row["transaction_id"] not in known]
    if not as_json:
        rows = [
            {**row, "age": _listings.age_of(row["age_seconds"]), "age_seconds": None}
            for row in rows
        ]
    _report.show_rows(rows, as_json=as_json)


@app.command("conflicts")
def list_conflicts(
    root: Root,
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=1, help="Among the newest N entries.")
    ] = 1000,
    as_json: Json = False,
    endpoint: Endpoint = None,
) -> None:
    """List what was rolled back after it had its entry, and why, the newest first.

    A conflict before that leaves nothing behind.
    """
    from lakestep import _listings

    with _timeline(root, endpoint) as timeline:
        newest = timeline.newest()
        with _report.counting("entries", min(last, newest)) as seen:
            rows = []
            for status in timeline.statuses(newest - last + 1, newest):
                if row := _listings.conflict(status):
                    rows.append(row)
                seen()
    _report.show_rows(rows[::-1], as_json=as_json)


@app.command("verify")
def verify(
    root: Root,
    first: From = None,
    to: To = None,
    as_of: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Look for the data files of this version."),
    ] = None,
    snapshot: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Look for the data files of this snapshot."),
    ] = None,
    no_files: Annotated[bool, typer.Option("--no-files", help="Look for no data files.")] = False,
    as_json: Json = False,
    endpoint: Endpoint = None,
) -> None:
    """Check timeline, commits, and the data files of all tables; 1 if something is damaged.

    With --from or --to only these entries and their commits.
    """
    from lakestep._verify import Point, verified

    only_entries = no_files or first is not None or to is not None
    if only_entries + (as_of is not None) + (snapshot is not None) > 1:
        alone = "--as-of and --snapshot each stand alone"
        raise typer.BadParameter(alone, param_hint="--as-of" if as_of else "--snapshot")
    point = None if only_entries else Point(as_of, snapshot)
    with _timeline(root, endpoint) as timeline:
        findings = list(verified(timeline, (first, to), point))
    raise typer.Exit(0 if _show(findings, as_json=as_json) else 1)


@app.command("doctor")
def doctor(
    root: Root,
    conf: Conf = None,
    master: Master = None,
    as_json: Json = False,
    endpoint: Endpoint = None,
) -> None:
    """Look for what may be wrong; with --conf or --master also with the session; 1 if there is."""
    from lakestep import _doctor
    from lakestep._storage import Stores

    settings = pairs(conf, "--conf")
    with Stores(endpoint) as stores:
        is_well = _show(_doctor.examine(root, stores), as_json=as_json)
        if settings or master is not None:
            with session(settings, master, None) as spark:
                is_well &= _show(_doctor.examine_session(spark, root, stores), as_json=as_json)
    raise typer.Exit(0 if is_well else 1)


@app.command("recover")
def recover(
    root: Annotated[
        str | None,
        typer.Argument(
            metavar="[ROOT]", envvar=_VARIABLE, help="Default: spark.lakestep.root of the session."
        ),
    ] = None,
    conf: Conf = None,
    master: Master = None,
    remote: Remote = None,
    as_json: Json = False,
) -> None:
    """Start Spark and finish what clients have left in flight; 1 if that fails for one."""
    from dataclasses import asdict

    from lakestep import _recover
    from lakestep._storage import Place

    check_one(master, remote)
    place = None if root is None else str(Place.named(root))
    with session(pairs(conf, "--conf"), master, remote, place) as spark:
        recovered = _recover.recover(spark)
    _report.show_rows([asdict(one) for one in recovered], as_json=as_json)
    if any(one.outcome.startswith("FAILED") for one in recovered):
        raise typer.Exit(1)


@contextmanager
def _timeline(root: str, endpoint: str | None) -> Iterator[Timeline]:
    from lakestep._storage import Stores
    from lakestep._timeline import Timeline

    with Stores(endpoint) as stores:
        yield Timeline(root, stores)


def _root_and_name(which: list[str]) -> tuple[str, str]:
    import os

    *roots, name = which
    root = roots[0] if roots else os.environ.get(_VARIABLE)
    if root is None or len(roots) > 1:
        raise typer.BadParameter(f"say ROOT and TRANSACTION, or set {_VARIABLE}")
    if not _ID.fullmatch(name) and not re.fullmatch(r"\d{1,18}", name):
        raise typer.BadParameter(f"{name!r} is no id of a transaction, and no number of an entry")
    return root, name


def _show(findings: Iterable[Finding], *, as_json: bool) -> bool:
    """Print findings as they come; return whether none of them is a problem."""
    is_well = True
    for finding in findings:
        is_well &= finding.severity != "problem"
        if as_json:
            _report.show_rows([finding.row()], as_json=True)
            continue
        print(f"{finding.severity:8} {finding.what}: {finding.text}", flush=True)
        if finding.next_step:
            print(f"{'':8} Next: {finding.next_step}", flush=True)
    return is_well
