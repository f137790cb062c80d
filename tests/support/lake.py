"""A folder with Delta tables and a timeline, looked at without Spark.

The tables are made, read and changed by delta-rs, which creates log files atomically; the timeline
is read file by file, as scala/PROTOCOL.md describes it.
"""

import json
import re
from pathlib import Path

import deltalake
import pyarrow as pa
from blake3 import blake3

# The writer feature that keeps foreign writers out.
FEATURE = "lakestepTransactions"


class Lake:
    def __init__(self, folder, tables=0):
        self.folder = Path(folder)
        self.root = self.folder / "timeline"
        self.tables = [self.table(f"t{i}") for i in range(tables)]

    def table(self, name, rows=((1, "old"), (2, "old"))):
        """Make a table of columns id and v; every row is in a file of its own."""
        path = str(self.folder / name)
        for row in rows:
            append(path, row)
        return path

    def sql(self, template, tables=None):
        """Return the statement for each table, ``{}`` standing for its name."""
        return [template.format(f"delta.`{path}`") for path in tables or self.tables]

    # The timeline, file by file.

    def entry_numbers(self):
        names = sorted(path.name for path in self._timeline.glob("*.json"))
        numbers = [int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name)]
        assert numbers == list(range(1, len(numbers) + 1))
        return numbers

    def entry(self, number):
        return json.loads(self._bytes(number, ""))

    def outcome(self, number):
        return self._of_entry(number, ".outcome")

    def rolled_back(self, number):
        return self._of_entry(number, ".rolled_back")

    def checkpoints(self):
        return sorted(int(file.stem) for file in Path(self.root, "checkpoints").glob("*.json"))

    def requested(self):
        return {path.stem for path in (self.root / "transactions").glob("t*.json")}

    def check_timeline(self):
        """Every entry is finished, holds the hash of the one before and has what belongs to it."""
        previous = ""
        for number in self.entry_numbers():
            entry = self.entry(number)
            assert (entry["number"], entry["previous"]) == (number, previous)
            previous = blake3(self._bytes(number, "")).hexdigest()
            assert entry["kind"] == "commit"
            outcome = self.outcome(number)
            assert outcome, f"entry {number} has no outcome"
            if outcome["outcome"] == "completed":
                assert self.rolled_back(number) is None
                assert len(outcome["slots"]) == len(entry["tables"])
                for table, slots in zip(entry["tables"], outcome["slots"], strict=True):
                    marks = [self.mark(table["path"], slot) for slot in slots]
                    kinds = ["reserve"] * ("reserve" in table) + ["publish"] * table["parts"]
                    assert [mark["kind"] for mark in marks] == kinds
                    assert {mark["entry"] for mark in marks} == {number}
            else:
                assert outcome["outcome"] == "aborting"
                assert outcome["conflict"]["rule"]
                settled = self.rolled_back(number)
                assert settled, f"entry {number} was not rolled back"
                for table, end in zip(entry["tables"], settled["tables"], strict=True):
                    mark = self.mark(table["path"], end["version"])
                    kind = {"closed": "close", "undone": "undo"}[end["how"]]
                    assert (mark["entry"], mark["kind"]) == (number, kind)

    @property
    def _timeline(self):
        return self.root / "timeline"

    def _bytes(self, number, kind):
        return (self._timeline / f"{number:020}{kind}.json").read_bytes()

    def _of_entry(self, number, kind):
        if not (self._timeline / f"{number:020}{kind}.json").exists():
            return None
        found = json.loads(self._bytes(number, kind))
        assert found["number"] == number
        assert found["entryHash"] == blake3(self._bytes(number, "")).hexdigest()
        return found

    # The tables.

    def rows(self, path, version=None):
        return rows_of(path, version=version)

    def version(self, path):
        return deltalake.DeltaTable(path).version()

    def actions(self, path, version):
        text = (Path(path.removeprefix("file:")) / "_delta_log" / f"{version:020}.json").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def mark(self, path, version):
        """Return the mark of one of our commits, or None for a foreign one."""
        for action in self.actions(path, version):
            if "commitInfo" in action:
                return action["commitInfo"].get("lakestep")
        return None

    def own_commits(self, path):
        """Return the kinds of the marks in the log, in its order."""
        marks = (self.mark(path, version) for version in range(self.version(path) + 1))
        return [mark["kind"] for mark in marks if mark]


def rows_of(path, **options):
    """The rows of a table as delta-rs reads them, sorted; `options` as `deltalake` takes them."""
    found = deltalake.DeltaTable(path, **options).to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["v"]) for row in found)


def header(path):
    """Protocol and properties as the log has them."""
    found = {}
    for file in sorted(Path(path, "_delta_log").glob("[0-9]*.json")):
        for line in file.read_text().splitlines():
            action = json.loads(line)
            if "protocol" in action:
                found["protocol"] = {
                    k: sorted(v) if isinstance(v, list) else v
                    for k, v in action["protocol"].items()
                }
            if "metaData" in action:
                found["properties"] = action["metaData"]["configuration"]
    return found


def is_fenced(path):
    return FEATURE in header(path)["protocol"].get("writerFeatures", [])


def append(path, *rows, **options):
    """A foreign commit that conflicts with nothing; `options` as `deltalake` takes them."""
    deltalake.write_deltalake(path, _rows(rows), mode="append", **options)


def rewrite(path, row_id):
    """A foreign commit that removes the file which holds this row."""
    deltalake.DeltaTable(path).delete(f"id = {row_id}")


def _rows(rows):
    ids, values = zip(*rows, strict=True)
    return pa.table({"id": ids, "v": values})
