"""Each statement that changes a name: as plain Spark and Delta do it, or never."""

import itertools

import pytest
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException

import lakestep
from name_cases import CASES, begin, commit, picture, rollback, run, schemas
from transactions import refused

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def other(spark):
    return spark.newSession()


@pytest.mark.sliced
@pytest.mark.parametrize("name", CASES)
def test_a_name_is_changed_by_commit_or_never(spark, other, tmp_path, name):
    case = CASES[name]
    ours, plain = (f"{kind}{next(NUMBERS)}" for kind in ("ours", "plain"))
    with schemas(spark, case, ours, plain, folder=tmp_path):
        before = picture(spark, ours)
        assert before == picture(other, plain)
        run(spark, case.without, plain, tmp_path)
        expected = picture(spark, plain)
        is_change = expected != before

        begin(spark)
        run(spark, case.steps, ours, tmp_path)
        assert picture(spark, ours) == expected
        assert picture(other, ours) == before
        rollback(spark)
        assert picture(spark, ours) == picture(other, ours) == before

        begin(spark)
        spark.sql("SAVEPOINT here")
        run(spark, case.steps, ours, tmp_path)
        assert (picture(spark, ours) != before) == is_change
        spark.sql("ROLLBACK TO here")
        assert picture(spark, ours) == before
        assert commit(spark)["entry"] is None
        assert picture(spark, ours) == before

        begin(spark)
        run(spark, case.steps, ours, tmp_path)
        with pytest.raises(Exception, match="TASK_WRITE_FAILED"):
            spark.sql(
                f"CREATE TABLE {ours}.half USING delta"
                " AS SELECT CAST(raise_error('half way') AS STRING) AS x"
            )
        assert picture(spark, ours) == expected
        assert picture(other, ours) == before
        commit(spark)
        assert picture(spark, ours) == picture(other, ours) == expected


def test_a_location_is_that_of_a_table_which_the_transaction_sees(spark, other, tmp_path):
    spark.sql(f"CREATE TABLE moved USING delta LOCATION '{tmp_path}/old' AS SELECT 1 AS id")
    for place, rows in (("there", "SELECT 2 AS id"), ("unlike", "SELECT 'x' AS v")):
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/{place}` USING delta AS {rows}")
    (tmp_path / "empty").mkdir()

    def ids(session):
        return sorted(row["id"] for row in session.table("moved").collect())

    begin(spark)
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/new` USING delta AS SELECT 3 AS id")
    for place, condition in (
        ("empty", "DELTA_MISSING_DELTA_TABLE"),
        ("unlike", "DELTA_SET_LOCATION_SCHEMA_MISMATCH"),
    ):
        with pytest.raises(AnalysisException) as refused:
            spark.sql(f"ALTER TABLE moved SET LOCATION '{tmp_path}/{place}'")
        assert refused.value.getCondition() == condition
        assert ids(spark) == [1]
    spark.sql(f"ALTER TABLE moved SET LOCATION '{tmp_path}/there'")
    assert (ids(spark), ids(other)) == ([2], [1])
    spark.sql(f"ALTER TABLE moved SET LOCATION '{tmp_path}/new'")
    spark.sql("INSERT INTO moved VALUES (4)")
    assert (ids(spark), ids(other)) == ([3, 4], [1])
    commit(spark)
    assert ids(spark) == ids(other) == [3, 4]
    (location,) = spark.sql("DESCRIBE DETAIL moved").select("location").first()
    assert location == f"file:{tmp_path}/new"
    spark.sql("DROP TABLE moved")


def test_a_managed_table_stays_where_it_is(spark, tmp_path):
    spark.sql("CREATE TABLE stays USING delta AS SELECT 1 AS id")
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/there` USING delta AS SELECT 2 AS id")
    begin(spark)
    with refused("LAKESTEP_UNSUPPORTED_IN_TRANSACTION.LOCATION", "0A000"):
        spark.sql(f"ALTER TABLE stays SET LOCATION '{tmp_path}/there'")
    assert spark.table("stays").first()["id"] == 1
    rollback(spark)
    spark.sql("DROP TABLE stays")


def test_a_table_with_two_names_stays_when_one_is_dropped(spark, tmp_path):
    names = spark.newSession()
    names.conf.set("spark.lakestep.root", f"file:{tmp_path}/timeline")
    names.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")

    def made(name, row):
        names.sql(
            f"CREATE TABLE {name} USING delta LOCATION '{tmp_path}/{name}' AS SELECT {row} AS id"
        )

    def ids():
        return [row["id"] for row in names.table("served").collect()]

    made("served", 1)
    with lakestep.transaction(names) as loaded:
        made("staged", 2)
    with lakestep.transaction(names):
        names.sql(f"ALTER TABLE served SET LOCATION '{tmp_path}/staged'")
    with refused("LAKESTEP_REVERT_BUILT_UPON"):
        names.sql(f"REVERT TRANSACTION '{loaded.id}'")
    with lakestep.transaction(names):
        names.sql("DROP TABLE staged")
    ((*_, missing, _),) = names.sql("CREATE SNAPSHOT two_names").collect()
    assert (ids(), missing) == ([2], [])
    assert names.sql("VACUUM DROPPED TABLES RETAIN 0 HOURS").collect() == []
    with lakestep.transaction(names):
        names.sql("DELETE FROM served")
    assert ids() == []
    names.sql("VACUUM served RETAIN 0 HOURS")
    names.sql("RESTORE DATABASE TO SNAPSHOT two_names")
    assert ids() == [2]
    with lakestep.transaction(names):
        names.sql(f"ALTER TABLE served SET LOCATION '{tmp_path}/served'")
    assert ids() == [1]
    assert names.sql("VACUUM DROPPED TABLES RETAIN 0 HOURS").collect() == []
    assert DeltaTable.forPath(names, f"{tmp_path}/staged").toDF().count() == 1
    names.sql("DROP TABLE served")
