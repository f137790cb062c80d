"""Whether data files are there: how logs of all kinds are read, and what `verify` finds."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import deltalake
import pytest

from driver import DriverError
from lake import Lake, append
from lakestep import _cli, _doctor
from lakestep._storage import Place, Stores
from lakestep._table_files import TableFiles
from transactions import folder, refused, write

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(3),
]


# Which files a version has.


@pytest.fixture
def stores():
    with Stores() as made:
        yield made


def read_by_delta(spark, name):
    """The data files of a table as Delta names them."""
    files = spark.sql(f"SELECT * FROM {name}").inputFiles()
    return {re.sub("^file:/+", "/", file) for file in files}


V2 = "'delta.checkpointPolicy' = 'v2'"
LOGS = {
    "commits": ("", ()),
    "checkpoint": ("", ("checkpoint",)),
    "parts": ("", ("checkpoint in parts",)),
    "v2": (V2, ("checkpoint",)),
    "v2 parquet": (V2, ("checkpoint as parquet",)),
}


@pytest.mark.parametrize("kind", LOGS)
def test_files_are_those_that_delta_reads(spark, stores, tmp_path, kind):
    more, steps = LOGS[kind]
    path = tmp_path / f"a table, {kind}"
    name = f"delta.`{path}`"
    properties = "'delta.enableDeletionVectors' = 'true'" + (f", {more}" if more else "")
    spark.sql(
        f"CREATE TABLE {name} (id INT, p STRING) USING delta PARTITIONED BY (p)"
        f" TBLPROPERTIES ({properties})"
    )
    for part in ("a b", "50%", "ü/=:", "plain"):
        spark.sql(f"INSERT INTO {name} SELECT id, '{part}' FROM range(4)")
    spark.sql(f"DELETE FROM {name} WHERE id = 1 AND p IN ('a b', 'plain')")
    for step in steps:
        checkpoint(spark, name, step)
    write(spark, f"DELETE FROM {name} WHERE p = '50%'", f"INSERT INTO {name} VALUES (9, 'new')")
    spark.sql(f"DELETE FROM {name} WHERE id = 2 AND p = 'plain'")
    files = TableFiles(stores, Place.named(str(path)))
    needed = newest(files)
    found = {place.path for place in needed}
    vectors = {one for one in found if one.endswith(".bin")}
    names = [one.name for one in (path / "_delta_log").glob("*.checkpoint.*")]
    assert len(names) == 0 if kind == "commits" else len(names) >= (2 if kind == "parts" else 1)
    assert any(name.endswith("json") for name in names) == (kind == "v2"), names
    assert found - vectors == read_by_delta(spark, name)
    live = spark.sql(f"SELECT count(*) FROM {name}").first()[0]
    assert live == 4 * 3 + 1 - 3 and vectors <= set(map(str, path.rglob("*.bin"))) and vectors
    assert files.look_for(needed) == {}
    # Exactly as long as its vectors need it to be.
    for vector in map(Path, vectors):
        content = vector.read_bytes()
        vector.write_bytes(content[:-1])
        assert [place.path for place in opened(stores, path).look_for(needed)] == [str(vector)]
        vector.write_bytes(content)
    # An earlier version, as long as the log tells.
    if not steps:
        assert len(files.of(0)) == 0 and len(files.of(2)) == 4


def newest(files):
    version = files.newest()
    assert version is not None
    return files.of(version)


def opened(stores, path):
    return TableFiles(stores, Place.named(str(path)))


def checkpoint(spark, name, step):
    """Has Delta put a checkpoint of some kind."""
    settings = {
        "checkpoint": {},
        "checkpoint in parts": {"spark.databricks.delta.checkpoint.partSize": "2"},
        "checkpoint as parquet": {
            "spark.databricks.delta.checkpointV2.topLevelFileFormat": "parquet"
        },
    }[step]
    interval = f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.checkpointInterval' = '{{}}')"
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql(interval.format(1))
        spark.sql(interval.format(1000))
    finally:
        for key in settings:
            spark.conf.unset(key)


def test_files_of_a_clone_lie_elsewhere(spark, stores, table, tmp_path):
    source = table("cloned_from")
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/clone` SHALLOW CLONE {source}")
    files = opened(stores, tmp_path / "clone")
    needed = newest(files)
    assert {Path(place.path).parent for place in needed} == {folder(spark, source)}
    assert files.look_for(needed) == {}
    (first, *_) = needed
    Path(first.path).unlink()
    assert files.look_for(needed) == {first: None}


def test_a_version_that_the_log_does_not_tell(stores, tmp_path):
    path = tmp_path / "table"
    for row in range(3):
        append(str(path), (row, "a"))
    (path / "_delta_log" / f"{1:020}.json").unlink()
    with refused("LAKESTEP_LOG_CORRUPT"):
        opened(stores, path).of(2)
    assert len(opened(stores, path).of(0)) == 1


# What is found.


@pytest.fixture(scope="module")
def driver(pool):
    made = pool.start()
    yield made
    made.kill()


class DrivenLake(Lake):
    session: Any


@pytest.fixture
def lake(tmp_path, driver):
    """Two tables, three entries, a foreign commit."""
    made = DrivenLake(tmp_path / "lake", 2)
    session = driver.session(made.root)
    for value in ("one", "two", "three"):
        session.sql("BEGIN", *made.sql(f"UPDATE {{}} SET v = '{value}' WHERE id = 1"), "COMMIT")
    append(made.tables[0], (7, "foreign"))
    made.session = session
    return made


@pytest.fixture
def verified(lake, capsys):
    """What the shell finds, and what SQL does: names of files, and texts."""

    def run(*options, clause="", severity="problem"):
        code = _cli.main(["verify", str(lake.root), *options, "--json"])
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert code == any(row["severity"] == "problem" for row in rows)
        shell = [(row["severity"], row["what"], row["text"], row["next_step"]) for row in rows]
        both = shell, lake.session.sql(f"VERIFY DATABASE {clause}")
        # An error says itself what to do.
        told = (
            s or t.startswith("[LAKESTEP") for one in both for k, _, t, s in one if k == "problem"
        )
        assert all(told)
        return [
            sorted(
                (what.rpartition("/")[2], text) for kind, what, text, _ in found if kind == severity
            )
            for found in both
        ]

    return run


def names(found):
    """The names of both, which are the same."""
    shell, sql = ([what for what, _ in one] for one in found)
    assert shell == sql
    return shell


def commit(lake, table, version):
    return Path(lake.tables[table], "_delta_log", f"{version:020}.json")


def live(lake, table):
    """The data files of a table now."""
    with Stores() as stores:
        files = opened(stores, Path(lake.tables[table]))
        return sorted(Path(place.path) for place in newest(files))


def edit(file, old, new):
    content = file.read_bytes()
    assert content.count(old)
    file.write_bytes(content.replace(old, new, 1))


def test_all_is_there(lake, verified):
    assert verified() == [[], []]
    for found in verified(severity="ok"):
        (data, files), (_, entries) = sorted(found)
        assert "6 commits in 2 tables" in entries
        assert (data, files) == ("data of now", "5 files of 2 tables are there with their sizes.")
    then = verified("--as-of", "1", clause="AS OF VERSION 1", severity="ok")
    assert [sorted(found)[0][1][:9] for found in then] == ["4 files o"] * 2


@pytest.mark.parametrize("how", ["removed", "cut"])
def test_a_data_file_that_is_gone_or_cut(lake, verified, how):
    file = live(lake, 0)[0]
    if how == "removed":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])
    found = verified()
    assert names(found) == [file.name]
    begin = "It is missing" if how == "removed" else f"It has {file.stat().st_size} bytes"
    assert all(text.startswith(begin) for [(_, text)] in found)


def test_files_of_an_earlier_version(lake, verified):
    lake.session.sql("CREATE SNAPSHOT early AS OF VERSION 1")
    old = live(lake, 1)
    lake.session.sql("BEGIN", f"DELETE FROM delta.`{lake.tables[1]}`", "COMMIT")
    for file in old:
        file.unlink()
    assert verified() == [[], []]
    # Since version 1 one of the two files was written again.
    assert len(names(verified("--as-of", "1", clause="AS OF VERSION 1"))) == 1
    assert len(names(verified("--snapshot", "Early", clause="AS OF SNAPSHOT early"))) == 1
    assert names(verified("--as-of", "3", clause="AS OF VERSION 3")) == [f.name for f in old]
    with Stores() as stores:
        [found] = [f for f in _doctor.examine(str(lake.root), stores) if f.severity == "problem"]
    assert "Snapshot early needs version" in found.text and found.what.endswith(".parquet")


def test_a_table_that_a_snapshot_has_and_that_is_gone(lake, verified):
    lake.session.sql("CREATE SNAPSHOT whole")
    shutil.rmtree(lake.tables[1])
    for found in verified("--snapshot", "whole", clause="AS OF SNAPSHOT whole"):
        assert [Path(what).name for what, _ in found] == [Path(lake.tables[1]).name]


def test_the_state_that_was_looked_at_is_named(lake):
    [(now,)] = lake.session.sql("SELECT CAST(current_timestamp() AS STRING)")
    told = lake.session.sql(f"VERIFY DATABASE AS OF TIMESTAMP '{now}'")
    assert any("data of TIMESTAMP 2" in str(row) for row in told), told


def test_an_edited_entry(lake, verified):
    """It is named where two others hold the same hash of it; at the end there is one."""
    file, last = (lake.root / "timeline" / f"{n:020}.json" for n in (2, 3))
    edit(file, b'"user":"', b'"user":"x')
    found = verified()
    assert names(found) == [file.name]
    assert all("was changed" in text for [(_, text)] in found)
    edit(last, b'"user":"', b'"user":"x')
    assert names(verified()) == [file.name, last.with_suffix(".outcome.json").name]


def test_a_missing_entry(lake, verified):
    file = lake.root / "timeline" / f"{2:020}.json"
    file.unlink()
    assert names(verified()) == [file.name]


@pytest.mark.parametrize("old", [b'"size":', b'"dataChange":true'])
def test_a_commit_that_was_changed(lake, verified, old):
    """Its mark is that of its entry, and what it says is not."""
    file = commit(lake, 0, 3)
    new = {b'"size":': b'"size":1', b'"dataChange":true': b'"dataChange":false'}[old]
    edit(file, old, new)
    found = verified()
    assert all((file.name, text) in one for one in found for text in [changed(2)])


def changed(entry):
    return f"It was changed: the outcome of entry {entry} holds another hash of it."


def test_a_forged_commit(lake, verified):
    """With the mark of an entry that is in the table already, or of one that is not there."""
    copied, made = commit(lake, 1, 5), commit(lake, 1, 6)
    shutil.copy(commit(lake, 1, 4), copied)
    text = commit(lake, 1, 4).read_text()
    made.write_text(text.replace('"entry":3', '"entry":99'))
    found = verified()
    assert {copied.name, made.name} <= set(names(found))
    assert all(
        (made.name, "It says it is of entry 99, which has not put it.") in one for one in found
    )


def test_a_table_that_was_made_anew(lake, verified):
    shutil.rmtree(lake.tables[0])
    append(lake.tables[0], (1, "another"))
    assert verified() == [[], []]
    for found in verified(severity="note"):
        assert any(what == Path(lake.tables[0]).name for what, _ in found)


def test_a_commit_without_a_known_hash(lake, verified):
    """Earlier versions have noted none."""
    file = lake.root / "timeline" / f"{2:020}.outcome.json"
    outcome = json.loads(file.read_bytes())
    assert len(outcome.pop("commitHashes")) == 2
    file.write_text(json.dumps(outcome))
    edit(commit(lake, 0, 3), b'"operation":"UPDATE"', b'"operation":"update"')
    assert verified() == [[], []]


# What an attack found.


def test_a_table_that_was_moved(lake, verified):
    old, new = lake.tables[0], f"{lake.tables[0]} moved"
    shutil.move(old, new)
    lake.session.sql("BEGIN", f"UPDATE delta.`{new}` SET v = 'there' WHERE id = 1", "COMMIT")
    assert verified() == [[], []]


def test_an_earlier_version_whose_log_was_cleaned_up(lake, verified, spark):
    path = lake.tables[0]
    deltalake.DeltaTable(path).create_checkpoint()
    for version in range(3):
        commit(lake, 0, version).unlink()
    assert verified("--as-of", "1", clause="AS OF VERSION 1") == [[], []]
    for found in verified("--as-of", "1", clause="AS OF VERSION 1", severity="note"):
        assert any("cannot be read any more" in text for _, text in found)


@pytest.mark.parametrize("damage", ["format", "binding", "no binding", "hashes", "end", "number"])
def test_damage_that_was_called_sound(lake, verified, damage):
    timeline = lake.root / "timeline"
    binding = Path(lake.tables[0], "_delta_log", "_lakestep", "timeline.json")
    if damage == "format":
        (lake.root / "format.json").unlink()
        assert _cli.main(["verify", str(lake.root), "--json"]) == 1
        shown = lake.session.sql("VERIFY DATABASE")
        assert any(f == "problem" and w.endswith("format.json") for f, w, _, _ in shown)
        return
    if damage == "binding":
        binding.write_text("{")
        told = binding
    elif damage == "no binding":
        binding.unlink()
        told = binding
    elif damage == "hashes":
        told = timeline / f"{2:020}.outcome.json"
        edit(told, b'"commitHashes":[', b'"commitHashes":["zz",')
    elif damage == "end":
        told = timeline / f"{2:020}.outcome.json"
        told.unlink()
    else:
        told = timeline / "00009999999999999999.json"
        told.write_text("{}")
    for found in verified():
        assert told.name in [name for name, _ in found], found


def test_dropped_tables_are_not_looked_for(lake, verified):
    lake.session.sql(
        "CREATE SCHEMA IF NOT EXISTS verified",
        "BEGIN",
        "CREATE TABLE verified.gone (id INT) USING delta",
        "INSERT INTO verified.gone VALUES (1)",
        "COMMIT",
    )
    before = verified(severity="ok")
    assert all("of 3 tables" in dict(found)["data of now"] for found in before)
    lake.session.sql("BEGIN", "DROP TABLE verified.gone", "COMMIT")
    after = verified(severity="ok")
    assert all("of 2 tables" in dict(found)["data of now"] for found in after)


def test_what_cannot_be_asked_for(lake, verified, capsys):
    root = str(lake.root)
    assert _cli.main(["verify", root, "--as-of", "9", "--json"]) == 1
    assert "LAKESTEP_AS_OF_NOT_FOUND" in capsys.readouterr().out
    assert _cli.main(["verify", root, "--snapshot", "none", "--json"]) == 1
    assert "LAKESTEP_NO_SUCH_SNAPSHOT" in capsys.readouterr().out
    assert _cli.main(["verify", root, "--as-of", "1", "--no-files"]) == 2
    for clause, condition in [
        ("AS OF VERSION 9", "LAKESTEP_AS_OF_NOT_FOUND"),
        ("AS OF SNAPSHOT none", "LAKESTEP_NO_SUCH_SNAPSHOT"),
    ]:
        with pytest.raises(DriverError, match=condition):
            lake.session.sql(f"VERIFY DATABASE {clause}")
    with pytest.raises(DriverError, match="LAKESTEP_TRANSACTION_ALREADY_ACTIVE"):
        lake.session.sql("BEGIN", "VERIFY DATABASE")
    lake.session.sql("ROLLBACK")
