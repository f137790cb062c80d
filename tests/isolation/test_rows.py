"""Transactions that change different rows of one file, in tables with deletion vectors."""

import json
import os
import random

import pytest

from lakestep import ConflictError
from transactions import commit, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced,
]

ROWS = 12
MERGE = (
    "MERGE INTO {t} AS t USING (SELECT {i} AS id) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = t.v + 1 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 0)"
)
STATEMENTS = {
    "update": "UPDATE {t} SET v = v + 1 WHERE id = {i}",
    "delete": "DELETE FROM {t} WHERE id = {i}",
    "merge": MERGE,
}


@pytest.fixture
def vectors(spark):
    """Makes tables with deletion vectors and columns id and v: rows 0 to 11 in one file."""
    made = []

    def make(name, *properties):
        listed = ", ".join(f"'{p}' = 'true'" for p in ("delta.enableDeletionVectors", *properties))
        spark.sql(f"CREATE TABLE {name} (id BIGINT, v INT) USING delta TBLPROPERTIES ({listed})")
        made.append(name)
        spark.sql(f"INSERT INTO {name} SELECT id, 0 FROM range(0, {ROWS}, 1, 1)")
        return name

    yield make
    for name in made:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def rows(spark, table):
    return {row["id"]: row["v"] for row in spark.sql(f"SELECT id, v FROM {table}").collect()}


def files(spark, table):
    """The files of a table that hold its first rows."""
    held = spark.sql(f"SELECT DISTINCT _metadata.file_name FROM {table} WHERE v = 0")
    return {row[0] for row in held.collect()}


def path_of(spark, table):
    return spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]["location"]


def expected(*changes):
    """Rows after these statements, each on a row of its own."""
    left = {i: 0 for i in range(ROWS)}
    for kind, i in changes:
        if kind == "delete":
            del left[i]
        else:
            left[i] += 1
    return left


PAIRS = [
    *((kind, kind) for kind in STATEMENTS),
    ("update", "delete"),
    ("delete", "merge"),
    ("merge", "update"),
]


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_changes_of_different_rows_of_one_file_both_commit(
    spark, other_session, plain, vectors, ours, theirs
):
    one, two = vectors("rows_one"), vectors("rows_two")
    before = files(spark, one)
    assert len(before) == 1
    for session, kind, i in ((spark, theirs, 1), (other_session, ours, 2)):
        session.sql("BEGIN")
        for table in (one, two):
            session.sql(STATEMENTS[kind].format(t=table, i=i))
    commit(spark)
    commit(other_session)
    for table in (one, two):
        assert rows(spark, table) == expected((theirs, 1), (ours, 2))
        assert files(spark, table) & before or table == two
        seen = plain.ask("sql", text=f"SELECT id, v FROM delta.`{path_of(spark, table)}`")
        assert dict(map(json.loads, seen)) == expected((theirs, 1), (ours, 2))


@pytest.mark.parametrize("ours", STATEMENTS)
def test_changes_of_the_same_row_conflict(spark, other_session, vectors, ours):
    table, other = vectors("rows_same"), vectors("rows_beside")
    for session in (spark, other_session):
        session.sql("BEGIN")
        session.sql(STATEMENTS["delete"].format(t=other, i=3 if session is spark else 4))
        session.sql(STATEMENTS[ours].format(t=table, i=5))
    commit(spark)
    with pytest.raises(ConflictError) as raised:
        commit(other_session)
    assert raised.value.getMessageParameters()["rule"] == "same-rows"
    rollback(other_session)
    assert rows(spark, table) == expected((ours, 5))
    assert rows(spark, other) == expected(("delete", 3))


def test_a_foreign_deletion_vector_is_merged_with_ours(spark, plain, vectors):
    table = vectors("rows_foreign")
    path = path_of(spark, table)
    for number in range(3):
        spark.sql("BEGIN")
        spark.sql(STATEMENTS["update"].format(t=table, i=2 * number))
        plain.ask("sql", text=f"DELETE FROM delta.`{path}` WHERE id = {2 * number + 1}")
        commit(spark)
    changes = [("update" if i % 2 == 0 else "delete", i) for i in range(6)]
    assert rows(spark, table) == expected(*changes)
    spark.sql("BEGIN")
    spark.sql(STATEMENTS["update"].format(t=table, i=9))
    plain.ask("sql", text=f"DELETE FROM delta.`{path}` WHERE id = 9")
    with refused("LAKESTEP_CONFLICT", "40001"):
        commit(spark)
    rollback(spark)
    assert rows(spark, table) == expected(*changes, ("delete", 9))


def test_a_file_that_others_have_rewritten_is_a_conflict(spark, other_session, vectors):
    table = vectors("rows_rewritten")
    spark.sql("BEGIN")
    spark.sql(STATEMENTS["update"].format(t=table, i=1))
    other_session.sql(STATEMENTS["delete"].format(t=table, i=2))
    other_session.sql(f"REORG TABLE {table} APPLY (PURGE)")
    with pytest.raises(ConflictError) as raised:
        commit(spark)
    assert raised.value.getMessageParameters()["rule"] == "same-file"
    rollback(spark)
    assert rows(spark, table) == expected(("delete", 2))


def test_change_feed_tells_each_change_once(spark, other_session, vectors):
    table = vectors("rows_feed", "delta.enableChangeDataFeed")
    for session, kind, i in ((spark, "delete", 1), (other_session, "delete", 2)):
        session.sql("BEGIN")
        session.sql(STATEMENTS[kind].format(t=table, i=i))
    commit(spark)
    commit(other_session)
    feed = spark.sql(f"SELECT id, _change_type FROM table_changes('{table}', 2)").collect()
    assert sorted(map(tuple, feed)) == [(1, "delete"), (2, "delete")]


def test_row_ids_stay_what_they_were(spark, other_session, vectors):
    table = vectors("rows_ids", "delta.enableRowTracking")

    def ids():
        found = spark.sql(f"SELECT id, _metadata.row_id FROM {table}").collect()
        return {row[0]: row[1] for row in found}

    before = ids()
    for session, i in ((spark, 1), (other_session, 2)):
        session.sql("BEGIN")
        session.sql(STATEMENTS["update"].format(t=table, i=i))
    commit(spark)
    commit(other_session)
    assert ids() == before


@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=pytest.mark.long)])
def test_any_statements_against_a_model_of_the_rows(spark, vectors, rounds):
    seed = int(os.environ.get("LAKESTEP_TEST_SEED", random.randrange(2**32)))
    print(f"LAKESTEP_TEST_SEED={seed}")
    chance = random.Random(seed)
    table = vectors("rows_model")
    sessions = [spark.newSession() for _ in range(3)]
    model = {i: 0 for i in range(ROWS)}
    changed_at, now, outcomes = {}, 0, []
    for _ in range(rounds):
        if len(model) < ROWS // 2:
            added = sorted(set(range(ROWS)) - set(model))
            spark.sql(f"INSERT INTO {table} VALUES " + ", ".join(f"({i}, 0)" for i in added))
            model.update(dict.fromkeys(added, 0))
        work = []
        for session in sessions:
            kinds = chance.choices(list(STATEMENTS), (4, 1, 2), k=chance.randint(1, 2))
            picked = list(zip(kinds, chance.sample(sorted(model), len(kinds)), strict=True))
            session.sql("BEGIN")
            for kind, i in picked:
                session.sql(STATEMENTS[kind].format(t=table, i=i))
            work.append((session, picked, now))
        chance.shuffle(work)
        for session, picked, begun in work:
            overlaps = any(changed_at.get(i, -1) > begun for _, i in picked)
            try:
                commit(session)
            except ConflictError:
                rollback(session)
                outcomes.append("conflict")
                assert overlaps
                continue
            outcomes.append("commit")
            assert not overlaps
            now += 1
            for kind, i in picked:
                changed_at[i] = now
                if kind == "delete":
                    del model[i]
                else:
                    model[i] += 1
        found = [tuple(row) for row in spark.sql(f"SELECT id, v FROM {table}").collect()]
        assert sorted(found) == sorted(model.items())
    print({outcome: outcomes.count(outcome) for outcome in ("commit", "conflict")})
