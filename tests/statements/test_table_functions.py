"""What the table functions tell of transactions, and how they join and count like tables."""

import shutil
from pathlib import Path

import pytest

import lakestep
from transactions import abandon, begin, commit, new_session, refused, rollback

pytestmark = [pytest.mark.usefixtures("no_transaction_left"), pytest.mark.sliced(6)]


def rows(session, query):
    return [row.asDict() for row in session.sql(query).collect()]


def write(spark, *statements, name=None):
    with lakestep.transaction(spark, name) as txn:
        for statement in statements:
            spark.sql(statement)
    return txn


def test_the_timeline_is_what_show_timeline_shows(spark, table):
    name = table("functions_timeline")
    first = write(spark, f"INSERT INTO {name} VALUES (3, 'c')", name="first")
    second = write(spark, f"DELETE FROM {name} WHERE id = 1", f"UPDATE {name} SET v = 'x'")
    shown = rows(spark, f"SHOW TIMELINE FROM {first.entry}")
    told = rows(spark, f"SELECT * FROM lakestep_timeline() WHERE entry >= {first.entry}")
    assert told == shown and len(told) == 2
    assert [row["operations"] for row in told] == [["DELETE", "UPDATE"], ["WRITE"]]
    (counted,) = rows(
        spark,
        "SELECT count(*) AS n, max(entry) AS newest, count_if(state = 'COMPLETED') AS completed"
        f" FROM lakestep_timeline() WHERE entry BETWEEN {first.entry} AND {second.entry}",
    )
    assert counted == {"n": 2, "newest": second.entry, "completed": 2}


def test_versions_lead_to_transactions_and_back(spark, table):
    name = table("functions_versions")
    spark.sql(f"INSERT INTO {name} VALUES (3, 'outside')")
    one = write(spark, f"INSERT INTO {name} VALUES (4, 'd')")
    two = write(spark, f"DELETE FROM {name} WHERE id = 4", f"INSERT INTO {name} VALUES (5, 'e')")
    told = rows(spark, f"SELECT * FROM lakestep_table_versions('{name}')")
    assert [row["version"] for row in told] == list(range(len(told)))
    ours = {row["version"]: row for row in told if row["entry"] is not None}
    assert [row["transaction_id"] for row in ours.values()] == [one.id, two.id]
    assert {row["kind"] for row in ours.values()} == {"PUBLISH"}
    assert [row["operation"] for row in told][-2:] == ["WRITE", "TRANSACTION"]
    history = {row["version"]: row for row in spark.sql(f"DESCRIBE HISTORY {name}").collect()}
    for version, row in ours.items():
        parameters = history[version]["operationParameters"]
        assert parameters["lakestepTransaction"] == row["transaction_id"]
        assert parameters["lakestepEntry"] == str(row["entry"])
        assert history[version]["timestamp"] == row["committed_at"]
    assert "lakestepTransaction" not in history[0]["operationParameters"]
    # By its path, and only some.
    path = spark.sql(f"DESCRIBE DETAIL {name}").first()["location"]
    by_path = f"lakestep_table_versions('delta.`{path}`')"
    newest = max(ours)
    assert rows(spark, f"SELECT * FROM {by_path} WHERE version >= {newest}") == [ours[newest]]
    (joined,) = rows(
        spark,
        f"SELECT t.name, v.version, t.operations FROM {by_path} v JOIN lakestep_timeline() t"
        f" ON v.transaction_id = t.transaction_id WHERE t.entry = {two.entry}",
    )
    assert joined == {"name": None, "version": newest, "operations": ["DELETE", "WRITE"]}


def test_changes_are_a_row_for_each_table(spark, table):
    one, two = table("functions_one"), table("functions_two")
    first = write(spark, f"INSERT INTO {one} VALUES (3, 'c')", f"DELETE FROM {two} WHERE id = 1")
    last = write(spark, f"INSERT INTO {one} VALUES (4, 'd'), (5, 'e')")
    told = rows(spark, f"SELECT * FROM lakestep_changes({first.entry}, {last.entry})")
    assert [(r["entry"], r["table"].split(".")[-1], r["operations"]) for r in told] == [
        (first.entry, one, ["WRITE"]),
        (first.entry, two, ["DELETE"]),
        (last.entry, one, ["WRITE"]),
    ]
    assert [row["added_rows"] for row in told if row["table"].endswith(one)] == [1, 2]
    for row in told:
        (version,) = row["versions"]
        (made,) = rows(
            spark,
            f"SELECT * FROM lakestep_table_versions('{row['table']}') WHERE version = {version}",
        )
        assert (made["transaction_id"], made["entry"]) == (row["transaction_id"], row["entry"])
        assert row["read_version"] == version - 1
        assert row["committed_at"] >= made["committed_at"]
    path = spark.sql(f"DESCRIBE DETAIL {one}").first()["location"]
    assert told[0]["path"].removeprefix("file:").strip("/") == path.removeprefix("file:").strip("/")
    assert rows(spark, f"SELECT * FROM lakestep_changes({last.entry + 1}, 1000000)") == []
    assert rows(spark, f"SELECT * FROM lakestep_changes({last.entry}, {first.entry})") == []


def test_transactions_of_all_clients(spark, other_session, table):
    name = table("functions_open")
    begin(other_session)
    other_session.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    query = "SELECT transaction_id FROM lakestep_transactions() WHERE state = 'REQUESTED'"
    (theirs,) = rows(other_session, "SHOW TRANSACTIONS")
    assert theirs["transaction_id"] in {row["transaction_id"] for row in rows(spark, query)}
    rollback(other_session)
    assert theirs["transaction_id"] not in {row["transaction_id"] for row in rows(spark, query)}


def test_inside_a_transaction_and_after_a_commit_that_failed(spark, other_session, table):
    name, log = table("functions_inside"), table("functions_log", ())
    before = write(spark, f"UPDATE {name} SET v = 'before'")
    begin(spark)
    spark.sql(f"UPDATE {name} SET v = 'mine'")
    (seen,) = rows(spark, "SELECT max(entry) AS newest FROM lakestep_timeline()")
    assert seen["newest"] == before.entry
    spark.sql(f"INSERT INTO {log} SELECT entry, `table` FROM lakestep_changes(1, 9) LIMIT 0")
    theirs = write(other_session, f"UPDATE {name} SET v = 'theirs'")
    with refused("LAKESTEP_CONFLICT.SAME_FILE", "40001"):
        commit(spark)
    (told,) = rows(spark, f"SELECT * FROM lakestep_timeline() WHERE entry > {before.entry}")
    assert told["transaction_id"] == theirs.id
    with refused("LAKESTEP_TRANSACTION_FAILED", "25P02"):
        rows(spark, f"SELECT * FROM lakestep_timeline(), {name}")
    abandon(spark)


def test_a_damaged_entry_is_in_nobody_s_way_who_does_not_need_it(spark, table, tmp_path):
    name = table("functions_damaged")
    # Few of them are kept in memory.
    fresh = new_session(spark, tmp_path / "timeline", checkpointInterval="2")
    for number in range(9):
        begin(fresh)
        fresh.sql(f"INSERT INTO {name} VALUES ({number}, 'x')")
        commit(fresh)
    seventh = "(SELECT ended_at FROM lakestep_timeline() WHERE entry = 7)"
    (since,) = fresh.sql(f"SELECT * FROM {seventh}").first()
    entry = Path(tmp_path, "timeline", "timeline", f"{1:020}.json")
    # Else it is read from there.
    shutil.rmtree(tmp_path / "timeline" / "history")
    entry.write_text(entry.read_text().replace('"rules"', '"ruled"'))
    told = rows(fresh, "SELECT entry FROM lakestep_timeline() WHERE entry > 3 AND entry != 5")
    assert [row["entry"] for row in told] == [9, 8, 7, 6, 4]
    assert rows(fresh, "SELECT entry FROM lakestep_changes(2, 5) WHERE entry IN (3, 4)") == [
        {"entry": 3},
        {"entry": 4},
    ]
    for query in (
        f"SELECT entry FROM lakestep_timeline() WHERE ended_at >= TIMESTAMP '{since}'",
        f"SELECT entry FROM lakestep_changes(1, 99) WHERE committed_at >= TIMESTAMP '{since}'",
    ):
        assert sorted(row["entry"] for row in rows(fresh, query)) == [7, 8, 9]
    for query in (
        "SELECT entry FROM lakestep_timeline()",
        f"SELECT entry FROM lakestep_timeline() WHERE ended_at <= TIMESTAMP '{since}'",
    ):
        with refused("LAKESTEP_TIMELINE_CORRUPT", "XX001"):
            rows(fresh, query)


@pytest.mark.parametrize(
    "call",
    [
        "lakestep_timeline(1)",
        "lakestep_table_versions()",
        "lakestep_table_versions(1)",
        "lakestep_changes(1)",
        "lakestep_changes('a', 2)",
        "lakestep_changes(NULL, 2)",
    ],
)
def test_wrong_arguments(spark, call):
    with refused("LAKESTEP_FUNCTION_ARGUMENTS", "42605"):
        spark.sql(f"SELECT * FROM {call}").collect()


def test_versions_of_what_is_no_delta_table(spark, tmp_path):
    spark.range(3).write.parquet(f"{tmp_path}/plain")
    with refused("LAKESTEP_NOT_A_TABLE", "42P01"):
        rows(spark, f"SELECT * FROM lakestep_table_versions('parquet.`{tmp_path}/plain`')")
    with refused("TABLE_OR_VIEW_NOT_FOUND", "42P01"):
        rows(spark, "SELECT * FROM lakestep_table_versions('functions_missing')")
