"""Two tables that change places again and again, while others read both names."""

import threading

import pytest

from transactions import abandon, begin, commit

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]

QUERY = "SELECT (SELECT max(v) FROM swap.a) AS a, (SELECT max(v) FROM swap.b) AS b"


def swap(session):
    begin(session)
    session.sql("ALTER TABLE swap.a RENAME TO swap.c")
    session.sql("ALTER TABLE swap.b RENAME TO swap.a")
    session.sql("ALTER TABLE swap.c RENAME TO swap.b")
    commit(session)


def outside(session):
    yield tuple(session.sql(QUERY).collect()[0])


def of_transaction(mode):
    def inside(session):
        session.sql(f"BEGIN{mode}")
        try:
            for name in ("a", "b"):
                assert session.catalog.tableExists(f"swap.{name}")
            first = [session.table(f"swap.{name}").collect()[0][0] for name in ("a", "b")]
            yield tuple(first)
            yield tuple(session.sql(QUERY).collect()[0])
        finally:
            session.sql("COMMIT")

    return inside


READERS = {
    "outside": outside,
    "inside": of_transaction(""),
    "read only": of_transaction(" READ ONLY"),
}


def make_pair(spark):
    spark.sql("CREATE SCHEMA swap")
    for number, name in enumerate(("a", "b"), 1):
        spark.sql(f"CREATE TABLE swap.{name} USING delta AS SELECT {number} AS v")


def read(spark, reader, number):
    """What a reader sees in so many reads."""
    seen = []
    while len(seen) < number:
        seen.extend(READERS[reader](spark))
    return seen


@pytest.mark.parametrize(
    "reads", [30, pytest.param(2000, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_nobody_sees_one_table_under_both_names_or_a_name_missing(spark, reads):
    make_pair(spark)
    # A transaction that has changed a name is what others then look for.
    swap(spark)
    seen: list[tuple] = []
    failures: list[BaseException] = []
    swaps = 0

    def collect(reader, session):
        try:
            while len(seen) < reads and not failures:
                seen.extend(read(session, reader, 1))
        except BaseException as failure:
            failures.append(failure)

    try:
        sessions = [spark.newSession() for _ in READERS]
        threads = [
            threading.Thread(target=collect, args=pair)
            for pair in zip(READERS, sessions, strict=True)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            swap(spark)
            swaps += 1
        for thread in threads:
            thread.join()
    finally:
        abandon(spark)
        spark.sql("DROP SCHEMA swap CASCADE")
    assert failures == []
    assert swaps > 2
    assert set(seen) == {(1, 2), (2, 1)}
