"""Small files are written as one at COMMIT, and those that are not published are deleted."""

import json
from pathlib import Path

import pytest

import lakestep
from lake import append
from transactions import abandon, begin, commit, flush, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]

COMPACT = "spark.lakestep.commit.compactFiles"


@pytest.fixture
def compacts(spark):
    spark.conf.set(COMPACT, "auto")
    yield
    spark.conf.unset(COMPACT)


@pytest.fixture
def two(spark, tmp_path, request):
    """Make a table twice: the first is written with compaction, the second one without."""
    made = []

    def make(columns, *more):
        names = [f"small_{abs(hash(request.node.name)) % 10**8}_{i}" for i in range(2)]
        for i, name in enumerate(names):
            spark.sql(
                f"CREATE TABLE {name} ({columns}) USING delta {' '.join(more)} "
                f"LOCATION '{tmp_path}/{i}'"
            )
            made.append(name)
        return [(name, tmp_path / str(i)) for i, name in enumerate(names)]

    yield make
    abandon(spark)
    for name in made:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def both(spark, tables, *statements):
    """One transaction on each table."""
    for (name, _), mode in zip(tables, ("auto", "off"), strict=True):
        spark.conf.set(COMPACT, mode)
        begin(spark)
        for statement in statements:
            spark.sql(statement.format(t=name)).collect()
        commit(spark)
    spark.conf.unset(COMPACT)


def on_disk(folder):
    return {
        str(file.relative_to(folder))
        for file in Path(folder).rglob("*.parquet")
        if "_delta_log" not in file.parts
    }


def live(spark, name):
    return {file.rpartition("/")[2] for file in spark.table(name).inputFiles()}


def added(folder, version):
    """The files that a commit adds, with their partitions."""
    lines = Path(folder, "_delta_log", f"{version:020}.json").read_text().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


def read(spark, query, tables):
    answers = [sorted(map(str, spark.sql(query.format(t=name)).collect())) for name, _ in tables]
    assert answers[0] == answers[1]
    return answers[0]


INSERTS = [f"INSERT INTO {{t}} VALUES ({i}, 'v{i}')" for i in range(5)]


def test_each_transaction_leaves_one_file(spark, two):
    tables = two("id INT, v STRING")
    for _ in range(3):
        both(spark, tables, *INSERTS)
    compacted = tables[0][1]
    assert [len(live(spark, name)) for name, _ in tables] == [3, 15]
    assert [len(added(compacted, v)) for v in (1, 2, 3)] == [1, 1, 1]
    assert len(read(spark, "SELECT * FROM {t}", tables)) == 15
    statistics = json.loads(added(compacted, 3)[0]["stats"])
    assert (statistics["numRecords"], statistics["maxValues"]["id"]) == (5, 4)
    metrics = spark.sql(f"DESCRIBE HISTORY {tables[0][0]}").collect()[0]["operationMetrics"]
    assert (metrics["numFiles"], metrics["numOutputRows"]) == ("1", "5")


@pytest.mark.long
def test_a_hundred_transactions_of_ten_rows_leave_a_hundred_files(spark, two, compacts):
    (name, _path), _ = two("id INT, v STRING")
    for number in range(100):
        begin(spark)
        for i in range(10):
            spark.sql(f"INSERT INTO {name} VALUES ({number * 10 + i}, 'v')")
        spark.sql("COMMIT")
    flush(spark)
    assert len(live(spark, name)) == 100
    rows = spark.table(name)
    assert (rows.count(), rows.select("id").distinct().count()) == (1000, 1000)


def test_one_file_for_each_partition_and_none_of_others(spark, two):
    tables = two("id INT, p STRING", "PARTITIONED BY (p)")
    rows = "(1, 'a b'), (2, NULL)"
    both(spark, tables, f"INSERT INTO {{t}} VALUES {rows}", f"INSERT INTO {{t}} VALUES {rows}")
    first = live(spark, tables[0][0])
    assert len(first) == 2
    both(
        spark,
        tables,
        "INSERT INTO {t} VALUES (3, 'a b')",
        "INSERT INTO {t} VALUES (4, 'a b'), (5, 'c')",
    )
    assert first < live(spark, tables[0][0])
    partitions = sorted(add["partitionValues"]["p"] for add in added(tables[0][1], 2))
    assert partitions == ["a b", "c"]
    assert len(read(spark, "SELECT * FROM {t}", tables)) == 7


def test_rows_that_are_deleted_again_are_not_written(spark, two):
    tables = two("id INT, v STRING", "TBLPROPERTIES (delta.enableDeletionVectors = true)")
    both(
        spark,
        tables,
        "INSERT INTO {t} SELECT CAST(id AS INT), 'many' FROM range(100)",
        *INSERTS,
        "DELETE FROM {t} WHERE id = 7",
    )
    (add,) = added(tables[0][1], 1)
    assert "deletionVector" not in add
    assert json.loads(add["stats"])["numRecords"] == 104
    assert len(read(spark, "SELECT * FROM {t}", tables)) == 104


def test_change_feed_tells_the_same(spark, two):
    tables = two("id INT, v STRING", "TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    both(spark, tables, *INSERTS)
    both(spark, tables, *INSERTS, "UPDATE {t} SET v = 'x' WHERE id = 1")
    both(spark, tables, "DELETE FROM {t} WHERE id = 2", *INSERTS)
    for version in (1, 2, 3):
        columns = "id, v, _change_type, _commit_version"
        feed = f"SELECT {columns} FROM table_changes('{{t}}', {version}, {version})"
        assert read(spark, feed, tables)


def test_row_ids_are_those_of_new_rows(spark, two):
    tables = two("id INT, v STRING", "TBLPROPERTIES (delta.enableRowTracking = true)")
    both(spark, tables, *INSERTS)
    both(spark, tables, *INSERTS)
    spark.sql(f"INSERT INTO {tables[0][0]} VALUES (9, 'outside')")
    assert len(added(tables[0][1], 2)) == 1
    query = f"SELECT _metadata.row_id, _metadata.row_commit_version FROM {tables[0][0]}"
    ids = [tuple(row) for row in spark.sql(query).collect()]
    assert sorted(row_id for row_id, _ in ids) == list(range(11))
    assert sorted(version for _, version in ids) == [1] * 5 + [2] * 5 + [3]


def test_older_row_ids_stay(spark, two):
    tables = two("id INT, v STRING", "TBLPROPERTIES (delta.enableRowTracking = true)")
    both(spark, tables, *INSERTS)
    both(spark, tables, "UPDATE {t} SET v = 'x' WHERE id = 1", *INSERTS)
    query = "SELECT id, v, _metadata.row_id FROM {t} WHERE v = 'x'"
    before = {row["id"]: row["row_id"] for row in spark.sql(query.format(t=tables[1][0])).collect()}
    after = {row["id"]: row["row_id"] for row in spark.sql(query.format(t=tables[0][0])).collect()}
    assert set(before) == set(after) == {1}
    first = f"SELECT _metadata.row_id FROM {tables[0][0]} VERSION AS OF 1 WHERE id = 1"
    assert after[1] == spark.sql(first).collect()[0][0]
    read(spark, "SELECT * FROM {t}", tables)


def test_columns_that_are_generated_or_added(spark, two):
    tables = two(
        "id BIGINT GENERATED BY DEFAULT AS IDENTITY, v STRING, "
        "w STRING GENERATED ALWAYS AS (upper(v))",
        "TBLPROPERTIES (delta.columnMapping.mode = 'name')",
    )
    both(
        spark,
        tables,
        "ALTER TABLE {t} ADD CONSTRAINT some CHECK (v <> '')",
        *[f"INSERT INTO {{t}} (v) VALUES ('v{i}')" for i in range(3)],
        "ALTER TABLE {t} ADD COLUMN more INT",
        "INSERT INTO {t} (v, more) VALUES ('w', 1)",
    )
    both(spark, tables, *[f"INSERT INTO {{t}} (v) VALUES ('x{i}')" for i in range(3)])
    newest = max(int(f.stem) for f in Path(tables[0][1], "_delta_log").glob("[0-9]*.json"))
    assert len(added(tables[0][1], newest)) == 1
    assert len(read(spark, "SELECT * FROM {t}", tables)) == 7


def test_new_table_and_dataframes(spark, two, tmp_path, compacts):
    begin(spark)
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/new` USING delta AS SELECT 1 AS id, 'a' AS v")
    frame = spark.sql("SELECT 2 AS id, 'b' AS v")
    for _ in range(3):
        frame.write.format("delta").mode("append").save(f"{tmp_path}/new")
    assert spark.read.format("delta").load(f"{tmp_path}/new").count() == 4
    commit(spark)
    assert len(added(tmp_path / "new", 0)) == 1
    assert spark.read.format("delta").load(f"{tmp_path}/new").count() == 4


def test_files_of_an_older_version_stay(spark, two, compacts):
    (name, path), _ = two("id INT, v STRING")
    append(str(path), (1, "a"))
    append(str(path), (2, "b"))
    before = on_disk(path)
    spark.sql(f"DELETE FROM {name}")
    begin(spark)
    spark.sql(f"RESTORE {name} TO VERSION AS OF 2")
    commit(spark)
    assert before <= on_disk(path)
    assert len(added(path, 4)) == 2
    assert spark.sql(f"SELECT * FROM {name} VERSION AS OF 2").count() == 2


def test_shallow_clone_keeps_what_it_names(spark, two, tmp_path, compacts):
    (name, path), _ = two("id INT, v STRING")
    begin(spark)
    for statement in INSERTS:
        spark.sql(statement.format(t=name))
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/clone` SHALLOW CLONE {name}")
    commit(spark)
    assert len(on_disk(path)) == 5
    assert spark.read.format("delta").load(f"{tmp_path}/clone").count() == 5


def test_compaction_reads_nothing(spark, other_session, two, compacts):
    (name, _), _ = two("id INT, v STRING")
    for session in (spark, other_session):
        session.conf.set(COMPACT, "auto")
        session.sql("BEGIN ISOLATION LEVEL SERIALIZABLE")
        for statement in INSERTS:
            session.sql(statement.format(t=name))
    commit(spark)
    commit(other_session)
    assert spark.table(name).count() == 10


def test_conflict_leaves_no_file(spark, other_session, two, compacts):
    (name, path), _ = two("id INT, v STRING")
    spark.sql(f"INSERT INTO {name} VALUES (0, 'old')")
    begin(spark)
    for statement in INSERTS:
        spark.sql(statement.format(t=name))
    spark.sql(f"UPDATE {name} SET v = 'x' WHERE v = 'old'")
    other_session.sql(f"UPDATE {name} SET v = 'y' WHERE v = 'old'")
    before = {add["path"] for v in (1, 2) for add in added(path, v)}
    with refused("LAKESTEP_CONFLICT"):
        spark.sql("COMMIT")
    flush(spark)
    assert on_disk(path) == before
    rollback(spark)


def test_statements_that_run_again_are_compacted_again(spark, other_session, two, compacts):
    (name, path), _ = two("id INT, v STRING")
    spark.sql(f"INSERT INTO {name} VALUES (0, 'old')")
    spark.conf.set("spark.lakestep.commit.redoStatements", "true")
    try:
        begin(spark)
        for statement in INSERTS:
            spark.sql(statement.format(t=name))
        spark.sql(f"UPDATE {name} SET v = concat(v, 'x') WHERE v LIKE 'old%'")
        spark.sql(f"INSERT INTO {name} VALUES (6, 'late')")
        other_session.sql(f"UPDATE {name} SET v = 'old y' WHERE v = 'old'")
        commit(spark)
    finally:
        spark.conf.set("spark.lakestep.commit.redoStatements", "false")
    assert sorted(row["v"] for row in spark.table(name).collect()) == [
        *("late", "old yx", "v0", "v1", "v2", "v3", "v4")
    ]
    assert len(live(spark, name)) <= 2
    assert live(spark, name) <= on_disk(path)


@pytest.mark.parametrize("mode", ["off", "auto"])
@pytest.mark.parametrize(
    "properties", ["", "delta.enableDeletionVectors = true, delta.enableChangeDataFeed = true"]
)
def test_rollback_deletes_the_files_of_the_transaction(spark, two, properties, mode):
    (name, path), _ = two("id INT, v STRING", f"TBLPROPERTIES ({properties})" if properties else "")
    spark.sql(f"INSERT INTO {name} SELECT CAST(id AS INT), 'old' FROM range(20)")

    def files():
        return {f for f in path.rglob("*") if f.is_file() and "_lakestep" not in f.parts}

    before = files()
    spark.conf.set(COMPACT, mode)
    begin(spark)
    for statement in (
        *INSERTS,
        "UPDATE {t} SET v = 'x' WHERE id = 3",
        "DELETE FROM {t} WHERE id = 4",
        "MERGE INTO {t} USING (SELECT 5 AS id) s ON {t}.id = s.id WHEN MATCHED THEN DELETE",
        "OPTIMIZE {t}",
        "INSERT OVERWRITE {t} VALUES (1, 'all')",
    ):
        spark.sql(statement.format(t=name)).collect()
    assert len(files()) > len(before) + 5
    rollback(spark)
    spark.conf.unset(COMPACT)
    assert files() == before
    assert spark.table(name).where("v = 'old'").count() == 20


@pytest.mark.parametrize("on_failure", ["keep", "rollback"])
@pytest.mark.parametrize("by", ["SQL", "DataFrame"])
def test_failed_assertion_keeps_no_file(spark, two, by, on_failure):
    (name, path), _ = two("id INT, v STRING")
    spark.conf.set("spark.lakestep.assert.onFailure", on_failure)
    txn = lakestep.Transaction(spark, spark.sql("BEGIN").collect()[0])
    for statement in INSERTS:
        spark.sql(statement.format(t=name))
    spark.sql(f"ASSERT (SELECT count(*) FROM {name}) = 0")
    if by == "SQL":
        spark.sql(f"ASSERT NO ROWS (SELECT * FROM {name} WHERE id = 3)")
    else:
        txn.check("none", spark.table(name).where("id = 3"))
    with pytest.raises(lakestep.AssertionFailedError):
        txn.commit()
    spark.conf.unset("spark.lakestep.assert.onFailure")
    assert txn.is_open == (on_failure == "keep")
    if txn.is_open:
        assert len(on_disk(path)) == 5
        txn.rollback()
    flush(spark)
    assert on_disk(path) == set()


def test_what_takes_its_own_change_back_leaves_no_file(spark, two):
    (name, path), _ = two("id INT, v STRING")
    begin(spark)
    spark.sql(INSERTS[0].format(t=name))
    spark.sql(f"DELETE FROM {name}")
    commit(spark)
    assert on_disk(path) == set()


def test_setting_is_checked_at_begin(spark):
    spark.conf.set(COMPACT, "always")
    try:
        with refused("LAKESTEP_INVALID_SETTING"):
            begin(spark)
    finally:
        spark.conf.unset(COMPACT)


def test_reader_of_before_commit_reads_on(spark, two, compacts):
    (name, _), _ = two("id INT, v STRING")
    begin(spark)
    for statement in INSERTS:
        spark.sql(statement.format(t=name))
    rows = spark.table(name).rdd
    commit(spark)
    assert len(live(spark, name)) == 1
    assert rows.count() == 5


@pytest.mark.parametrize("end", ["ROLLBACK", "ROLLBACK TO s"])
def test_rows_that_were_handed_out_stay(spark, two, end):
    (name, path), _ = two("id INT, v STRING")
    begin(spark)
    spark.sql("SAVEPOINT s")
    spark.sql(INSERTS[0].format(t=name))
    rows = spark.table(name).rdd
    spark.sql(end)
    abandon(spark)
    flush(spark)
    assert rows.count() == 1
    assert len(on_disk(path)) == 1


def test_timestamps_keep_their_microseconds(spark, two, compacts):
    (name, path), _ = two("id INT, at TIMESTAMP")
    setting = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(setting)
    begin(spark)
    spark.conf.set(setting, "TIMESTAMP_MICROS")
    for number in range(3):
        spark.sql(
            f"INSERT INTO {name} VALUES ({number}, TIMESTAMP '2026-01-01 00:00:00.12345{number}')"
        )
    spark.conf.set(setting, "TIMESTAMP_MILLIS")
    commit(spark)
    spark.conf.set(setting, before)
    assert len(added(path, 1)) == 1
    assert sorted(row["at"].microsecond for row in spark.table(name).collect()) == [
        *(123450, 123451, 123452)
    ]


def test_cancelled_commit_changes_nothing(spark, two, compacts):
    (name, path), _ = two("id INT, v STRING")
    begin(spark)
    for statement in INSERTS:
        spark.sql(statement.format(t=name))
    scala = spark.sparkContext._jsc.sc()
    scala.setJobGroup("cancelled", "a COMMIT", False)
    scala.cancelJobGroupAndFutureJobs("cancelled")
    try:
        with refused("LAKESTEP_COMMIT_CANCELLED", "57014"):
            spark.sql("COMMIT")
    finally:
        scala.clearJobGroup()
    rollback(spark)
    assert on_disk(path) == set()
    assert spark.table(name).count() == 0
