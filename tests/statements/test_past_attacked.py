"""The past, read and taken back where entries are damaged, unfinished, or of others."""

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import lakestep
from driver import TIMEOUT_S, DriverError
from lake import Lake, rewrite
from three_rows import ids
from transactions import begin, commit, new_session, refused, rollback, write

pytestmark = [pytest.mark.usefixtures("no_transaction_left"), pytest.mark.sliced(6)]


def run(session, *statements):
    """The id and the entry of a transaction of these statements."""
    with lakestep.transaction(session) as txn:
        for statement in statements:
            session.sql(statement)
    return txn.id, txn.entry


# Tables of another timeline.


def test_tables_of_another_timeline_are_told(spark, table, tmp_path):
    ours, theirs = table("strange_ours"), table("strange_theirs")
    other = new_session(spark, tmp_path / "other")
    _, early = run(other, f"INSERT INTO {theirs} VALUES (3, 'c')")
    entry = write(spark, f"INSERT INTO {ours} VALUES (3, 'c')")
    write(spark, f"DELETE FROM {ours}")
    for query in (
        f"SELECT * FROM {theirs} VERSION AS OF 'db:{entry}'",
        f"RESTORE TABLES ({ours}, {theirs}) TO VERSION {entry}",
        f"RESTORE TABLES ({theirs}) TO VERSION {entry} DRY RUN",
    ):
        with refused("LAKESTEP_TABLE_OF_ANOTHER_TIMELINE", "55000"):
            spark.sql(query).collect()
    spark.sql(f"BEGIN AS OF VERSION {entry}")
    with refused("LAKESTEP_TABLE_OF_ANOTHER_TIMELINE", "55000"):
        spark.table(theirs).collect()
    assert ids(spark, ours) == [1, 2, 3]
    rollback(spark)
    # Neither a snapshot nor RESTORE of all takes it for one of ours.
    assert ids(spark, ours) == []
    assert ids(other, f"{theirs} VERSION AS OF 'db:{early}'") == [1, 2, 3]


# REVERT of what is no committed transaction.


@contextmanager
def told(condition, sql_state):
    """What a driver's session raises."""
    with pytest.raises(DriverError) as raised:
        yield raised
    assert (raised.value.main_condition, raised.value.sql_state) == (condition, sql_state)


def revert(session, transaction):
    return session.sql(f"REVERT TRANSACTION '{transaction}'")


def test_an_entry_that_was_rolled_back_is_not_reverted(drivers, tmp_path):
    stopped, other = drivers(2)
    lake = Lake(tmp_path, 2)
    one, two = stopped.session(lake.root), other.session(lake.root)
    with stopped.halts("ordered:1") as halts:
        update = lake.sql("UPDATE {} SET v = 'new' WHERE id = 1")
        running = halts.during(one.start_sql("BEGIN", *update, "COMMIT"))
        halts.reached()
        rewrite(lake.tables[1], 1)
        halts.go()
        with told("LAKESTEP_CONFLICT", "40001"):
            running.result(TIMEOUT_S)
    assert lake.rolled_back(1)
    transaction = lake.entry(1)["transaction"]["id"]
    for mode in ("", "DRY RUN"):
        with told("LAKESTEP_REVERT_NOT_COMMITTED", "22023") as wrong:
            two.sql(f"REVERT TRANSACTION '{transaction}' {mode}")
        assert "rolled back" in str(wrong.value)
    with told("LAKESTEP_AS_OF_NOT_FOUND", "22023"):
        two.sql(f"RESTORE DATABASE TO BEFORE TRANSACTION '{transaction}'")
    lake.check_timeline()


def test_what_was_rolled_back_open_or_ended_is_not_reverted(spark, other_session, table):
    name = table("strange_open")
    mine = begin(spark)
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    with refused("LAKESTEP_REVERT_NOT_COMMITTED", "22023") as wrong:
        revert(other_session, mine)
    assert "open" in str(wrong.value)
    with refused("LAKESTEP_AS_OF_NOT_FOUND", "22023"):
        other_session.sql(f"RESTORE TABLES ({name}) TO BEFORE TRANSACTION '{mine}'")
    # Somebody ends it.
    other_session.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")
    with refused("LAKESTEP_REVERT_NOT_COMMITTED", "22023") as wrong:
        revert(other_session, mine)
    assert "aborted" in str(wrong.value)
    rollback(spark)
    mine = begin(spark)
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    rollback(spark)
    with refused("LAKESTEP_REVERT_NOT_COMMITTED", "22023") as wrong:
        revert(other_session, mine)
    assert "not known" in str(wrong.value)
    assert ids(spark, name) == [1, 2]


def test_an_entry_in_flight_is_finished_first_or_told(drivers, tmp_path):
    stopped, other = drivers(2)
    lake = Lake(tmp_path, 2)
    two = other.session(lake.root)
    with stopped.halts("ordered:1") as halts:
        owner = stopped.session(lake.root)
        running = halts.during(
            owner.start_sql("BEGIN", *lake.sql("UPDATE {} SET v = 'new' WHERE id = 1"), "COMMIT")
        )
        halts.reached()
        transaction = lake.entry(1)["transaction"]["id"]
        [staged] = Path(lake.tables[1]).glob("_delta_log/_lakestep/t*/commit-*.json")
        whole = staged.read_bytes()
        staged.write_bytes(whole[:-20])
        # Nobody can finish it as it is.
        with told("LAKESTEP_REVERT_NOT_COMMITTED", "22023") as wrong:
            two.sql(f"REVERT TRANSACTION '{transaction}'")
        assert "not finished" in str(wrong.value)
        for text in (f"BEFORE TRANSACTION '{transaction}'", "VERSION 1"):
            with told("LAKESTEP_AS_OF_NOT_FOUND", "22023"):
                two.sql(f"RESTORE DATABASE TO {text}")
        with told("LAKESTEP_AS_OF_NOT_FOUND", "22023"):
            two.sql("BEGIN AS OF VERSION 1")
        staged.write_bytes(whole)
        two.sql(f"REVERT TRANSACTION '{transaction}'")
        halts.go()
        running.result(TIMEOUT_S)
    assert [lake.rows(path) for path in lake.tables] == [[(1, "old"), (2, "old")]] * 2
    ((entry, state, *_, undoes),) = two.sql("SHOW TIMELINE LAST 1")
    assert (entry, state, undoes) == (2, "COMPLETED", [f"REVERT TRANSACTION '{transaction}'"])
    lake.check_timeline()


# RESTORE beside open transactions.


@pytest.mark.parametrize(
    ("first", "theirs", "level", "conflicts"),
    [
        ("restore", "update", "SNAPSHOT", True),
        ("theirs", "update", "SNAPSHOT", True),
        # New rows of others meet nothing that RESTORE takes away, as with DELETE.
        ("restore", "insert", "SNAPSHOT", False),
        ("theirs", "insert", "SNAPSHOT", False),
        ("theirs", "insert", "SERIALIZABLE", True),
    ],
)
def test_restore_over_tables_of_an_open_transaction(
    spark, other_session, table, first, theirs, level, conflicts
):
    one, two = table("beside_one"), table("beside_two")
    entry = write(spark, f"INSERT INTO {one} VALUES (3, 'c')", f"DELETE FROM {two} WHERE id = 1")
    write(spark, f"UPDATE {one} SET v = 'bad'", f"INSERT INTO {two} VALUES (4, 'bad')")
    statement = {
        "update": "UPDATE {} SET v = 'theirs'",
        "insert": "INSERT INTO {} VALUES (9, 'theirs')",
    }[theirs]
    begin(other_session)
    for name in (one, two):
        other_session.sql(statement.format(name))
    spark.sql(f"BEGIN ISOLATION LEVEL {level}")
    spark.sql(f"RESTORE TABLES ({one}, {two}) TO VERSION {entry}")
    winner, loser = (spark, other_session) if first == "restore" else (other_session, spark)
    commit(winner)
    then = [ids(winner, name) for name in (one, two)]
    if not conflicts:
        commit(loser)
        for session in (spark, other_session):
            assert [ids(session, name) for name in (one, two)] == [[1, 2, 3, 9], [2, 9]]
        return
    with refused("LAKESTEP_CONFLICT", "40001"):
        commit(loser)
    rollback(loser)
    assert [ids(loser, name) for name in (one, two)] == then
    # Once more, it is as it was.
    spark.sql(f"RESTORE TABLES ({one}, {two}) TO VERSION {entry}")
    assert [ids(spark, name) for name in (one, two)] == [[1, 2, 3], [2]]


# A damaged entry.


class Damaged(NamedTuple):
    session: object
    root: Path
    name: str
    transactions: list[str]
    """By entry, from 1."""


@pytest.fixture
def damaged(spark, table, tmp_path, request):
    """Nine entries; the third one is damaged, and no pack has it. A client that has not read it."""
    name = table(request.node.name[:30], rows=())
    writer = new_session(spark, tmp_path / "timeline", checkpointInterval="4")
    transactions = [run(writer, f"INSERT INTO {name} VALUES ({n}, 'x')")[0] for n in range(1, 10)]
    writer.sql("CREATE SNAPSHOT sixth AS OF VERSION 6")
    root = tmp_path / "timeline"
    shutil.rmtree(root / "history", ignore_errors=True)
    entry = root / "timeline" / f"{3:020}.json"
    entry.write_text(entry.read_text().replace('"rules"', '"ruled"'))
    # Another spelling of the root is another client.
    reader = new_session(spark, f"{tmp_path}/./timeline", checkpointInterval="4")
    return Damaged(reader, root, name, transactions)


def test_what_does_not_need_a_damaged_entry_goes_on(damaged):
    session, _, name, transactions = damaged

    def numbers(clause):
        return [row["entry"] for row in session.sql(f"SHOW TIMELINE {clause}").collect()]

    assert numbers("LAST 4") == [9, 8, 7, 6]
    assert numbers("FROM 4 TO 6") == [6, 5, 4]
    assert numbers("TO 2") == [2, 1]
    for entry in (1, 2, 4, 5, 8, 9):
        assert ids(session, f"{name} VERSION AS OF 'db:{entry}'") == list(range(1, entry + 1))
        with lakestep.transaction(session, as_of=entry):
            assert len(ids(session, name)) == entry
    assert ids(session, f"{name} VERSION AS OF 'snapshot:sixth'") == [1, 2, 3, 4, 5, 6]
    session.sql("CREATE SNAPSHOT newest")
    described = session.sql(f"DESCRIBE TRANSACTION '{transactions[7]}'").first()
    assert described["entry"] == 8
    revert(session, transactions[6])
    assert ids(session, name) == [1, 2, 3, 4, 5, 6, 8, 9]
    session.sql(f"RESTORE TABLES ({name}) TO VERSION 5")
    session.sql("RESTORE DATABASE TO SNAPSHOT sixth")
    assert ids(session, name) == [1, 2, 3, 4, 5, 6]
    write(session, f"INSERT INTO {name} VALUES (20, 'later')")
    assert numbers("LAST 1") == [13]


def test_what_needs_a_damaged_entry_names_its_file(damaged):
    session, root, name, transactions = damaged
    file = root / "timeline" / f"{3:020}.json"
    for query in (
        f"SELECT * FROM {name} VERSION AS OF 'db:3'",
        "BEGIN AS OF VERSION 3",
        "CREATE SNAPSHOT third AS OF VERSION 3",
        "SHOW TIMELINE FROM 2 TO 5",
        f"DESCRIBE TRANSACTION '{transactions[2]}'",
        f"REVERT TRANSACTION '{transactions[2]}'",
        f"RESTORE TABLES ({name}) TO VERSION 3",
        f"RESTORE DATABASE TO BEFORE TRANSACTION '{transactions[2]}'",
        "REVERT TRANSACTION 't0'",
    ):
        with refused("LAKESTEP_TIMELINE_CORRUPT", "XX001") as raised:
            session.sql(query).collect()
        assert raised.value.getMessageParameters()["file"].endswith(file.name), query
    assert len(ids(session, name)) == 9
    assert session.sql("SHOW TRANSACTIONS").collect() == []
    wrong = [r for r in session.sql("VERIFY DATABASE").collect() if r["severity"] == "problem"]
    assert {row["what"].rpartition("/")[2] for row in wrong} <= {file.name, f"{4:020}.json"}
    assert any(row["what"].endswith(file.name) for row in wrong)
