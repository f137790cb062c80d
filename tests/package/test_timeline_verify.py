"""Verification of a timeline, and `doctor`: one of an older JAR, whole and damaged."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lake import append
from lakestep import LakestepError, _doctor
from lakestep._storage import Stores
from lakestep._timeline import Timeline
from lakestep._verify import Verification
from old_lake import edit, file, old_lake, unpack

OPEN = "t546d493b7bb1479b8e6a8789270d0889"


@pytest.fixture
def lake(tmp_path):
    """The timeline at another place, without its tables."""
    return unpack(tmp_path)


@pytest.fixture
def stores():
    with Stores() as made:
        yield made


def problems(lake, stores, first=None, last=None):
    timeline = Timeline(str(lake.root), stores)
    found = list(Verification(timeline, first, last).findings())
    return [(one.what.rpartition("/")[2], one.text) for one in found if one.severity == "problem"]


# The timeline.


def test_whole_timeline_without_its_tables_has_no_problem(lake, stores):
    assert problems(lake, stores) == []
    found = list(Verification(Timeline(str(lake.root), stores), None, None).findings())
    assert {one.severity for one in found} == {"note", "ok"}
    assert sum("is gone" in one.text for one in found) == 7


def test_edited_entry_is_found_by_those_who_hold_its_hash(lake, stores):
    edit(file(lake, 5), timeMs=1)
    [(name, text)] = problems(lake, stores)
    assert name == file(lake, 5).name
    assert file(lake, 5, ".outcome").name in text and file(lake, 6).name in text
    assert problems(lake, stores, 1, 4) == []
    assert problems(lake, stores, 7, 12) == []
    # The next one tells.
    assert [name for name, _ in problems(lake, stores, 6, 6)] == [file(lake, 6).name]


def test_edited_entry_at_the_end_is_found_when_it_has_an_end(lake, stores):
    edit(file(lake, 12), timeMs=1)
    assert problems(lake, stores) == []
    edit(file(lake, 11), timeMs=1)
    assert [name for name, _ in problems(lake, stores)] == [file(lake, 12).name]


@pytest.mark.parametrize(
    ("number", "kind", "fields"),
    [
        (5, ".outcome", {"entryHash": "0" * 64}),
        (5, ".outcome", {"slots": [[3]]}),
        (9, ".outcome", {"outcome": "aborting", "conflict": None}),
        (10, ".rolled_back", {"tables": []}),
        (10, ".rolled_back", {"entryHash": "0" * 64}),
        (1, "", {"previous": "0" * 64}),
    ],
)
def test_damaged_file_is_named(lake, stores, number, kind, fields):
    edit(file(lake, number, kind), **fields)
    assert file(lake, number, kind).name in [name for name, _ in problems(lake, stores)]


def test_foreign_outcome_is_named(lake, stores):
    file(lake, 6, ".outcome").write_bytes(file(lake, 5, ".outcome").read_bytes())
    assert [name for name, _ in problems(lake, stores)] == [file(lake, 6, ".outcome").name]


def test_rolled_back_without_aborting_is_named(lake, stores):
    edit(file(lake, 10, ".outcome"), outcome="completed", slots=[[2], [2]])
    assert [name for name, _ in problems(lake, stores)] == [file(lake, 10, ".rolled_back").name]


@pytest.mark.parametrize("number", [1, 7, 11])
def test_missing_entry_is_named(lake, stores, number):
    file(lake, number).unlink()
    [(name, text)] = problems(lake, stores)
    assert (name, text) == (file(lake, number).name, "It is missing.")


def test_entries_that_are_missing_at_the_end_are_found_by_who_knows_them(lake, stores):
    for number in range(10, 13):
        for kind in ("", ".outcome", ".rolled_back"):
            file(lake, number, kind).unlink(missing_ok=True)
    # A transaction began after entry 10.
    [(name, text)] = problems(lake, stores)
    assert name == file(lake, 10).name and "transactions" in text


def test_entry_of_a_newer_version_is_a_problem_and_the_rest_is_verified(lake, stores):
    edit(file(lake, 12), requiredFeatures=["later"])
    edit(file(lake, 3, ".outcome"), entryHash="0" * 64)
    found = problems(lake, stores)
    assert [name for name, _ in found] == [
        file(lake, n, k).name for n, k in ((3, ".outcome"), (12, ""))
    ]
    assert "LAKESTEP_TIMELINE_FEATURE_UNKNOWN" in found[1][1]


# With the tables.


@pytest.fixture
def whole(stores):
    with old_lake() as (lake, facts):
        yield lake, facts["tables"]


def slot(table, version):
    return f"{table}/_delta_log/{version:020}.json"


def test_commits_of_entries_are_those_in_the_tables(whole, stores):
    lake, _ = whole
    assert problems(lake, stores) == []
    found = list(Verification(Timeline(str(lake.root), stores), None, None).findings())
    assert "17 commits in 7 tables" in found[-1].text
    assert [one.what for one in found if one.severity == "note"] == ["entry 11", "entry 12"]


def test_commit_that_was_replaced_or_lost_is_damage(whole, stores, tmp_path):
    lake, tables = whole
    first = Path(slot(tables["first"], 3))
    kept = first.read_bytes()
    first.write_bytes(Path(slot(tables["second"], 3)).read_bytes())
    assert [name for name, _ in problems(lake, stores)] == [first.name]
    first.write_text("{}")
    assert [name for name, _ in problems(lake, stores)] == [first.name]
    first.unlink()
    [(name, text)] = problems(lake, stores)
    assert name == first.name and text.startswith("It is missing")
    # Where a checkpoint covers it, it was cleaned up.
    Path(tables["first"], "_delta_log", f"{4:020}.checkpoint.parquet").touch()
    assert problems(lake, stores) == []
    first.write_bytes(kept)
    Path(slot(tables["conflict"], 3)).write_text("{}")
    assert len(problems(lake, stores)) == 1
    # The slot may be a later one than the commit's, if the log was cleaned up below it.
    Path(slot(tables["conflict"], 2)).unlink()
    assert problems(lake, stores) == []


def test_table_that_was_made_anew_is_no_damage(whole, stores):
    lake, tables = whole
    shutil.rmtree(tables["first"])
    append(tables["first"], (1, "another"))
    assert problems(lake, stores) == []
    # What is of this timeline's entries has been put under another binding.
    edit(Path(tables["second"], "_delta_log", "_lakestep", "timeline.json"), log="0" * 32)
    found = problems(lake, stores)
    assert found and all("which has not put it" in text for _, text in found)


def of_doctor(lake, stores, severity):
    return [one for one in _doctor.examine(str(lake.root), stores) if one.severity == severity]


def test_doctor_finds_what_is_in_flight_open_and_left_over(whole, stores):
    lake, tables = whole
    assert of_doctor(lake, stores, "problem") == []
    found = [one.what for one in of_doctor(lake, stores, "warning")]
    assert found == ["entry 11", "entry 12", OPEN]
    (lake.root / "transactions" / f"{OPEN}.json").unlink()
    left = [f"file:{tables['first']}", f"file:{tables['second']}"]
    found = [one.what for one in of_doctor(lake, stores, "warning")]
    assert found == ["entry 11", "entry 12", *left]


def test_doctor_finds_tables_of_other_timelines_copies_and_damage(whole, stores):
    lake, tables = whole
    bindings = {k: Path(v, "_delta_log", "_lakestep", "timeline.json") for k, v in tables.items()}
    edit(bindings["first"], timeline="0" * 32)
    shutil.rmtree(tables["second"])
    shutil.copytree(tables["closed"], tables["second"])
    Path(slot(tables["second"], 3)).unlink()
    edit(file(lake, 7), timeMs=1)
    found = of_doctor(lake, stores, "problem")
    conditions = [one.text.partition("]")[0].strip("[") for one in found]
    assert conditions == [
        "LAKESTEP_TIMELINE_CORRUPT",
        "LAKESTEP_TABLE_OF_ANOTHER_TIMELINE",
        "LAKESTEP_TABLE_IS_A_COPY",
    ]


# What an attack found.


def outcome_of(lake, number):
    return json.loads(file(lake, number, ".outcome").read_text())


@pytest.mark.parametrize("make", [lambda v: [-1], lambda v: [*v, *v], lambda v: [v[0], v[0] - 1]])
def test_versions_that_no_entry_can_have(lake, stores, make):
    slots = [make(versions) for versions in outcome_of(lake, 5)["slots"]]
    edit(file(lake, 5, ".outcome"), slots=slots)
    [(name, text)] = problems(lake, stores)
    assert name == file(lake, 5, ".outcome").name and "cannot be those" in text


@pytest.mark.parametrize("settled", [{"how": "whatever"}, {"version": None}])
def test_rollback_that_nobody_writes(lake, stores, settled):
    end = file(lake, 10, ".rolled_back")
    tables = json.loads(end.read_text())["tables"]
    changed = {**tables[0], **settled}
    tables[0] = {key: value for key, value in changed.items() if value is not None}
    edit(end, tables=tables)
    assert [name for name, _ in problems(lake, stores)] == [end.name]


def test_outcome_without_a_commit_of_a_whole_log(stores):
    with old_lake() as (lake, _):
        slots = outcome_of(lake, 5)["slots"]
        edit(file(lake, 5, ".outcome"), slots=[[] for _ in slots])
        found = problems(lake, stores)
        assert {name for name, _ in found} == {file(lake, 5, ".outcome").name}
        assert all("names 0 commits" in text for _, text in found)


def test_end_that_is_cut_off_is_told_by_what_is_left(lake, stores):
    for number in (10, 11, 12):
        for left in (lake.root / "timeline").glob(f"{number:020}.*"):
            left.unlink()
    with pytest.raises(LakestepError, match="it is missing"):
        Timeline(str(lake.root), stores).open_transactions()
    assert [name for name, _ in problems(lake, stores)] == [file(lake, 10).name]
    packs = lake.root / "history" / "entries"
    packs.mkdir(parents=True)
    (packs / file(lake, 64).name).write_text("{}")
    assert problems(lake, stores) != []


def test_listing_that_shows_the_later_of_two_files_alone(lake, stores):
    verification = Verification(Timeline(str(lake.root), stores), None, None)
    verification._names[10].discard(".outcome")
    assert [one.text for one in verification.findings() if one.severity == "problem"] == []


def test_range_without_entries_is_not_sound(lake, stores):
    [found] = Verification(Timeline(str(lake.root), stores), 500, None).findings()
    assert found.severity == "note" and "12" in found.text


def test_files_that_cannot_be_read_end_nothing(lake, stores):
    (lake.root / "transactions" / f"t{'0' * 32}.json").write_text("{")
    (lake.root / "checkpoints" / "00000000000000000012.json").mkdir()
    assert [name for name, _ in problems(lake, stores)] == [f"t{'0' * 32}.json"]


def test_times_and_texts_of_any_kind(lake):
    for name in (lake.root / "transactions").glob("*.json"):
        edit(name, requestedAtMs=10**15, name="näme \ud800 日本")
    program = "import sys; from lakestep._cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "transactions", str(lake.root), "--all"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    for more in ([], ["--json"]):
        done = subprocess.run(
            [*command, *more], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "9999-12-31" in done.stdout
