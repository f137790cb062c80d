"""What SHOW TIMELINE and its like tell of transactions."""

import pytest

import lakestep
from transactions import abandon, begin, commit, new_session, refused, rollback

pytestmark = [pytest.mark.usefixtures("no_transaction_left"), pytest.mark.sliced(6)]


def timeline(session, clause=""):
    return [row.asDict() for row in session.sql(f"SHOW TIMELINE {clause}").collect()]


def describe(session, transaction):
    (row,) = session.sql(f"DESCRIBE TRANSACTION '{transaction}'").collect()
    return row


def test_a_transaction_says_what_it_is_for(spark, table):
    one, two = table("told_one"), table("told_two")
    tags = {"run": "7", "job": 'it\'s \\ "load"', "": ""}
    comment = "back to\nMonday's rows: ünïcode"
    with lakestep.transaction(spark, "nightly", comment=comment, tags=tags) as txn:
        spark.sql(f"DELETE FROM {one} WHERE id = 1")
        spark.sql(f"INSERT INTO {two} VALUES (3, 'c'), (4, 'd')")
        (open_,) = [row for row in spark.sql("SHOW TRANSACTIONS").collect()]
        assert (open_["comment"], open_["tags"], open_["name"]) == (comment, tags, "nightly")
    (newest,) = timeline(spark, "LAST 1")
    assert newest["transaction_id"] == txn.id
    assert newest["entry"] == txn.entry
    assert (newest["name"], newest["comment"], newest["tags"]) == ("nightly", comment, tags)
    assert (newest["state"], newest["isolation"]) == ("COMPLETED", "SNAPSHOT")
    assert sorted(name.split(".")[-1] for name in newest["tables"]) == [one, two]
    assert newest["names"] == [] and newest["batch"] is None
    assert newest["added_rows"] == 2
    assert newest["added_files"] >= 1 and newest["removed_files"] == 1
    assert newest["began_at"] <= newest["ordered_at"] <= newest["ended_at"]
    told = describe(spark, txn.id)
    assert (told["comment"], told["tags"]) == (comment, tags)


def test_the_same_in_sql(spark, table):
    name = table("told_in_sql")
    spark.sql(
        "BEGIN load ISOLATION LEVEL SERIALIZABLE COMMENT \"it's late\" TAGS ('b' = '2', 'a' = '1')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    commit(spark)
    spark.sql(f"BEGIN COMMENT 'block'; DELETE FROM {name}; COMMIT")
    block, load = timeline(spark, "LAST 2")
    assert (block["comment"], block["tags"], block["name"]) == ("block", {}, None)
    assert (load["comment"], load["tags"]) == ("it's late", {"a": "1", "b": "2"})
    assert (load["name"], load["isolation"]) == ("load", "SERIALIZABLE")


def test_entries_by_number(spark, table):
    name = table("told_by_number")
    entries = []
    for number in range(5):
        with lakestep.transaction(spark, f"n{number}") as txn:
            spark.sql(f"INSERT INTO {name} VALUES ({number}, 'x')")
        assert txn.entry is not None
        entries.append(txn.entry)

    def numbers(clause=""):
        return [row["entry"] for row in timeline(spark, clause)]

    first, last = entries[0], entries[-1]
    assert numbers(f"FROM {first}") == entries[::-1]
    assert numbers(f"FROM {first} TO {last - 1}") == entries[-2::-1]
    assert numbers("LAST 3") == entries[:1:-1]
    assert numbers("LAST 0") == numbers(f"FROM {last + 1}") == numbers("FROM 7 TO 6") == []
    assert numbers("FROM 1 TO 2") == [2, 1]
    assert numbers(f"TO {first}")[0] == first
    assert numbers()[:5] == entries[::-1]
    assert len(numbers()) == min(100, last)
    # Those that are no longer in memory.
    assert numbers("FROM 1") == list(range(last, 0, -1))


def test_names_and_batches(spark, table):
    name = table("told_names", ())
    with lakestep.transaction(spark, batch=("told", 4)) as txn:
        spark.sql("CREATE TABLE told_new USING delta AS SELECT 1 AS id")
        spark.sql(f"DROP TABLE {name}")
    (row,) = timeline(spark, "LAST 1")
    assert row["entry"] == txn.entry and row["batch"] == "4 of told"
    changes = [change.split("`")[0].strip() for change in row["names"]]
    assert sorted(changes) == ["CREATE TABLE", "DROP TABLE"]
    spark.sql("DROP TABLE told_new")


def test_transactions_of_all_clients(spark, other_session, table):
    name = table("told_open")
    for session, comment in ((spark, "mine"), (other_session, "theirs")):
        session.sql(f"BEGIN COMMENT '{comment}'")
        session.sql(f"INSERT INTO {name} VALUES (3, 'c')")

    def shown(statement):
        rows = spark.sql(statement).collect()
        return {row["comment"] for row in rows if row["state"] == "REQUESTED"}

    assert shown("SHOW TRANSACTIONS") == {"mine"}
    assert shown("SHOW TRANSACTIONS ALL") >= {"mine", "theirs"}
    theirs = other_session.sql("SHOW TRANSACTIONS").collect()[0]["transaction_id"]
    rollback(other_session)
    assert "theirs" not in shown("SHOW TRANSACTIONS ALL")
    # Somebody ends one that is silent.
    other_session.sql("BEGIN COMMENT 'silent'")
    silent = other_session.sql("SHOW TRANSACTIONS").collect()[0]["transaction_id"]
    assert silent != theirs
    rollback(spark)
    spark.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")
    (ended,) = [row for row in timeline(spark, "LAST 1") if row["transaction_id"] == silent]
    assert (ended["state"], ended["tables"]) == ("ABORTED", None)
    assert "silent" not in shown("SHOW TRANSACTIONS ALL")
    abandon(other_session)


@pytest.mark.parametrize(
    ("statement", "condition", "state"),
    [
        ("SHOW TIMELINE LAST many", "LAKESTEP_TIMELINE_RANGE_INVALID", "42601"),
        ("SHOW TIMELINE FROM 1 TO `2`", "LAKESTEP_TIMELINE_RANGE_INVALID", "42601"),
        ("BEGIN TAGS ('a' = '1', 'a' = '2')", "LAKESTEP_TAG_TWICE", "42601"),
        (f"BEGIN COMMENT '{'x' * 4097}'", "LAKESTEP_LABELS_TOO_LONG", "22001"),
    ],
)
def test_what_is_refused(spark, statement, condition, state):
    with refused(condition, state):
        spark.sql(statement)
    assert spark.sql("SHOW TRANSACTIONS").collect() == []


def test_nothing_is_asked_of_a_database_that_is_not_there(spark, tmp_path):
    fresh = new_session(spark, tmp_path / "none")
    assert timeline(fresh) == []
    assert fresh.sql("SHOW TRANSACTIONS ALL").collect() == []
    assert not (tmp_path / "none").exists()
    begin(fresh)
    rollback(fresh)
