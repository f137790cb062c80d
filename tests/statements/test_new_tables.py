"""Tables by path that a transaction makes: before COMMIT it alone sees them."""

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from transactions import begin, commit, condition_of, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]


def rows(spark, path, *columns):
    found = spark.read.format("delta").load(str(path)).select(*(columns or ("id",)))
    return sorted(tuple(row) for row in found.collect())


def by_delta_rs(path):
    table = DeltaTable(str(path)).to_pyarrow_table(columns=["id"])
    return sorted((value,) for value in table.column("id").to_pylist())


def files(path):
    """All that lies in a folder, but for empty folders."""
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def is_absent(spark, path):
    """Delta's words depend on what is in the folder."""
    with pytest.raises(Exception) as raised:
        spark.read.format("delta").load(str(path)).collect()
    assert condition_of(raised.value) in (
        "DELTA_TABLE_NOT_FOUND",
        "DELTA_MISSING_DELTA_TABLE",
        "DELTA_PATH_DOES_NOT_EXIST",
        "PATH_NOT_FOUND",
    )


MAKERS = {
    "save": lambda spark, path: spark.range(3).write.format("delta").save(str(path)),
    "save append": lambda spark, path: (
        spark.range(3).write.format("delta").mode("append").save(str(path))
    ),
    "save overwrite": lambda spark, path: (
        spark.range(3).write.format("delta").mode("overwrite").save(str(path))
    ),
    "save ignore": lambda spark, path: (
        spark.range(3).write.format("delta").mode("ignore").save(str(path))
    ),
    "save partitioned": lambda spark, path: (
        spark.range(3)
        .selectExpr("id", "id AS p")
        .write.format("delta")
        .partitionBy("p")
        .save(str(path))
    ),
    "create and insert": lambda spark, path: [
        spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta"),
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (0), (1), (2)"),
    ],
    "create as select": lambda spark, path: spark.sql(
        f"CREATE TABLE delta.`{path}` USING delta AS SELECT id FROM range(3)"
    ),
    "write to": lambda spark, path: (
        spark.range(3).writeTo(f"delta.`{path}`").using("delta").create()
    ),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_table_is_made_at_commit(spark, tmp_path, maker):
    path = tmp_path / "made"
    other = spark.newSession()
    begin(spark)
    MAKERS[maker](spark, path)
    assert rows(spark, path) == [(0,), (1,), (2,)]
    assert not list(path.glob("_delta_log/*.json"))
    with pytest.raises(TableNotFoundError):
        DeltaTable(str(path))
    is_absent(other, path)
    spark.sql(f"UPDATE delta.`{path}` SET id = 7 WHERE id = 2")
    spark.sql(f"INSERT INTO delta.`{path}` (id) VALUES (8)")
    assert rows(spark, path) == [(0,), (1,), (7,), (8,)]
    commit(spark)
    # One version, whatever was done.
    assert [file.name for file in path.glob("_delta_log/*.json")] == ["00000000000000000000.json"]
    for found in (rows(spark, path), rows(other, path), by_delta_rs(path)):
        assert found == [(0,), (1,), (7,), (8,)]
    spark.sql(f"INSERT INTO delta.`{path}` (id) VALUES (9)")
    begin(spark)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 8")
    commit(spark)
    assert by_delta_rs(path) == [(8,), (9,)]


@pytest.mark.parametrize("maker", ["save partitioned", "create as select", "create and insert"])
def test_rollback_leaves_nothing_of_it(spark, tmp_path, maker):
    path = tmp_path / "never"
    begin(spark)
    MAKERS[maker](spark, path)
    assert files(path)
    rollback(spark)
    assert not path.exists()
    is_absent(spark, path)
    MAKERS[maker](spark, path)
    assert rows(spark, path) == [(0,), (1,), (2,)]


def test_rollback_to_and_a_failed_statement_take_it_back(spark, tmp_path):
    path = tmp_path / "taken_back"
    begin(spark)
    spark.sql("SAVEPOINT s")
    MAKERS["save"](spark, path)
    spark.sql("ROLLBACK TO s")
    is_absent(spark, path)
    bad = spark.range(3).selectExpr("if(id = 1, raise_error('stop'), id) AS id")
    with pytest.raises(Exception):  # noqa: B017
        bad.write.format("delta").save(str(path))
    spark.range(5, 6).write.format("delta").save(str(path))
    assert rows(spark, path) == [(5,)]
    commit(spark)
    assert by_delta_rs(path) == [(5,)]


def test_it_is_made_with_others_or_not_at_all(spark, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    spark.range(1).write.format("delta").save(str(one))
    other = spark.newSession()
    begin(spark)
    spark.sql(f"DELETE FROM delta.`{one}`")
    MAKERS["save"](spark, two)
    other.sql(f"DELETE FROM delta.`{one}`")
    with refused("LAKESTEP_CONFLICT", "40001"):
        spark.sql("COMMIT")
    rollback(spark)
    # Nor what COMMIT has bound.
    assert files(two) == []
    MAKERS["save"](spark, two)
    assert by_delta_rs(two) == [(0,), (1,), (2,)]


@pytest.mark.parametrize("is_ours", [True, False])
def test_of_two_makers_the_first_has_it(spark, tmp_path, is_ours):
    path, beside = tmp_path / "contested", tmp_path / "beside"
    spark.range(1).write.format("delta").save(str(beside))
    begin(spark)
    MAKERS["save"](spark, path)
    spark.sql(f"DELETE FROM delta.`{beside}`")
    other = spark.newSession()
    if is_ours:
        other.sql("BEGIN").collect()
    other.range(50, 51).write.format("delta").save(str(path))
    if is_ours:
        other.sql("COMMIT").collect()
    assert rows(spark, path) == [(0,), (1,), (2,)]
    with refused("LAKESTEP_CONFLICT", "40001"):
        spark.sql("COMMIT")
    rollback(spark)
    assert by_delta_rs(path) == [(50,)]
    assert by_delta_rs(beside) == [(0,)]


def test_saving_where_there_is_one_is_what_it_is_for_delta(spark, tmp_path):
    path = tmp_path / "there"
    begin(spark)
    MAKERS["save"](spark, path)
    with refused("DELTA_PATH_EXISTS"):
        MAKERS["save"](spark, path)
    MAKERS["save ignore"](spark, path)
    with refused("TABLE_OR_VIEW_ALREADY_EXISTS"):
        MAKERS["create as select"](spark, path)
    spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{path}` (id BIGINT) USING delta")
    assert rows(spark, path) == [(0,), (1,), (2,)]
    spark.range(9, 10).write.format("delta").mode("overwrite").save(str(path))
    commit(spark)
    assert by_delta_rs(path) == [(9,)]


@pytest.mark.parametrize(
    "properties",
    [
        "'lakestep.foreignWriters' = 'forbid'",
        "'delta.universalFormat.enabledFormats' = 'hudi'",
        "'delta.compatibility.symlinkFormatManifest.enabled' = 'true'",
    ],
)
def test_what_delta_would_have_to_act_upon_is_refused(spark, tmp_path, properties):
    path = tmp_path / "acting"
    begin(spark)
    with pytest.raises(Exception) as raised:
        spark.sql(
            f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES ({properties})"
        )
    assert condition_of(raised.value)
    assert commit(spark)["entry"] is None
    assert not list(path.glob("_delta_log/*.json"))


def test_features_of_a_new_table_are_published(spark, tmp_path):
    path = tmp_path / "featured"
    begin(spark)
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, g BIGINT GENERATED ALWAYS AS (id * 2))"
        " USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true',"
        " 'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` (id) SELECT id FROM range(100)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id > 1")
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN v STRING")
    commit(spark)
    assert rows(spark, path, "*") == [(0, 0, None), (1, 2, None)]
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    assert [row["version"] for row in history] == [0]
    spark.sql(f"INSERT INTO delta.`{path}` (id, v) VALUES (5, 'x')")
    assert rows(spark, path, "*")[-1] == (5, 10, "x")


def test_read_only_transaction_makes_none(spark, tmp_path):
    path = tmp_path / "read_only"
    spark.sql("BEGIN READ ONLY")
    with refused("LAKESTEP_READ_ONLY_TRANSACTION"):
        MAKERS["save"](spark, path)
    rollback(spark)
    assert not path.exists()


def test_change_feed_of_a_new_table_has_the_rows_that_are_left(spark):
    properties = "'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true'"
    begin(spark)
    spark.sql(f"CREATE TABLE fed (id INT, v STRING) USING delta TBLPROPERTIES ({properties})")
    spark.sql("INSERT INTO fed VALUES (1, 'a'), (2, 'b')")
    spark.sql("UPDATE fed SET v = 'c' WHERE id = 2")
    commit(spark)
    changes = spark.sql("SELECT id, v, _change_type FROM table_changes('fed', 0)").collect()
    assert sorted(map(tuple, changes)) == [(1, "a", "insert"), (2, "c", "insert")]
    assert spark.sql("DESCRIBE HISTORY fed").count() == 1
    spark.sql("DROP TABLE fed")
