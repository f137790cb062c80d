"""Several threads of one session share its transaction."""

import os
import select
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import functions as F

from driver import DriverError
from lake import Lake
from transactions import begin, commit, condition_of, refused, rollback

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]


@pytest.fixture
def held(tmp_path):
    """A column that says when it is computed, and then waits for `let_go`, but not for ever."""
    names = [str(tmp_path / name) for name in ("started", "ended")]
    for name in names:
        os.mkfifo(name)
    # Open at both ends, so that nobody waits for the other side of a pipe.
    started, ended = (os.open(name, os.O_RDWR) for name in names)

    class Held:
        def column(self, fails=False):
            @F.udf("int")
            def wait(number):
                writing = os.open(names[0], os.O_RDWR)
                os.write(writing, b".")
                waiting = os.open(names[1], os.O_RDWR)
                select.select([waiting], [], [], 3)
                os.close(waiting)
                os.close(writing)
                if fails:
                    raise ValueError("stop")
                return number

            return wait(F.lit(70))

        def wait_until_it_runs(self):
            assert select.select([started], [], [], 60)[0]

        def let_go(self):
            os.write(ended, b".")

    yield Held()
    os.close(started)
    os.close(ended)


def insert(spark, name, column):
    spark.range(1).select(column.alias("id"), F.lit("held").alias("v")).write.insertInto(name)


def ids(spark, name):
    return sorted(row["id"] for row in spark.table(name).collect())


@pytest.mark.parametrize("same", [True, False], ids=["same_table", "two_tables"])
def test_failing_statement_takes_nothing_of_another_thread_with_it(spark, table, held, same):
    failing, working = table("failing"), table("working")
    target = failing if same else working
    begin(spark)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(insert, spark, failing, held.column(fails=True))
        held.wait_until_it_runs()
        second = threads.submit(spark.sql, f"INSERT INTO {target} VALUES (3, 'c')")
        second.add_done_callback(lambda _: held.let_go())
        with pytest.raises(Exception, match="stop"):
            first.result()
        second.result()
    assert ids(spark, target) == [1, 2, 3]
    assert commit(spark)["tables"] == 1
    assert ids(spark, target) == [1, 2, 3]


@pytest.mark.parametrize(("end", "after"), [(commit, [1, 2, 70]), (rollback, [1, 2])])
def test_end_of_the_transaction_waits_for_the_statement_that_runs(spark, table, held, end, after):
    name = table("overtaken")
    begin(spark)
    with ThreadPoolExecutor(2) as threads:
        statement = threads.submit(insert, spark, name, held.column())
        held.wait_until_it_runs()
        ending = threads.submit(end, spark)
        statement.result()
        ending.result()
    assert ids(spark, name) == after


def test_of_two_begins_and_of_two_commits_at_once_one_is_done(spark, table):
    name = table("contended")

    def attempt(text):
        try:
            return spark.sql(text).collect()[0]["transaction_id"]
        except Exception as failure:
            return condition_of(failure)

    with ThreadPoolExecutor(4) as threads:
        begun = list(threads.map(attempt, ["BEGIN"] * 4))
        assert sum(answer.startswith("t") for answer in begun) == 1
        assert set(begun) - {a for a in begun if a.startswith("t")} == {
            "LAKESTEP_TRANSACTION_ALREADY_ACTIVE"
        }
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
        ended = list(threads.map(attempt, ["COMMIT"] * 4))
    assert sum(answer.startswith("t") for answer in ended) == 1
    assert ids(spark, name) == [1, 2, 3]
    with refused("LAKESTEP_NO_ACTIVE_TRANSACTION", "25P01"):
        commit(spark)


def test_rollback_and_a_query_that_meets_a_table_do_not_wait_for_each_other(drivers, tmp_path):
    lake = Lake(tmp_path, tables=1)
    (driver,) = drivers(1)
    session = driver.session(lake.root)
    session.sql("BEGIN")
    with driver.halts("pinned:1") as halts:
        [query] = lake.sql("SELECT * FROM {}")
        session.call("driver:start_beside", statement=query)
        assert halts.reached() == "pinned:1"
        rollback = session.start_sql("ROLLBACK")
        driver.session(lake.root).start_sql("SELECT 1").result(60)
        halts.go()
        rollback.result(60)
    try:
        found = session.start("driver:end_beside").result(60)
        assert sorted(found) == [[1, "old"], [2, "old"]]
    except DriverError as error:
        assert error.condition == "LAKESTEP_DATAFRAME_OF_ENDED_TRANSACTION"
    session.sql("BEGIN", query, "COMMIT")


def test_table_of_the_transaction_is_written_on_another_thread(spark):
    """Which has no active session, so that `saveAsTable` asks Spark's own catalog."""
    frame = spark.range(2).write.format("delta")
    begin(spark)
    with ThreadPoolExecutor(1) as threads:
        for mode in ("errorifexists", "append", "append", "overwrite", "append"):
            threads.submit(frame.mode(mode).saveAsTable, "made_elsewhere").result()
        threads.submit(spark.range(2, 3).writeTo("made_elsewhere").append).result()
        threads.submit(spark.range(3, 4).write.insertInto, "made_elsewhere").result()
    commit(spark)
    found = sorted(row["id"] for row in spark.table("made_elsewhere").collect())
    assert found == [0, 0, 1, 1, 2, 3]
    spark.sql("DROP TABLE made_elsewhere")
