"""Each statement that changes a name: as plain Spark and Delta do it, or never."""

import itertools

import pytest

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
