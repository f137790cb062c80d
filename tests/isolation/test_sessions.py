"""Sessions beside each other: none works in the transaction of another."""

import pytest

from fast_start import INTERPRETED
from transactions import abandon, begin, commit, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.sliced(2),
    pytest.mark.usefixtures("compiled", "no_transaction_left"),
]

# Each makes Spark load the catalog of a session on a thread that belongs to another one.
FIRST_CALLS = {
    "currentCatalog": lambda session: session.catalog.currentCatalog(),
    "currentDatabase": lambda session: session.catalog.currentDatabase(),
    "listTables": lambda session: session.catalog.listTables(),
    "setCurrentDatabase": lambda session: session.catalog.setCurrentDatabase("default"),
}


@pytest.fixture
def new_session(spark):
    made = spark.newSession()
    # Spark lists tables by compiled programs only.
    for key in INTERPRETED:
        made.conf.unset(key)
    yield made
    abandon(made)


@pytest.mark.parametrize("first_call", FIRST_CALLS.values(), ids=FIRST_CALLS)
def test_a_session_works_outside_of_another_ones_transaction(
    spark, new_session, table, rows, first_call
):
    one = table("session_one")
    spark.sql(f"CREATE TABLE session_copy SHALLOW CLONE {one}")
    spark.sql("DROP TABLE session_copy")
    begin(spark)
    spark.sql(f"INSERT INTO {one} VALUES (3, 'uncommitted')")
    first_call(new_session)
    committed = [(1, "a"), (2, "b")]
    assert rows(new_session, one) == committed
    assert new_session.sql(f"DESCRIBE HISTORY {one}").count() == 2
    new_session.sql(f"CREATE TABLE session_copy SHALLOW CLONE {one}")
    try:
        assert rows(new_session, "session_copy") == committed
    finally:
        new_session.sql("DROP TABLE session_copy")
    new_session.sql(f"INSERT INTO {one} VALUES (4, 'other')")
    rollback(spark)
    assert rows(spark, one) == [*committed, (4, "other")]


@pytest.mark.parametrize("first_call", FIRST_CALLS.values(), ids=FIRST_CALLS)
def test_a_session_works_inside_of_its_own_transaction(spark, new_session, table, rows, first_call):
    one = table("session_own")
    first_call(new_session)
    begin(new_session)
    new_session.sql(f"ALTER TABLE {one} ADD COLUMN w INT")
    new_session.sql(f"INSERT INTO {one} VALUES (3, 'c', 7)")
    assert rows(spark, one) == [(1, "a"), (2, "b")]
    commit(new_session)
    assert spark.sql(f"SELECT w FROM {one} WHERE id = 3").collect() == [(7,)]
