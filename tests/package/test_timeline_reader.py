"""The reader of timelines in Python: a timeline of an older JAR, whole and damaged."""

import json
import subprocess
import sys
from typing import Any

import pytest
from blake3 import blake3

import lakestep
from lakestep import _entries, _listings
from lakestep._storage import Place, Stores
from lakestep._timeline import Timeline
from old_lake import edit, file, unpack
from transactions import refused

OPEN = "t546d493b7bb1479b8e6a8789270d0889"
COMPLETED = "t96aa687b022f47e78407cbe6ae5791e2"
ROLLED_BACK = "t24778036fc4c46a087f248ac80837f96"
IDS = (OPEN, COMPLETED, ROLLED_BACK, "t" + "f" * 32)
NEWEST = 12


@pytest.fixture
def lake(tmp_path):
    """The timeline at another place, without its tables."""
    return unpack(tmp_path)


@pytest.fixture
def stores():
    with Stores() as made:
        yield made


def entries(lake, stores, first=1, last=NEWEST) -> list[Any]:
    return list(Timeline(str(lake.root), stores).statuses(first, last))


def checkpoint(lake, stores):
    found = Timeline(str(lake.root), stores).checkpoint
    return found and found.number


# What is there.


def test_entries_have_their_states_and_what_they_say(lake, stores):
    found = entries(lake, stores)
    assert [status.state for status in found] == [
        *["COMPLETED"] * 9,
        "ROLLED_BACK",
        *["INFLIGHT"] * 2,
    ]
    for status in found:
        as_written = lake.entry(status.entry.number)
        assert isinstance(status.entry, _entries.CommitEntry)
        assert status.entry.transaction.id == as_written["transaction"]["id"]
        assert [t.name for t in status.entry.tables] == [t["name"] for t in as_written["tables"]]
        assert [r.log for r in status.entry.reads] == [r["log"] for r in as_written["reads"]]
    rolled_back = found[9]
    assert rolled_back.outcome.conflict.rule == "same-file"
    assert [end.how for end in rolled_back.rolled_back.tables] == ["undone", "closed"]
    assert found[4].outcome.slots == ((3,), (3,))
    assert found[11].entry.tables[0].is_reserved


def test_open_and_unfinished_transactions_are_told_apart(lake, stores):
    timeline = Timeline(str(lake.root), stores)
    assert timeline.newest() == NEWEST
    assert [status.entry.number for status in timeline.unfinished(NEWEST)] == [11, 12]
    assert len(lake.requested()) == 3
    assert [one.id for one in timeline.open_transactions()] == [OPEN]
    rows = {id: _listings.described(id, timeline.describe(id)) for id in IDS}
    assert [row["state"] for row in rows.values()] == [
        *("REQUESTED", "COMPLETED", "ROLLED_BACK", "NOT_FOUND")
    ]
    assert (rows[OPEN]["snapshot"], rows[ROLLED_BACK]["entry"]) == (10, 10)


def test_numbers_are_found_with_and_without_checkpoints(lake, stores):
    assert lake.checkpoints() == [6, 8]
    assert checkpoint(lake, stores) == 8
    path = lake.root / "checkpoints" / f"{8:020}.json"
    path.write_bytes(path.read_bytes()[:-20])
    assert checkpoint(lake, stores) == 6
    assert Timeline(str(lake.root), stores).newest() == NEWEST
    for path in (lake.root / "checkpoints").glob("*.json"):
        path.unlink()
    timeline = Timeline(str(lake.root), stores)
    assert (timeline.checkpoint, timeline.newest()) == (None, NEWEST)
    assert [one.id for one in timeline.open_transactions()] == [OPEN]


def test_checkpoint_that_is_of_another_timeline_is_passed_over(lake, stores):
    path = lake.root / "checkpoints" / f"{8:020}.json"
    text = path.read_text().replace('"hash":"', '"hash":"0', 1).rpartition(',"sum":')[0]
    path.write_text(f'{text},"sum":"{blake3((text + "}").encode()).hexdigest()}"}}\n')
    assert checkpoint(lake, stores) == 6


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 128, 129, 500, 2000])
def test_newest_of_a_long_timeline(tmp_path, stores, length):
    root = long_timeline(tmp_path, length)
    timeline = Timeline(str(root), stores)
    assert timeline.newest() == length
    assert len(list(timeline.statuses(1, length))) == length
    if length > 1:
        root.joinpath("timeline", f"{length - 1:020}.json").unlink()
        with refused("LAKESTEP_TIMELINE_CORRUPT", "XX001") as raised:
            timeline = Timeline(str(root), stores)
            list(timeline.statuses(1, timeline.newest()))
        assert f"{length - 1:020}.json" in str(raised.value)


def long_timeline(folder, length):
    """A timeline of ABORT entries."""
    (folder / "timeline").mkdir()
    format = {"timeline": "0" * 32, "format": 1, "requiredFeatures": []}
    (folder / "format.json").write_text(json.dumps(format))
    previous = ""
    for number in range(1, length + 1):
        entry = {"kind": "abort", "number": number, "previous": previous, "timeMs": number}
        text = json.dumps({**entry, "transactions": [f"t{number:032x}"], "reason": "old"})
        (folder / "timeline" / f"{number:020}.json").write_text(text)
        previous = blake3(text.encode()).hexdigest()
    return folder


def test_transaction_that_was_aborted_is_no_longer_open(tmp_path, stores):
    root = long_timeline(tmp_path, 200)
    (root / "transactions").mkdir()
    for snapshot, id in ((0, f"t{7:032x}"), (199, f"t{200:032x}"), (3, f"t{1000:032x}")):
        texts = dict.fromkeys(("user", "application", "isolation"), "x")
        requested = {**texts, "id": id, "snapshot": snapshot, "requestedAtMs": 1}
        (root / "transactions" / f"{id}.json").write_text(json.dumps(requested))
    timeline = Timeline(str(root), stores)
    assert [one.id for one in timeline.open_transactions()] == [f"t{1000:032x}"]
    assert timeline.describe(f"t{7:032x}").aborted_by == 7


def test_unknown_fields_are_ignored(lake, stores):
    edit(lake.root / "format.json", later={"a": [1.5, None]})
    edit(file(lake, NEWEST), later="x")
    edit(lake.root / "transactions" / f"{OPEN}.json", later=1)
    found = Timeline(str(lake.root), stores)
    assert found.newest() == NEWEST
    assert entries(lake, stores)[-1].state == "INFLIGHT"
    assert [one.id for one in found.open_transactions()] == [OPEN]


# What is refused.


@pytest.mark.parametrize(
    ("name", "fields", "condition"),
    [
        ("format.json", {"format": 2}, "LAKESTEP_TIMELINE_FEATURE_UNKNOWN"),
        ("format.json", {"requiredFeatures": ["x"]}, "LAKESTEP_TIMELINE_FEATURE_UNKNOWN"),
        ("format.json", {"timeline": None}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("format.json", {"format": True}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("12", {"requiredFeatures": ["names", "x"]}, "LAKESTEP_TIMELINE_FEATURE_UNKNOWN"),
        ("12", {"kind": "other"}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("12", {"number": 11}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("12", {"timeMs": "1"}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("12", {"tables": [{}]}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("5.outcome", {"entryHash": "0" * 64}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("5.outcome", {"slots": [["3"], [3]]}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("10.outcome", {"outcome": "other"}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("10.outcome", {"conflict": None}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("10.rolled_back", {"outcome": "completed"}, "LAKESTEP_TIMELINE_CORRUPT"),
        ("10.rolled_back", {"number": 9}, "LAKESTEP_TIMELINE_CORRUPT"),
    ],
)
def test_file_that_is_not_as_described_is_refused_by_its_name(
    lake, stores, name, fields, condition
):
    number, dot, kind = name.partition(".")
    damaged = lake.root / name if number == "format" else file(lake, int(number), dot + kind)
    edit(damaged, **fields)
    with refused(condition) as raised:
        entries(lake, stores)
    assert isinstance(raised.value, lakestep.LakestepError)
    assert raised.value.getMessageParameters()["file"] == f"file:{damaged}"


@pytest.mark.parametrize(
    ("writer", "wanted"),
    [("3.1.4", "version 3.1.4 or a newer one"), (None, "a newer version"), (7, "a newer version")],
)
def test_who_refuses_a_feature_names_the_version_to_install(lake, stores, writer, wanted):
    edit(file(lake, 12), requiredFeatures=["later"], writer=writer)
    with refused("LAKESTEP_TIMELINE_FEATURE_UNKNOWN") as raised:
        entries(lake, stores)
    told = raised.value.getMessageParameters()
    assert (told["features"], told["wanted"]) == ("later", wanted)
    assert told["version"] == lakestep.__version__


def test_entry_that_was_edited_breaks_the_chain(lake, stores):
    edit(file(lake, 12), timeMs=1)
    assert len(entries(lake, stores)) == NEWEST
    edit(file(lake, 11), timeMs=1)
    with refused("LAKESTEP_TIMELINE_CORRUPT", "XX001") as raised:
        entries(lake, stores)
    assert raised.value.getMessageParameters()["file"] == f"file:{file(lake, 12)}"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":NaN}', "\xff", "[" * 100000])
def test_file_that_is_no_json_is_refused_by_its_name(lake, stores, text):
    file(lake, 7).write_bytes(text.encode("latin-1"))
    with refused("LAKESTEP_TIMELINE_CORRUPT", "XX001") as raised:
        entries(lake, stores)
    assert raised.value.getMessageParameters()["file"] == f"file:{file(lake, 7)}"


def test_root_without_a_timeline_and_places_that_cannot_be_read(tmp_path, stores):
    with refused("LAKESTEP_TIMELINE_NOT_FOUND", "42704"):
        Timeline(str(tmp_path), stores)
    with refused("LAKESTEP_STORE_PATH_INVALID"):
        Timeline("gopher://a/b", stores)
    with refused("LAKESTEP_STORE_PATH_INVALID"):
        Timeline("s3:///b", stores)
    (tmp_path / "format.json").mkdir()
    with refused("LAKESTEP_STORE_READ_FAILED"):
        Timeline(str(tmp_path), stores)


def test_places_are_spelt_in_one_way(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Place.named("a b/%20/") == Place.named(f"file://{tmp_path}/a b/%20")
    assert str(Place.of("file:/a%20b/c")) == "file:/a b/c"
    assert str(Place.of("/a%20b/c")) == "file:/a%20b/c"
    assert Place.named("s3://b/x/") == Place.of("s3a://b/x")
    assert str(Place.of("hdfs://h:9000/x") / "y") == "hdfs://h:9000/x/y"


# Without a JVM.


def test_reading_needs_no_jvm_and_running_needs_no_reader(lake, tmp_path):
    """With no `java` to be found, and with none started."""
    code = (
        "import sys; from lakestep import _cli;"
        f"codes = [_cli.main([*words, '--json']) for words in {commands(lake)}];"
        "from pyspark import SparkContext; assert SparkContext._gateway is None;"
        "print('CODES', codes)"
    )
    environment = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    paths = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment | paths
    )
    assert "CODES [0, 0, 0, 0, 0, 0]" in done.stdout, done.stderr


def commands(lake):
    root = str(lake.root)
    return [
        ["timeline", root],
        ["show", root, "10"],
        ["transactions", root, "--all"],
        ["conflicts", root],
        ["verify", root],
        ["doctor", root],
    ]


def test_import_of_the_package_and_of_the_command_loads_no_reader(python):
    code = (
        "from lakestep import _cli, _run_file; import sys;"
        "answer(sorted({'pyarrow', 'blake3'} & sys.modules.keys()))"
    )
    assert python(code) == []
