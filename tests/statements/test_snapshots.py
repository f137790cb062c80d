"""Named snapshots: what they read, and who must not take it from them."""

import contextlib
import json
import os
import shutil
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from blake3 import blake3
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException, IllegalArgumentException

import lakestep
from driver import TIMEOUT_S, DriverError, at_once
from lake import Lake
from process import CallFailed, Died
from settings import setting
from three_rows import ids
from transactions import begin, condition_of, folder, refused, rollback, write

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]


# The local disk, on which a client halts before it deletes a file of a log.
STOPS = {
    "fs.file.impl": "io.lakestep.testing.HaltingFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@pytest.fixture(autouse=True)
def vacuums_at_once(spark):
    """VACUUM deletes what nobody holds, and tables are dropped without a trace of the test."""
    drop_all(spark)
    with setting(spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        yield
    spark.conf.unset("spark.lakestep.undo.retainHours")
    drop_all(spark)


def drop_all(spark):
    for row in spark.sql("SHOW SNAPSHOTS").collect():
        spark.sql(f"DROP SNAPSHOT `{row['snapshot']}`")


@pytest.fixture
def alone(spark):
    """No transaction that another test has left keeps VACUUM from anything."""
    spark.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")


def at(session, snapshot, *tables):
    """The ids of tables in the snapshot, or why one is not to be read."""
    found = []
    with lakestep.transaction(session, as_of=snapshot):
        for name in tables:
            try:
                found.append(ids(session, name))
            except Exception as failure:
                found.append(condition_of(failure))
    return found


def created(spark, name, clause=""):
    (row,) = spark.sql(f"CREATE SNAPSHOT `{name}` {clause}").collect()
    return row.asDict()


def shown(session):
    return {row["snapshot"]: row.asDict() for row in session.sql("SHOW SNAPSHOTS").collect()}


def test_a_snapshot_is_read_as_it_was(spark, other_session, table):
    one, two = table("snap_one"), table("snap_two")
    entry = write(spark, f"INSERT INTO {one} VALUES (3, 'c')", f"DELETE FROM {two} WHERE id = 1")
    spark.sql(f"INSERT INTO {two} VALUES (7, 'outside')")
    row = created(spark, "Before_load", "COMMENT 'it is late'")
    assert (row["snapshot"], row["version"], row["state"]) == ("before_load", entry, "KEPT")
    assert (row["comment"], row["retain_until"]) == ("it is late", None)
    write(spark, f"DELETE FROM {one}", f"INSERT INTO {two} VALUES (8, 'after')")
    spark.sql(f"INSERT INTO {two} VALUES (9, 'outside')")
    then = [[1, 2, 3], [2, 7]]
    assert at(other_session, "before_load", one, two) == then
    assert at(other_session, "BEFORE_LOAD", one, two) == then
    # Outside a transaction, and in one that reads the newest.
    query = "{} VERSION AS OF 'snapshot:before_load'"
    for inside in (False, True):
        if inside:
            begin(other_session)
        assert [ids(other_session, query.format(name)) for name in (one, two)] == then
        joined = f"{query.format(one)} a JOIN {query.format(two)} b USING (id)"
        assert ids(other_session, joined) == [2]
        assert (
            ids(other_session, f"{two} FOR SYSTEM_VERSION AS OF 'Snapshot:Before_Load'") == then[1]
        )
        reader = other_session.read.option("lakestepVersion", "snapshot:before_load")
        assert sorted(r["id"] for r in reader.table(one).collect()) == then[0]
        path = str(folder(spark, one))
        assert sorted(r["id"] for r in reader.format("delta").load(path).collect()) == then[0]
        assert ids(other_session, one) == []
    rollback(other_session)
    assert shown(other_session)["before_load"] == row
    other_session.sql("DROP SNAPSHOT before_load")
    assert shown(spark) == {}
    with refused("LAKESTEP_NO_SUCH_SNAPSHOT", "42704"):
        spark.sql("BEGIN AS OF SNAPSHOT before_load")
    assert not list((folder(spark, one) / "_delta_log/_lakestep/kept").glob("*"))


def test_of_an_earlier_version_and_by_time(spark, table):
    name = table("snap_earlier")
    first = write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    second = write(spark, f"DELETE FROM {name} WHERE id = 1")
    row = created(spark, "first", f"AS OF VERSION {first} RETAIN 2 DAYS")
    assert row["version"] == first
    assert row["retain_until"] == row["created_at"] + timedelta(days=2)
    query = f"SELECT max(ended_at) FROM lakestep_timeline() WHERE entry <= {second}"
    (ended,) = spark.sql(query).first()
    assert created(spark, "by-time", f"AS OF TIMESTAMP '{ended}'")["version"] == second
    assert created(spark, "same", "AS OF SNAPSHOT first")["version"] == first
    write(spark, f"DELETE FROM {name}")
    found = [at(spark, snapshot, name) for snapshot in ("first", "by-time", "same")]
    assert found == [[[1, 2, 3]], [[2, 3]], [[1, 2, 3]]]
    assert sorted(shown(spark)) == ["by-time", "first", "same"]
    with refused("LAKESTEP_AS_OF_NOT_FOUND"):
        created(spark, "future", "AS OF VERSION 999999999")


def test_a_snapshot_of_a_version_that_has_a_checkpoint(spark, table):
    name = table("snap_checkpointed", rows=())
    for number in range(10):
        write(spark, f"INSERT INTO {name} VALUES ({number}, 'x')")
    log = folder(spark, name) / "_delta_log"
    assert (log / f"{10:020d}.checkpoint.parquet").exists()
    assert created(spark, "tenth")["state"] == "KEPT"
    write(spark, f"DELETE FROM {name}")
    assert at(spark, "tenth", name) == [list(range(10))]
    assert ids(spark, f"{name} VERSION AS OF 'snapshot:tenth'") == list(range(10))


def test_a_snapshot_of_a_snapshot_whose_log_was_cleaned_up(spark, table):
    name = table("snap_copied")
    write(spark, f"DELETE FROM {name} WHERE id = 1")
    then = ids(spark, name)
    created(spark, "copied")
    for number in range(3, 13):
        write(spark, f"INSERT INTO {name} VALUES ({number}, 'x')")
    log = folder(spark, name) / "_delta_log"
    for commit in log.glob("0*.json"):
        if int(commit.name[:20]) < 8:
            commit.unlink()
    assert created(spark, "again", "AS OF SNAPSHOT copied")["state"] == "KEPT"
    spark.sql("DROP SNAPSHOT copied")
    assert at(spark, "again", name) == [then]
    spark.sql("DROP SNAPSHOT again")


def test_names_are_those_of_then(spark, table, alone):
    name = table("snap_named")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    created(spark, "named")
    write(
        spark,
        f"ALTER TABLE {name} RENAME TO snap_renamed",
        f"CREATE TABLE {name} (id INT) USING delta",
    )
    write(spark, "DROP TABLE snap_renamed", f"INSERT INTO {name} VALUES (5)")
    assert at(spark, "named", name) == [[1, 2, 3]]
    assert ids(spark, f"{name} VERSION AS OF 'snapshot:named'") == [1, 2, 3]
    done = spark.sql("VACUUM DROPPED TABLES RETAIN 0 HOURS").collect()
    (kept,) = [row["result"] for row in done if row["table"] == "snap_renamed"]
    assert kept == "KEPT: snapshot named reads it"
    assert ids(spark, f"{name} VERSION AS OF 'snapshot:named'") == [1, 2, 3]
    spark.sql("DROP SNAPSHOT named")
    done = spark.sql("VACUUM DROPPED TABLES RETAIN 0 HOURS").collect()
    assert [r["result"] for r in done if r["table"] == "snap_renamed"] == ["DELETED"]


def test_what_is_wrong_is_said(spark, other_session, table):
    name = table("snap_wrong")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    created(spark, "taken")
    before = shown(spark)
    for text, condition, state in [
        ("CREATE SNAPSHOT TAKEN", "LAKESTEP_SNAPSHOT_EXISTS", "42710"),
        ("CREATE SNAPSHOT `a.b`", "LAKESTEP_SNAPSHOT_NAME_INVALID", "42602"),
        ("CREATE SNAPSHOT ''", "LAKESTEP_SNAPSHOT_NAME_INVALID", "42602"),
        ("CREATE SNAPSHOT a RETAIN 0 DAYS", "LAKESTEP_SNAPSHOT_DAYS_INVALID", "22023"),
        ("CREATE SNAPSHOT a RETAIN many DAYS", "LAKESTEP_SNAPSHOT_DAYS_INVALID", "22023"),
        ("CREATE SNAPSHOT a AS OF SNAPSHOT none", "LAKESTEP_NO_SUCH_SNAPSHOT", "42704"),
        ("DROP SNAPSHOT none", "LAKESTEP_NO_SUCH_SNAPSHOT", "42704"),
        (f"SELECT * FROM {name} VERSION AS OF 'snapshot:no'", "LAKESTEP_NO_SUCH_SNAPSHOT", "42704"),
    ]:
        with refused(condition, state):
            spark.sql(text).collect()
    spark.sql("DROP SNAPSHOT IF EXISTS none")
    begin(spark)
    for text in ("CREATE SNAPSHOT other", "DROP SNAPSHOT taken"):
        with refused("LAKESTEP_TRANSACTION_ALREADY_ACTIVE", "25001"):
            spark.sql(text)
    assert shown(spark) == before == shown(other_session)
    rollback(spark)
    spark.sql("DROP SNAPSHOT taken")
    assert created(spark, "taken")["snapshot"] == "taken"


@pytest.mark.parametrize("kind", ["plain", "partitioned", "deletion vectors", "closed", "LITE"])
def test_vacuum_leaves_what_a_snapshot_reads(spark, table, alone, kind):
    name = "snap_vacuumed"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    partition = "PARTITIONED BY (v)" if kind == "partitioned" else ""
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta {partition}")
    if kind == "deletion vectors":
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    if kind == "closed":
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')")
    vacuum = f"VACUUM {name} {kind if kind == 'LITE' else ''} RETAIN 0 HOURS"
    write(spark, f"INSERT INTO {name} SELECT id, concat('a b%', id % 3) FROM range(30)")
    write(spark, f"DELETE FROM {name} WHERE id % 10 = 1")
    created(spark, "held")
    write(spark, f"UPDATE {name} SET id = id + 100 WHERE id < 15")
    write(spark, f"DELETE FROM {name} WHERE id >= 100")
    spark.sql(f"OPTIMIZE {name}")
    expected = [n for n in range(30) if n % 10 != 1]
    ours, data = folder(spark, name), lambda: set(folder(spark, name).rglob("*.parquet"))
    before = data()
    dry = {row["path"] for row in spark.sql(f"{vacuum} DRY RUN").collect()}
    assert [row["path"] for row in spark.sql(vacuum).collect()] == [f"file:{ours}"]
    gone = before - data()
    assert gone, "VACUUM deleted what nobody needs"
    assert {f"file:{path}" for path in gone} <= dry
    assert at(spark, "held", name) == [expected]
    assert ids(spark, f"{name} VERSION AS OF 'snapshot:held'") == expected
    (held,) = spark.sql(f"SELECT * FROM lakestep_held('{name}')").collect()
    assert (held["holder"], held["name"]) == ("SNAPSHOT", "held")
    assert held["files"] > 0 and held["bytes"] > 0
    spark.sql("DROP SNAPSHOT held")
    assert spark.sql(f"SELECT * FROM lakestep_held('{name}')").collect() == []
    spark.sql(f"VACUUM {name} RETAIN 0 HOURS").collect()
    left = data()
    live = {
        row[0] for row in spark.sql(f"SELECT DISTINCT _metadata.file_path FROM {name}").collect()
    }
    assert len(left) == len(live) < len(before)
    newest = [n for n in expected if n >= 15]
    assert ids(spark, name) == newest
    created(spark, "of_what_is_left")
    write(spark, f"DELETE FROM {name}")
    spark.sql(vacuum)
    assert at(spark, "of_what_is_left", name) == [newest]
    spark.sql("DROP SNAPSHOT of_what_is_left")
    spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("form", ["api", "inventory"])
def test_every_form_of_vacuum_leaves_what_a_snapshot_reads(spark, table, alone, form):
    name = table("snap_forms")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    created(spark, "formed")
    write(spark, f"DELETE FROM {name}")
    files = list(folder(spark, name).glob("*.parquet"))
    listed = [(f"file:{f}", f.stat().st_size, False, int(f.stat().st_mtime * 1000)) for f in files]
    shape = "path STRING, length LONG, isDir BOOLEAN, modificationTime LONG"
    spark.createDataFrame(listed, shape).createOrReplaceTempView("inventory")

    def vacuum():
        if form == "api":
            DeltaTable.forName(spark, name).vacuum(0)
        else:
            spark.sql(f"VACUUM {name} USING INVENTORY (SELECT * FROM inventory) RETAIN 0 HOURS")

    vacuum()
    assert at(spark, "formed", name) == [[1, 2, 3]]
    spark.sql("DROP SNAPSHOT formed")
    vacuum()
    assert not any(file.exists() for file in files)


def test_a_vacuum_that_fails_before_it_deletes_is_as_if_it_had_not_been(spark, table, alone):
    name = table("snap_uncut")
    entry = write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    write(spark, f"DELETE FROM {name} WHERE id = 1")
    for inventory, condition in (
        ("(SELECT 'x' AS path)", "DELTA_INVALID_INVENTORY_SCHEMA"),
        ("(SELECT * FROM nothing)", "TABLE_OR_VIEW_NOT_FOUND"),
    ):
        with refused(condition):
            spark.sql(f"VACUUM {name} USING INVENTORY {inventory} RETAIN 0 HOURS")
    created(spark, "uncut", f"AS OF VERSION {entry}")
    assert at(spark, "uncut", name) == [[1, 2, 3]]
    spark.sql("DROP SNAPSHOT uncut")


def test_what_is_kept_for_nobody_any_more_is_told(spark, table, alone):
    name = table("snap_expired")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    created(spark, "over", "RETAIN 1 DAYS")
    root = spark._jvm.io.lakestep.transaction.Databases.root(spark._jsparkSession)
    (file,) = Path(root.removeprefix("file:"), "snapshots").glob("over.*.json")
    held = json.loads(file.read_text())
    del held["sum"]
    held["retainUntilMs"] = int(time.time() * 1000) - 1
    text = json.dumps(held, separators=(",", ":"), ensure_ascii=False)
    held["sum"] = blake3(text.encode()).hexdigest()
    file.write_text(json.dumps(held, separators=(",", ":"), ensure_ascii=False) + "\n")
    assert shown(spark)["over"]["state"] == "EXPIRED"
    write(spark, f"DELETE FROM {name}")
    spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    assert shown(spark) == {}


def age(files, days):
    """Make files older than they are."""
    for file in files:
        os.utime(file, (time.time() - days * 86400,) * 2)


def requested(spark):
    root = spark._jvm.io.lakestep.transaction.Databases.root(spark._jsparkSession)
    return list(Path(root.removeprefix("file:"), "transactions").glob("t*.json"))


# Delta 4.4 goes by the property of the table where the hours are not 0.
@pytest.mark.parametrize("hours", ["", "RETAIN 0 HOURS", "RETAIN 200 HOURS"])
def test_vacuum_leaves_what_open_transactions_need(spark, other_session, table, alone, hours):
    name = table("snap_open", rows=[(n, "a") for n in range(1, 5)])
    if hours != "RETAIN 0 HOURS":
        spark.sql(
            f"ALTER TABLE {name} SET TBLPROPERTIES ("
            "'delta.deletedFileRetentionDuration' = 'interval 0 hours')"
        )
    write(spark, f"DELETE FROM {name} WHERE id = 4")
    old = set(folder(spark, name).glob("*.parquet"))
    begin(other_session)
    other_session.sql(f"UPDATE {name} SET v = 'staged' WHERE id = 1")
    spark.sql(f"INSERT INTO {name} VALUES (9, 'x')")
    spark.sql(f"DELETE FROM {name} WHERE id IN (2, 9)")
    spark.sql(f"UPDATE {name} SET v = 'outside' WHERE id = 3")
    (held,) = spark.sql(f"SELECT * FROM lakestep_held('{name}')").collect()
    assert held["holder"] == "TRANSACTION" and held["files"] > 0
    files = set(folder(spark, name).glob("*.parquet"))
    age(old, days=20)
    (open_one,) = requested(spark)
    age([*(files - old), open_one], days=10)
    spark.sql(f"VACUUM {name} {hours}")
    assert files > set(folder(spark, name).glob("*.parquet"))
    assert ids(other_session, name) == [1, 2, 3]
    assert sorted(r["v"] for r in other_session.table(name).collect()) == ["a", "a", "staged"]
    rollback(other_session)


def test_who_reads_rows_that_a_deletion_vector_deleted_is_told(spark, table, alone):
    name = table("snap_vectors", rows=[(n, "a") for n in range(9)])
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    write(spark, f"OPTIMIZE {name}")
    created(spark, "persons")

    def held():
        (row,) = spark.sql(f"SELECT * FROM lakestep_held('{name}')").collect()
        return row["files"], row["has_deleted_rows"]

    assert held() == (0, False)
    write(spark, f"INSERT INTO {name} VALUES (9, 'b')")
    assert held() == (0, False)
    write(spark, f"DELETE FROM {name} WHERE id = 1")
    assert held() == (0, True)
    write(spark, f"DELETE FROM {name} WHERE id < 9")
    assert held() == (1, True)
    spark.sql("DROP SNAPSHOT persons")
    spark.conf.set("spark.lakestep.undo.retainHours", "1")
    row = spark.sql(f"SELECT * FROM lakestep_held('{name}')").first()
    assert (row["holder"], row["name"], row["version"]) == ("UNDO", None, None)
    assert row["files"] > 0 and row["has_deleted_rows"]
    spark.conf.unset("spark.lakestep.undo.retainHours")
    assert spark.sql(f"SELECT * FROM lakestep_held('{name}')").collect() == []


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("holder", ["transaction", "undo", "nobody"])
def test_log_clean_ups_leave_what_is_needed(spark, other_session, table, alone, holder, outside):
    """Those of transactions, and of statements outside on a table that is open."""
    name = table("snap_log")
    log = folder(spark, name) / "_delta_log"
    spark.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 0 hours', "
        "'delta.deletedFileRetentionDuration' = 'interval 0 hours', 'delta.checkpointInterval' = "
        f"'2', 'lakestep.foreignWriters' = '{'allow' if outside else 'forbid'}')"
    )

    def insert(number, text):
        statement = f"INSERT INTO {name} VALUES ({number}, '{text}')"
        if outside:
            spark.sql(statement)
        else:
            write(spark, statement)

    for number in range(3, 7):
        entry = write(spark, f"INSERT INTO {name} VALUES ({number}, 'before')")

    def grow_old():
        """The newer a file of the log is, the younger."""
        for file in log.glob("0*"):
            age([file], days=40 - int(file.name[:20]))

    grow_old()
    before = ids(spark, name)
    began = max(file.name[:20] for file in log.glob("0*.json"))
    if holder == "transaction":
        begin(other_session)
    if holder == "undo":
        # Since half a day after that version, which is read then: its checkpoint is older.
        spark.conf.set("spark.lakestep.undo.retainHours", str(24 * (40 - int(began)) - 12))
    # What comes before it belongs to the version of before.
    write(spark, f"INSERT INTO {name} VALUES (7, 'after')")
    for number in range(8, 12):
        insert(number, "after")
    grow_old()
    for number in range(12, 14):
        insert(number, "later")
    first = min(file.name[:20] for file in log.glob("0*.json"))
    assert (first <= began) == (holder != "nobody")
    assert int(first) > 0, "what nobody needs goes"
    if holder == "undo":
        spark.sql(f"BEGIN AS OF VERSION {entry}")
        assert ids(spark, name) == before
        rollback(spark)
    if holder == "transaction":
        # It has not touched the table before.
        assert ids(other_session, name) == before
        rollback(other_session)
    spark.conf.unset("spark.lakestep.undo.retainHours")
    for number in range(14, 16):
        write(spark, f"INSERT INTO {name} VALUES ({number}, 'last')")
    assert min(file.name[:20] for file in log.glob("0*.json")) > began


def test_until_when_a_snapshot_without_copies_is_safe(spark, table, alone):
    name = table("snap_risk")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    log = folder(spark, name) / "_delta_log"
    # It is read from the first commit on.
    age([log / f"{0:020}.json"], days=10)
    kept = log / "_lakestep/kept"
    kept.write_text("no folder")
    state = created(spark, "risk")["state"]
    said, until = state.split(": ", 1)[0].rsplit(" ", 1)
    assert said == "AT RISK until"
    days = (datetime.fromisoformat(until.replace("Z", "+00:00")) - datetime.now(timezone.utc)).days
    assert days in (19, 20)
    kept.unlink()
    assert shown(spark)["risk"]["state"] == "KEPT"
    spark.sql("DROP SNAPSHOT risk")


def test_a_snapshot_of_what_vacuum_has_cut_is_refused(spark, table, alone):
    name, other = table("snap_cut"), table("snap_uncut")
    entry = write(spark, f"DELETE FROM {name} WHERE id = 1", f"DELETE FROM {other}")
    newer = write(spark, f"UPDATE {name} SET v = 'x'", f"INSERT INTO {other} VALUES (5, 'y')")
    spark.sql(f"VACUUM {other} RETAIN 1000 HOURS")
    created(spark, "early", f"AS OF VERSION {entry}")
    spark.sql("DROP SNAPSHOT early")
    spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    with refused("LAKESTEP_SNAPSHOT_CUT", "55000"):
        created(spark, "late", f"AS OF VERSION {entry}")
    assert shown(spark) == {}
    assert created(spark, "late", f"AS OF VERSION {newer}")["state"] == "KEPT"
    assert at(spark, "late", name, other) == [[2], [5]]


def test_a_refused_vacuum_cuts_nothing(spark, table, alone):
    name = table("snap_refused")
    entry = write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    write(spark, f"DELETE FROM {name}")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "true")
    with pytest.raises(IllegalArgumentException):
        spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    created(spark, "after", f"AS OF VERSION {entry}")
    assert at(spark, "after", name) == [[1, 2, 3]]


def test_a_table_that_is_made_anew_is_not_read_for_it(spark, tmp_path):
    name = f"delta.`{tmp_path}/anew`"
    spark.sql(f"CREATE TABLE {name} (id INT) USING delta")
    write(spark, f"INSERT INTO {name} VALUES (1), (2)")
    created(spark, "anew")
    shutil.rmtree(tmp_path / "anew")
    spark.sql(f"CREATE TABLE {name} (id INT) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (666)")
    assert shown(spark)["anew"]["state"].startswith("AT RISK: ")
    assert at(spark, "anew", name) == ["LAKESTEP_NOT_THERE_AS_OF"]
    with refused("LAKESTEP_NOT_THERE_AS_OF"):
        ids(spark, f"{name} VERSION AS OF 'snapshot:anew'")


def test_vacuum_finds_what_is_held_where_the_table_is_now(spark, tmp_path, alone):
    one, two = (f"delta.`{tmp_path}/{name}`" for name in ("here", "there"))
    spark.sql(f"CREATE TABLE {one} (id INT) USING delta")
    write(spark, f"INSERT INTO {one} VALUES (1), (2)")
    created(spark, "moved")
    spark.sql(f"DELETE FROM {one} WHERE id = 1")
    (tmp_path / "here").rename(tmp_path / "there")
    (held,) = spark.sql(f"SELECT * FROM lakestep_held('{two}')").collect()
    assert held["files"] > 0
    spark.sql(f"VACUUM {two} RETAIN 0 HOURS")
    assert ids(spark, f"{two} VERSION AS OF 1") == [1, 2]


def test_vacuum_that_cannot_tell_what_is_held_deletes_nothing(spark, table, alone):
    name = table("snap_blind")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.checkpointInterval' = '3')")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    created(spark, "blind")
    (held,) = spark.sql(f"SELECT * FROM lakestep_held('{name}')").collect()
    version = held["version"]
    while not list((folder(spark, name) / "_delta_log").glob("*6.checkpoint.parquet")):
        write(spark, f"INSERT INTO {name} VALUES (4, 'd')")
    write(spark, f"DELETE FROM {name}")
    files = set(folder(spark, name).glob("*.parquet"))
    log = folder(spark, name) / "_delta_log"
    hidden = log / "_lakestep/hidden"
    (log / "_lakestep/kept").rename(hidden)
    # The log itself has the version.
    spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    assert ids(spark, f"{name} VERSION AS OF {version}") == [1, 2, 3]
    files = set(folder(spark, name).glob("*.parquet"))
    for file in log.glob("0*"):
        if int(file.name[:20]) < 6:
            file.unlink()
    with refused("LAKESTEP_HELD_VERSION_UNREADABLE", "55000"):
        spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    assert files == set(folder(spark, name).glob("*.parquet"))
    spark.sql("DROP SNAPSHOT blind")
    spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    assert files > set(folder(spark, name).glob("*.parquet"))


def test_vacuum_with_the_root_of_others_is_refused(spark, table, tmp_path, alone):
    name = table("snap_rooted")
    write(spark, f"DELETE FROM {name} WHERE id = 1")
    session = spark.newSession()
    session.conf.set("spark.lakestep.root", f"file:{tmp_path}/other")
    with refused("LAKESTEP_TABLE_OF_ANOTHER_TIMELINE"):
        session.sql(f"VACUUM {name}")


def test_a_snapshot_that_is_dropped_while_it_is_read(spark, other_session, table):
    name, met = table("snap_dropped"), table("snap_dropped_met")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')", f"DELETE FROM {met}")
    created(spark, "short")
    other_session.sql("BEGIN AS OF SNAPSHOT short")
    assert ids(other_session, met) == []
    assert ids(other_session, name) == [1, 2, 3]
    spark.sql("DROP SNAPSHOT short")
    with refused("LAKESTEP_SNAPSHOT_DROPPED", "55000"):
        ids(other_session, name)
    rollback(other_session)


def test_times_and_checkpoints_of_version_2_are_copied(spark, tmp_path):
    path = tmp_path / "v2[pq] é%"
    name = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {name} (id INT) USING delta TBLPROPERTIES"
        " ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2')"
    )
    for number in range(3):
        write(spark, f"INSERT INTO {name} VALUES ({number})")
    log = path / "_delta_log"
    assert list((log / "_sidecars").glob("*.parquet"))
    for commit_file in log.glob("*.json"):
        os.utime(commit_file, (time.time() - 5 * 86400,) * 2)
    assert created(spark, "v2")["state"] == "KEPT"
    write(spark, f"DELETE FROM {name}")
    for file in log.glob("0*"):
        if not file.name.startswith(f"{4:020d}"):
            file.unlink()
    assert at(spark, "v2", name) == [[0, 1, 2]]
    (kept,) = (log / "_lakestep/kept").glob("*/*3.json")
    assert kept.stat().st_mtime < time.time() - 4 * 86400


def test_the_log_is_kept_from_clean_ups(spark, plain, tmp_path):
    path = tmp_path / "cleaned"
    name = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta")
    write(spark, f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    created(spark, "early")
    spark.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.checkpointInterval' = '3',"
        " 'delta.logRetentionDuration' = 'interval 0 hours',"
        " 'delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    log = path / "_delta_log"
    # Delta keeps the commits of today, by the times of their files.
    for commit_file in log.glob("*.json"):
        old = commit_file.stat().st_mtime - 3 * 86400
        os.utime(commit_file, (old, old))
    for number in range(4):
        plain.ask("sql", text=f"INSERT INTO {name} VALUES ({10 + number}, 'plain')")
    assert not (log / f"{1:020d}.json").exists(), "the log was not cleaned up"
    with pytest.raises(AnalysisException):
        spark.sql(f"SELECT * FROM {name} VERSION AS OF 2").collect()
    assert at(spark, "early", name) == [[1, 2, 3]]
    assert ids(spark, f"{name} VERSION AS OF 'snapshot:early'") == [1, 2, 3]
    spark.sql(f"DELETE FROM {name}")
    spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    assert at(spark, "early", name) == [[1, 2, 3]]
    assert shown(spark)["early"]["state"] == "KEPT"
    spark.sql("DROP SNAPSHOT early")


def test_a_vacuum_of_others_takes_nothing_of_a_closed_table(spark, plain, table):
    name = table("snap_closed")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    created(spark, "held")
    write(spark, f"DELETE FROM {name} WHERE id < 3", f"INSERT INTO {name} VALUES (4, 'd')")
    path = folder(spark, name)
    files = set(path.rglob("*.parquet"))
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    plain.ask("sql", text=f"SET {check} = false")
    try:
        for mode in ("", "LITE"):
            with pytest.raises(CallFailed, match="FEATURES"):
                plain.ask("sql", text=f"VACUUM delta.`{path}` {mode} RETAIN 0 HOURS")
    finally:
        plain.ask("sql", text=f"RESET {check}")
    assert set(path.rglob("*.parquet")) == files
    assert at(spark, "held", name) == [[1, 2, 3]]
    # An open table is not kept from it; who is asked says what is gone.
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'allow')")
    plain.ask("sql", text=f"SET {check} = false")
    try:
        plain.ask("sql", text=f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    finally:
        plain.ask("sql", text=f"RESET {check}")
    assert set(path.rglob("*.parquet")) < files
    # The snapshot has the tables of other tests too, which may have lost files of theirs.
    told = {
        Path(row["what"]).name
        for row in spark.sql("VERIFY DATABASE AS OF SNAPSHOT held").collect()
        if row["severity"] == "problem" and f"/{name}/" in row["what"]
    }
    gone = {file.name for file in files - set(path.rglob("*.parquet"))}
    assert told and told <= gone


def test_a_client_that_dies_while_it_cleans_a_log_up(drivers, tmp_path):
    """What snapshots and open transactions read is left from the first deletion on."""
    dying, living = drivers(2)
    lake = Lake(tmp_path)
    path = tmp_path / "t"
    name = f"delta.`{path}`"
    session, other = dying.session(lake.root, **STOPS), living.session(lake.root)

    def insert(of, number):
        of.sql("BEGIN", f"INSERT INTO {name} VALUES ({number}, 'x')", "COMMIT")

    def read(query):
        return sorted(row[0] for row in other.sql(f"SELECT id FROM {query}"))

    session.sql(
        f"CREATE TABLE {name} (id INT, v STRING) USING delta TBLPROPERTIES"
        " ('delta.logRetentionDuration' = 'interval 0 hours',"
        " 'delta.deletedFileRetentionDuration' = 'interval 0 hours',"
        " 'delta.checkpointInterval' = '4')"
    )
    for number in range(1, 10):
        insert(session, number)
    other.sql("CREATE SNAPSHOT third AS OF VERSION 3")
    other.sql("CREATE SNAPSHOT eighth AS OF VERSION 8")
    other.sql("BEGIN")
    log = path / "_delta_log"

    def grow_old(of):
        # What follows a commit has ended.
        of.call("transactions:flush")
        for file in log.glob("0*"):
            age([file], days=40 - int(file.name[:20]))

    grow_old(session)
    for number in (10, 11):
        insert(session, number)
    grow_old(session)
    before = set(log.glob("0*"))
    with dying.halts("delete:2") as halts:
        committing = session.start_sql("BEGIN", f"INSERT INTO {name} VALUES (12, 'x')", "COMMIT")
        assert halts.reached() == "delete:2"
        dying.kill()
    with contextlib.suppress(Died):
        committing.result(TIMEOUT_S)
    assert before - set(log.glob("0*")), "something was deleted"
    # It reads as it did when it began, and so do the snapshots.
    assert read(name) == list(range(1, 10))
    other.sql("ROLLBACK")

    def check():
        assert read(f"{name} VERSION AS OF 'snapshot:third'") == [1, 2, 3]
        assert read(f"{name} VERSION AS OF 'snapshot:eighth'") == list(range(1, 9))

    check()
    assert read(name) == list(range(1, 13))
    grow_old(other)
    for number in range(13, 18):
        insert(other, number)
    other.call("transactions:flush")
    assert read(name) == list(range(1, 18))
    check()
    # The next one has gone on where the dead one stopped.
    assert not (log / f"{1:020}.json").exists()
    found = other.sql("VERIFY DATABASE AS OF SNAPSHOT third")
    assert "problem" not in {row[0] for row in found}
    other.sql("RESTORE DATABASE TO SNAPSHOT third")
    assert read(name) == [1, 2, 3]


# The first put is that of a hold.
@pytest.mark.parametrize("step", ["snapshotPut:2", "logCopied:1"])
def test_whoever_comes_next_makes_the_copies_of_a_dead_client(drivers, tmp_path, step):
    dying, living = drivers(2)
    lake = Lake(tmp_path, 2)
    session = dying.session(lake.root)
    session.sql("BEGIN", *lake.sql("UPDATE {} SET v = 'then' WHERE id = 1"), "COMMIT")
    with dying.halts(step) as halts:
        creating = session.start_sql("CREATE SNAPSHOT night")
        halts.during(creating)
        assert halts.reached() == step
        dying.kill()
    with pytest.raises(Died):
        creating.result(TIMEOUT_S)
    other = living.session(lake.root)
    (row,) = other.sql("SHOW SNAPSHOTS")
    assert row[-1] == "KEPT"
    other.sql("BEGIN", *lake.sql("DELETE FROM {}"), "COMMIT")
    for read in lake.sql("SELECT id, v FROM {} VERSION AS OF 'snapshot:night' ORDER BY id"):
        assert other.sql(read)[0] == (1, "then")


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_creator_that_dies_before_it_knows_what_was_cut(drivers, tmp_path, when):
    """Nobody finds its snapshot, whether VACUUM has cut before or knows of it; the name is free."""
    dying, living = drivers(2)
    lake = Lake(tmp_path, 2)
    one, two = dying.session(lake.root), living.session(lake.root)
    two.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    for value in ("then", "now"):
        two.sql("BEGIN", *lake.sql(f"UPDATE {{}} SET v = '{value}' WHERE id = 1"), "COMMIT")
    vacuum = [f"VACUUM {table} RETAIN 0 HOURS" for table in lake.sql("{}")]
    create = "CREATE SNAPSHOT night AS OF VERSION 1"
    if when == "before":
        two.sql(*vacuum)
    with dying.halts("snapshotPut:1") as halts:
        creating = one.start_sql(create)
        halts.during(creating)
        assert halts.reached() == "snapshotPut:1"
        dying.kill()
    with pytest.raises(Died):
        creating.result(TIMEOUT_S)
    assert two.sql("SHOW SNAPSHOTS") == []
    (read, _) = lake.sql("SELECT v FROM {} VERSION AS OF '{{}}' WHERE id = 1")
    for uses in (
        read.format("snapshot:night"),
        "CREATE SNAPSHOT other AS OF SNAPSHOT night",
        "RESTORE DATABASE TO SNAPSHOT night",
        "DROP SNAPSHOT night",
    ):
        with pytest.raises(DriverError, match="LAKESTEP_NO_SUCH_SNAPSHOT"):
            two.sql(uses)
    # VACUUM goes on, and leaves what the hold of the dead one has, for a day.
    two.sql(*vacuum)
    if when == "meanwhile":
        assert two.sql(read.format("db:1")) == [("then",)]
    with pytest.raises(DriverError, match="LAKESTEP_SNAPSHOT_CUT"):
        two.sql(create)
    two.sql("CREATE SNAPSHOT night", "VACUUM TRANSACTIONS RETAIN 0 HOURS", *vacuum)
    assert two.sql(read.format("snapshot:night")) == [("now",)]
    (held,) = two.sql(f'SELECT name FROM lakestep_held("delta.`{lake.tables[0]}`")')
    assert held == ("night",)


@pytest.mark.parametrize("first", ["snapshot", "vacuum"])
def test_a_snapshot_and_vacuum_at_once(drivers, tmp_path, first):
    """Whoever is held right after its put: the other one, or it itself, knows of both."""
    held, free = drivers(2)
    lake = Lake(tmp_path, 2)
    one, two = held.session(lake.root), free.session(lake.root)
    for session in (one, two):
        session.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    two.sql("BEGIN", *lake.sql("UPDATE {} SET v = 'then' WHERE id = 1"), "COMMIT")
    ((entry, *_),) = two.sql("SHOW TIMELINE LAST 1")
    two.sql("BEGIN", *lake.sql("UPDATE {} SET v = 'now' WHERE id = 1"), "COMMIT")
    create = f"CREATE SNAPSHOT night AS OF VERSION {entry}"
    vacuum = [f"VACUUM {table} RETAIN 0 HOURS" for table in lake.sql("{}")]
    begins, other = ([create], vacuum) if first == "snapshot" else (vacuum, [create])
    step = "snapshotPut:1" if first == "snapshot" else "cutPut:1"
    outcomes = at_once(held, step, one, begins, two, other)
    if first == "snapshot":
        assert outcomes[1] is None
    failed = [o for o in outcomes if o is not None]
    assert failed in ([], ["LAKESTEP_SNAPSHOT_CUT"])
    there = [name for name, *_ in two.sql("SHOW SNAPSHOTS")]
    assert there == ([] if failed else ["night"])
    for read in lake.sql("SELECT v FROM {} VERSION AS OF 'snapshot:night' WHERE id = 1"):
        if there:
            assert two.sql(read) == [("then",)]


def test_a_vacuum_that_dies_before_it_deletes(drivers, tmp_path):
    dying, living = drivers(2)
    lake = Lake(tmp_path, 1)
    one, two = dying.session(lake.root), living.session(lake.root)
    for session in (one, two):
        session.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    for value in ("then", "now"):
        two.sql("BEGIN", *lake.sql(f"UPDATE {{}} SET v = '{value}' WHERE id = 1"), "COMMIT")
    two.sql("CREATE SNAPSHOT kept AS OF VERSION 1")
    (vacuum,) = lake.sql("VACUUM {} RETAIN 0 HOURS")
    with dying.halts("cutPut:1") as halts:
        running = one.start_sql(vacuum)
        halts.during(running)
        assert halts.reached() == "cutPut:1"
        dying.kill()
    with pytest.raises(Died):
        running.result(TIMEOUT_S)
    (read,) = lake.sql("SELECT v FROM {} VERSION AS OF '{{}}' WHERE id = 1")
    # Nobody can tell that it has deleted nothing. What there is now is not hit.
    with pytest.raises(DriverError, match="LAKESTEP_SNAPSHOT_CUT"):
        two.sql("CREATE SNAPSHOT late AS OF VERSION 1")
    two.sql("CREATE SNAPSHOT now")
    for vacuuming in (True, False):
        assert two.sql(read.format("snapshot:kept")) == [("then",)]
        assert two.sql(read.format("snapshot:now")) == [("now",)]
        if vacuuming:
            two.sql(vacuum)


@pytest.mark.parametrize("left", ["all", "folder"])
def test_a_client_that_dies_while_it_drops_a_snapshot(spark, table, left, alone):
    """It is dropped once that is noted; VACUUM TRANSACTIONS removes copies that are left."""
    name = table("snap_half_dropped")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    created(spark, "half")
    kept = folder(spark, name) / "_delta_log/_lakestep/kept"
    copy = kept.with_name("kept_before")
    shutil.copytree(kept, copy)
    spark.sql("DROP SNAPSHOT half")
    assert not list(kept.glob("*"))
    shutil.copytree(copy, kept, dirs_exist_ok=True)
    shutil.rmtree(copy)
    if left == "folder":
        for names_the_copy in kept.glob("*.json"):
            names_the_copy.unlink()
    assert shown(spark) == {}
    write(spark, f"DELETE FROM {name} WHERE id = 1")
    created(spark, "half")
    assert at(spark, "half", name) == [[2, 3]]
    spark.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")
    assert len([one for one in kept.iterdir() if one.is_dir()]) == 1
    assert at(spark, "half", name) == [[2, 3]]


def test_of_many_who_create_one_name_one_does(spark, table):
    name = table("snap_racing")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    outcomes = []

    def create():
        session = spark.newSession()
        try:
            outcomes.append(created(session, "race")["snapshot"])
        except Exception as failure:
            outcomes.append(condition_of(failure))

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["LAKESTEP_SNAPSHOT_EXISTS"] * 3 + ["race"]
    assert list(shown(spark)) == ["race"]
