"""Each statement that changes a name: as plain Spark and Delta do it, or never."""

import itertools

import pytest
from pyspark.errors import AnalysisException

from name_cases import CASES, begin, commit, picture, rollback, run, schemas

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
    spark.sql("CREATE TABLE moved USING delta AS SELECT 1 AS id")
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
