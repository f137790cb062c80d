"""What a transaction takes over from Delta, and leaves to its next reader, changes no answer."""

import shutil
from pathlib import Path

import pyarrow
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException

from lake import append
from transactions import abandon, begin, commit, flush, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced,
]

REUSE = "spark.lakestep.reuseSnapshots"


@pytest.fixture(params=["true", "false"], ids=["reused", "anew"])
def reuses(request, spark):
    before = spark.conf.get(REUSE, "true")
    spark.conf.set(REUSE, request.param)
    yield request.param == "true"
    spark.conf.set(REUSE, before)


def jobs_of(spark, statement):
    """The rows of a query, and how many Spark jobs it took."""
    scheduler = spark._jsparkSession.sparkContext().dagScheduler()
    before = scheduler.nextJobId()
    rows = sorted(map(tuple, spark.sql(statement).collect()))
    return rows, scheduler.nextJobId() - before


def location(spark, table):
    return spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]["location"].removeprefix("file:")


def checksums(spark, path):
    """The versions that have one, once what follows a COMMIT is done."""
    flush(spark)
    return sorted(int(f.stem) for f in Path(path, "_delta_log").glob("[0-9]*.crc"))


def test_a_table_that_was_read_before_is_read_again_without_reconstructing_it(spark, table, reuses):
    name = table(f"warm_{reuses}".lower())
    query = f"SELECT * FROM {name} WHERE id > 0"
    jobs_of(spark, query)
    outside = jobs_of(spark, query)
    begin(spark)
    inside = jobs_of(spark, query)
    again = jobs_of(spark, query)
    rollback(spark)
    assert again == outside
    assert inside[0] == outside[0]
    assert (inside[1] == outside[1]) == reuses


def test_a_table_made_anew_by_others_is_not_taken_for_the_one_in_memory(spark, tmp_path):
    path = f"{tmp_path}/t"
    for generation in ("first", "second"):
        shutil.rmtree(path, ignore_errors=True)
        for number in range(2):
            write_deltalake(path, pyarrow.table({"id": [number], "v": [generation]}), mode="append")
        if generation == "first":
            spark.sql(f"SELECT * FROM delta.`{path}`").collect()
    begin(spark)
    rows, _ = jobs_of(spark, f"SELECT * FROM delta.`{path}`")
    commit(spark)
    assert rows == [(0, "second"), (1, "second")]


def test_a_checksum_is_of_the_table_that_others_have_made_anew(spark, plain, tmp_path):
    path = f"{tmp_path}/t"

    def insert():
        begin(spark)
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'ours')")
        commit(spark)

    for generation in ("first", "second"):
        flush(spark)
        shutil.rmtree(path, ignore_errors=True)
        write_deltalake(path, pyarrow.table({"id": [0], "v": [generation]}))
        insert()
    insert()
    assert 2 in checksums(spark, path) or spark.conf.get(REUSE, "true") == "false"
    for version in checksums(spark, path):
        assert plain.ask("state", path=path, since=version)["checksum"] is True


def test_every_version_of_a_transaction_has_the_checksum_that_delta_would_have_written(
    spark, plain, table
):
    name = table("summed")
    path = location(spark, name)
    for statements in (
        ["UPDATE {t} SET v = 'new' WHERE id = 1", "INSERT INTO {t} VALUES (3, 'c')"],
        ["ALTER TABLE {t} ADD COLUMN more INT", "DELETE FROM {t} WHERE id = 3"],
        ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"],
        ["INSERT INTO {t} VALUES (3, 'c', 3), (4, 'd', 4)", "DELETE FROM {t} WHERE id = 3"],
        ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"],
        ["INSERT INTO {t} VALUES (5, 'e', 5)"],
        ["OPTIMIZE {t}"],
        ["RESTORE TABLE {t} TO VERSION AS OF 2"],
        ["INSERT OVERWRITE {t} VALUES (6, 'f')"],
    ):
        begin(spark)
        for statement in statements:
            spark.sql(statement.format(t=name))
        commit(spark)
        version = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]["version"]
        assert version in checksums(spark, path), statements
        assert plain.ask("state", path=path, since=version)["checksum"] is True, statements


def test_a_commit_that_names_files_which_are_there_already_has_no_checksum(spark, plain, table):
    name = table("backfilled")
    path = location(spark, name)
    begin(spark)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    commit(spark)
    assert checksums(spark, path) == [0, 1]
    spark.sql(f"INSERT INTO {name} VALUES (3, 'outside')")
    begin(spark)
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    commit(spark)
    assert checksums(spark, path) == [0, 1, 3, 4]
    assert plain.ask("state", path=path, since=4)["checksum"] is True


def test_after_a_commit_without_checksum_the_next_transaction_or_checkpoint_brings_one(
    spark, plain, table, reuses
):
    name = table(f"gap_{reuses}".lower())
    path = location(spark, name)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.checkpointInterval' = '5')")
    append(path, (3, "foreign"))
    assert 3 not in checksums(spark, path)
    for version in (4, 5, 6):
        begin(spark)
        spark.sql(f"INSERT INTO {name} VALUES ({version}, 'ours')")
        commit(spark)
        # The state that a statement has reconstructed is kept only by a snapshot that is reused.
        assert (version in checksums(spark, path)) == (reuses or version >= 5)
        if version in checksums(spark, path):
            assert plain.ask("state", path=path, since=version)["checksum"] is True


@pytest.mark.parametrize("reuses", ["true"], indirect=True)
def test_over_a_table_that_deltalake_made_the_second_transaction_reconstructs_nothing(
    spark, tmp_path, reuses
):
    path = f"{tmp_path}/t"
    write_deltalake(path, pyarrow.table({"id": [0], "v": ["first"]}))
    jobs = []
    for number in range(3):
        begin(spark)
        jobs.append(jobs_of(spark, f"INSERT INTO delta.`{path}` VALUES ({number}, 'ours')")[1])
        commit(spark)
        flush(spark)
    assert jobs[0] > jobs[1] == jobs[2]
    assert checksums(spark, path) == [1, 2, 3]


@pytest.mark.parametrize("end", ["commit", "commit_into_a_conflict", "rollback"])
def test_a_wrong_setting_ends_no_transaction_halfway(spark, other_session, table, rows, end):
    name = table(f"set_{end}")
    known, committed = spark._jvm.io.lakestep.LakestepConf.all(), []
    for key in [known.apply(i).key() for i in range(known.size())]:
        before = spark.conf.get(key, None)
        begin(spark)
        spark.sql(f"INSERT INTO {name} VALUES (3, '{key}')")
        if end == "commit_into_a_conflict":
            other_session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('k' = '{key}')")
        spark.conf.set(key, "neither this nor that")
        refused = None
        try:
            rollback(spark) if end == "rollback" else commit(spark)
        except PySparkException as error:
            refused = error.getCondition()
        finally:
            spark.conf.set(key, before) if before else spark.conf.unset(key)
        allowed: dict[str, set[str | None]] = {
            "commit": {None, "LAKESTEP_INVALID_SETTING"},
            "rollback": {None},
        }
        assert refused in allowed.get(
            end, {"LAKESTEP_CONFLICT.METADATA_CHANGED", "LAKESTEP_INVALID_SETTING"}
        ), key
        abandon(spark)
        if end == "commit" and refused is None:
            committed.append((3, key))
    assert rows(spark, name) == [(1, "a"), (2, "b"), *sorted(committed)]


def test_the_next_plain_reader_and_writer_ask_the_store_for_the_same(spark, plain, tmp_path):
    committers = {
        "theirs": lambda statement: plain.ask("sql", text=statement),
        "ours": lambda statement: spark.sql(f"BEGIN; {statement}; COMMIT").collect(),
    }
    for kind in committers:
        made = f"CREATE TABLE delta.`{tmp_path}/{kind}` (id INT) USING delta"
        plain.ask("sql", text=f"{made} TBLPROPERTIES ('delta.checkpointInterval' = '3')")
    # The commit of the second turn is the one that makes a checkpoint.
    for turn in range(2):
        asked = {}
        for kind, commit_it in committers.items():
            commit_it(f"INSERT INTO delta.`{tmp_path}/{kind}` VALUES ({turn})")
            flush(spark)
            table = f"delta.`hdfs://counted{tmp_path}/{kind}`"
            following = [f"SELECT count(id) FROM {table}", f"INSERT INTO {table} VALUES ({turn})"]
            asked[kind] = plain.ask("counted", statements=following)
        assert asked["ours"] == asked["theirs"]
        assert all(sum(counts.values()) > 5 for counts in asked["ours"])
