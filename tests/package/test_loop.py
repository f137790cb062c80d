"""A driver that runs many transactions holds on to no more than one that ran few."""

import pytest

from lake import Lake

WARM_UP = 20
INTERVAL = 8
# A transaction lists the log of its table; in one of thousands of commits it would do little else.
TABLES = 10
MIB = 2**20


def run(spark, tables, number):
    """Run transactions that update the first table, or insert into another; return what is held."""
    update = f"UPDATE delta.`{tables[0]}` SET v = v + 1 WHERE id = 1"
    inserts = [f"INSERT INTO delta.`{table}` VALUES (0, 0)" for table in tables[1:]]
    statements = [update, *inserts]
    for turn in range(number):
        spark.sql("BEGIN")
        spark.sql(statements[turn % len(statements)])
        spark.sql("COMMIT")
    return list(spark._jvm.io.lakestep.testing.Held.now(spark._jsparkSession))


@pytest.mark.sliced(2)
@pytest.mark.parametrize(
    "transactions",
    [60, *(pytest.param(n, marks=pytest.mark.long) for n in (300, 2000, 10000))],
)
def test_a_loop_of_transactions_leaves_nothing_behind(drivers, tmp_path, transactions):
    driver, newcomer = drivers(2)
    lake = Lake(tmp_path)
    tables = [lake.table(f"t{number}", [(1, 0)]) for number in range(TABLES)]
    settings = {"spark.lakestep.timeline.checkpointInterval": str(INTERVAL)}
    session = driver.session(lake.root, **settings)

    def loop(number):
        return session.start("test_loop:run", tables=tables, number=number).result(5 * number)

    # What the start of a JVM takes does not count.
    session.sql("SELECT 1")
    before = loop(WARM_UP)
    after = loop(transactions - WARM_UP)
    print(f"file systems, Delta logs, threads, heap: {before}, then {after}")
    file_systems, logs, threads, heap = (b - a for a, b in zip(before, after, strict=True))
    assert file_systems <= 0
    # Delta's own of each table, which is loaded when its first checkpoint is due.
    assert logs <= len(tables)
    # Those of Spark and Delta come by and by; of thousands, transactions would leave hundreds.
    assert threads <= (4 if transactions < 1000 else 10)
    # Spark's own lists of finished queries grow up to a bound.
    assert heap < 64 * MIB
    each = transactions // TABLES
    assert lake.rows(tables[0]) == [(1, each)]
    assert [len(lake.rows(table)) for table in tables[1:]] == [1 + each] * (TABLES - 1)
    assert lake.requested() == set()
    newest = transactions // INTERVAL * INTERVAL
    assert lake.checkpoints() == [newest - INTERVAL, newest]
    other = newcomer.session(lake.root, **settings)
    first = lake.entry(1)["transaction"]["id"]
    [told] = other.sql(f"DESCRIBE TRANSACTION '{first}'")
    assert "COMPLETED" in told
    other.sql("BEGIN", *(f"DELETE FROM delta.`{table}` WHERE id = 1" for table in tables), "COMMIT")
    assert [lake.rows(table) for table in tables] == [[], *[[(0, 0)] * each] * (TABLES - 1)]
    for table in tables:
        assert not list((lake.folder / table / "_delta_log" / "_lakestep").glob("t*/*"))
