"""A driver that runs many transactions holds on to no more than one that ran few."""

import pytest

from lake import Lake

WARM_UP = 20
MIB = 2**20


def run(spark, tables, number):
    """Run transactions that update one table or insert into the other; return what is held."""
    update = f"UPDATE delta.`{tables[0]}` SET v = v + 1 WHERE id = 1"
    insert = f"INSERT INTO delta.`{tables[1]}` VALUES (0, 0)"
    for turn in range(number):
        spark.sql("BEGIN")
        spark.sql(insert if turn % 10 else update)
        spark.sql("COMMIT")
    return list(spark._jvm.io.lakestep.testing.Held.now(spark._jsparkSession))


@pytest.mark.parametrize(
    "transactions",
    [60, pytest.param(300, marks=pytest.mark.long), pytest.param(5000, marks=pytest.mark.long)],
)
def test_a_loop_of_transactions_leaves_nothing_behind(drivers, tmp_path, transactions):
    [driver] = drivers(1)
    lake = Lake(tmp_path)
    tables = [lake.table(name, [(1, 0)]) for name in ("counter", "list")]
    session = driver.session(lake.root)

    def loop(number):
        return session.start("test_loop:run", tables=tables, number=number).result(5 * number)

    before = loop(WARM_UP)
    after = loop(transactions - WARM_UP)
    print(f"file systems, Delta logs, threads, heap: {before}, then {after}")
    file_systems, logs, threads, heap = (b - a for a, b in zip(before, after, strict=True))
    assert file_systems <= 0
    # Delta's own of each table, which is loaded when its first checkpoint is due.
    assert logs <= len(tables)
    assert threads <= 4
    # The timeline in memory and Spark's own lists of finished queries grow up to a bound.
    assert heap < 48 * MIB + transactions * 10_000
    updates = transactions // 10
    assert lake.rows(tables[0]) == [(1, updates)]
    assert len(lake.rows(tables[1])) == 1 + transactions - updates
    assert lake.requested() == set()
    for table in tables:
        assert not list((lake.folder / table / "_delta_log" / "_lakestep").glob("t*/*"))
