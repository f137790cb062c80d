"""The named snapshots of a timeline, read from its files: `snapshots`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakestep import _timeline_files as files
from lakestep._database_at import TableAt
from lakestep._fields import Fields, corrupt
from lakestep._published import log_of
from lakestep._storage import Place
from lakestep._timeline import Timeline

_FILE = re.compile(r"([A-Za-z0-9_-]+)\.(\d{20})(\.dropped)?\.json")


@dataclass(frozen=True)
class Snapshot:
    """A state of the database that has a name; a hold of a transaction's has one, too."""

    name: str
    id: str
    entry: int
    retain_until_ms: int | None
    tables: tuple[TableAt, ...]


def snapshots(timeline: Timeline) -> list[Snapshot]:
    """Return those that are not dropped, by name.

    Raises
    ------
    LakestepError
        ``LAKESTEP_TIMELINE_CORRUPT``, ``LAKESTEP_STORE_READ_FAILED``.
    """
    folder = timeline.root / "snapshots"
    newest: dict[str, tuple[int, bool]] = {}
    for found in timeline.stores.list(folder):
        if name := _FILE.fullmatch(found.name):
            key, slot = name[1], (int(name[2]), bool(name[3]))
            newest[key] = max(newest.get(key, (0, False)), slot)
    live = [(name, number) for name, (number, dropped) in sorted(newest.items()) if not dropped]
    places = [folder / f"{name}.{number:020}.json" for name, number in live]
    contents = timeline.stores.each(timeline.stores.get, places)
    return [_snapshot(str(file), content) for file, content in zip(places, contents, strict=True)]


def _snapshot(file: str, content: bytes | None) -> Snapshot:
    if content is None:
        raise corrupt(file, "it is missing")
    f = files.summed(file, content)
    return Snapshot(
        f.text("name"),
        f.text("id"),
        f.number("entry"),
        f.opt_number("retainUntilMs"),
        tuple(
            TableAt(t.text("path"), t.text("log"), t.number("version"))
            for t in f.children("tables")
        ),
    )


def kept_log(timeline: Timeline, snapshot: Snapshot, table: TableAt) -> Place | None:
    """Return the copy of a table's log that is read for a snapshot, if there is one.

    Raises as `snapshots`.
    """
    folder = log_of(table.path) / "_lakestep" / "kept"
    file = folder / f"{snapshot.id}.json"
    content = timeline.stores.get(file)
    return None if content is None else folder / Fields.of(str(file), content).text("copy")
