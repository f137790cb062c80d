"""Whether the files of tables are there: `LiveFiles`, for `verify` and `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakestep import _errors
from lakestep._database_at import DatabaseAt, TableAt
from lakestep._findings import Finding, of_error
from lakestep._published import read_log
from lakestep._snapshots import Snapshot, kept_log
from lakestep._storage import Place
from lakestep._table_files import LogCleanedUp, Needed, TableFiles
from lakestep._timeline import Timeline

# Of a table; the others are counted.
_MOST = 10
_TAKEN = (
    "A VACUUM by somebody without Lakestep may have deleted it. Restore it from a backup, or take"
    " the table back by RESTORE TABLES, to a version that has all its files."
)
_OLD = "A VACUUM may have deleted it. Restore it from a backup."


class LiveFiles:
    """Looks for the files of tables. A table that is asked for more than once is listed once.

    `files` and `tables` count what was looked for, each time.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._tables: dict[str, TableFiles] = {}
        self.files = 0
        self.tables = 0

    def of_database(
        self, database: DatabaseAt, seen: Callable[[], object] = lambda: None
    ) -> Iterator[Finding]:
        """Yield what is wrong with the files of all tables. `seen` is called for each table."""
        for table in database.tables():
            yield from self._of_table(table, is_newest=database.is_newest)
            seen()

    def _of_table(self, table: TableAt, *, is_newest: bool) -> Iterator[Finding]:
        if table.version is None:
            text = f"The table is gone, or another one is at this path: {table.log} is looked for."
            yield Finding("note", table.path, text)
            return
        step = _TAKEN if is_newest else _OLD
        found = self._look(table, None, step, is_due=is_newest)
        if found and is_newest:
            # Somebody may have taken a file out of the table, and deleted it, meanwhile.
            version = self._of(table.path).newest()
            again = TableAt(table.path, table.log, table.version if version is None else version)
            found = self._look(again, None, _TAKEN, is_due=True)
        self.tables += 1
        yield from found

    def of_snapshot(
        self, snapshot: Snapshot, seen: Callable[[], object] = lambda: None
    ) -> Iterator[Finding]:
        """Yield what is wrong with the files that a named snapshot needs; `seen` as above."""
        for at in snapshot.tables:
            seen()
            self.tables += 1
            whose = f"Snapshot {snapshot.name} needs"
            step = f"Restore it from a backup, or DROP SNAPSHOT {snapshot.name}."
            try:
                binding = read_log(self._timeline, at.path).binding
                if binding is None or binding.log != at.log:
                    text = f"{whose} {at}, and the table is gone, or another one is at its path."
                    yield Finding("problem", at.path, text, step)
                    continue
                log = kept_log(self._timeline, snapshot, at)
                for found in self._look(at, log, step, is_due=True):
                    yield Finding("problem", found.what, f"{whose} {at}. {found.text}", step)
            except _errors.LakestepError as error:
                yield of_error(at.path, error)

    def _look(self, table: TableAt, log: Place | None, step: str, *, is_due: bool) -> list[Finding]:
        """Return what is wrong; with `is_due` also that the version cannot be read any more."""
        assert table.version is not None
        files = self._of(table.path)
        try:
            needed = files.of(table.version, log)
            wrong = files.look_for(needed)
        except _errors.LakestepError as error:
            return [of_error(table.path, error)]
        except LogCleanedUp:
            text = f"{table} cannot be read any more: its log was cleaned up."
            return [Finding("problem" if is_due else "note", table.path, text, step)]
        self.files += len(needed)
        named = sorted(wrong.items(), key=lambda one: str(one[0]))[:_MOST]
        found = [Finding("problem", str(p), _wrong(table, needed[p], s), step) for p, s in named]
        if len(wrong) > _MOST:
            text = f"{len(wrong)} files of {table} are missing or cut; {_MOST} of them are named."
            found.append(Finding("problem", table.path, text, step))
        return found

    def _of(self, path: str) -> TableFiles:
        return self._tables.setdefault(path, TableFiles(self._timeline.stores, Place.of(path)))


def _wrong(table: TableAt, needed: Needed, size: int | None) -> str:
    if size is None:
        return f"It is missing, and {table} has it."
    least = "at least " if needed.is_least else ""
    return f"It has {size} bytes, and in {table} it has {least}{needed.size}."
