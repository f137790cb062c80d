"""Transactions that read the database as it was."""

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

import lakestep
from settings import setting
from transactions import abandon, begin, commit, folder, new_session, refused, rollback, write

pytestmark = [pytest.mark.usefixtures("no_transaction_left"), pytest.mark.sliced(6)]


def rows(session, name):
    return sorted(tuple(row) for row in session.table(name).collect())


def ended_at(spark, entry):
    """When an entry ended, by the running maximum that counts as its time."""
    query = f"SELECT max(ended_at) AS t FROM lakestep_timeline() WHERE entry <= {entry}"
    return spark.sql(query).first()["t"]


def test_every_version_of_two_tables(spark, other_session, table):
    one, two = table("past_one"), table("past_two")
    seen = []
    for number in range(6):
        entry = write(
            spark,
            f"INSERT INTO {one} VALUES ({number}, 'new')",
            f"UPDATE {two} SET v = 'v{number}' WHERE id = {number % 2 + 1}",
        )
        seen.append((entry, rows(spark, one), rows(spark, two)))
    for entry, of_one, of_two in seen:
        with lakestep.transaction(other_session, as_of=entry) as txn:
            assert txn.read_only
            assert rows(other_session, one) == of_one
            assert rows(other_session, two) == of_two
            joined = other_session.sql(f"SELECT count(*) AS n FROM {one} JOIN {two} USING (id)")
            ids = {row[0] for row in of_two}
            assert joined.first()["n"] == sum(row[0] in ids for row in of_one)
    # It is as if it had not been: the session goes on with the newest.
    assert rows(other_session, two) == seen[-1][2]
    write(other_session, f"DELETE FROM {two}")
    assert rows(spark, two) == []


def test_times_and_writers_without_transactions(spark, table):
    name, other = table("past_times"), table("past_times_other")
    first = write(spark, f"INSERT INTO {name} VALUES (3, 'c')", f"DELETE FROM {other}")
    spark.sql(f"INSERT INTO {name} VALUES (4, 'outside')")
    (outside,) = spark.sql(
        f"SELECT max_by(committed_at, version) AS t FROM lakestep_table_versions('{name}')"
    ).first()
    second = write(spark, f"UPDATE {name} SET v = 'second'")
    spark.sql(f"INSERT INTO {name} VALUES (5, 'later')")

    def then(clause):
        spark.sql(f"BEGIN READ ONLY AS OF {clause}")
        try:
            return [row[0] for row in rows(spark, name)], len(rows(spark, other))
        finally:
            rollback(spark)

    # A version is what its transactions left, with what others committed before it ended.
    assert then(f"VERSION {first}") == ([1, 2, 3], 0)
    assert then(f"VERSION {second}") == ([1, 2, 3, 4], 0)
    # A time has what others committed up to then, too.
    assert then(f"TIMESTAMP '{outside}'") == ([1, 2, 3, 4], 0)
    assert then(f"TIMESTAMP '{outside - timedelta(milliseconds=1)}'") == ([1, 2, 3], 0)
    assert then(f"TIMESTAMP '{ended_at(spark, first)}'") == ([1, 2, 3], 0)
    assert then(f"TIMESTAMP '{datetime.now()}'") == ([1, 2, 3, 4, 5], 0)
    with lakestep.transaction(spark, as_of=outside.astimezone(timezone.utc)):
        assert len(rows(spark, name)) == 4


def test_names_are_those_of_then(spark, other_session):
    made = write(
        spark,
        "CREATE TABLE past_a USING delta AS SELECT 1 AS id",
        "CREATE TABLE past_b USING delta AS SELECT 2 AS id",
    )
    swapped = write(
        spark,
        "ALTER TABLE past_a RENAME TO past_c",
        "ALTER TABLE past_b RENAME TO past_a",
        "CREATE VIEW past_v AS SELECT id + 10 AS id FROM past_a",
    )
    dropped = write(
        spark,
        "DROP TABLE past_c",
        "CREATE OR REPLACE TABLE past_a (id INT, more STRING) USING delta",
        "DROP VIEW past_v",
    )

    def names():
        return {
            row["tableName"] for row in other_session.sql("SHOW TABLES LIKE 'past_*'").collect()
        }

    with lakestep.transaction(other_session, as_of=made):
        assert (rows(other_session, "past_a"), rows(other_session, "past_b")) == ([(1,)], [(2,)])
        assert names() == {"past_a", "past_b"}
    with lakestep.transaction(other_session, as_of=swapped):
        assert (rows(other_session, "past_a"), rows(other_session, "past_c")) == ([(2,)], [(1,)])
        assert rows(other_session, "past_v") == [(12,)]
        with refused("TABLE_OR_VIEW_NOT_FOUND", "42P01"):
            other_session.table("past_b").collect()
    with lakestep.transaction(other_session, as_of=dropped):
        assert rows(other_session, "past_a") == []
        assert other_session.table("past_a").columns == ["id", "more"]
        assert names() == {"past_a"}
    spark.sql("DROP TABLE past_a")


def test_entries_that_are_no_longer_in_memory(spark, table, tmp_path):
    name = table("past_long", ())
    fresh = new_session(spark, tmp_path / "timeline", checkpointInterval="2")
    times = []
    for number in range(1, 12):
        begin(fresh)
        fresh.sql(f"INSERT INTO {name} VALUES ({number}, 'x')")
        commit(fresh)
        times.append(ended_at(fresh, number))
    for number in range(1, 12):
        with lakestep.transaction(fresh, as_of=number):
            assert [row[0] for row in rows(fresh, name)] == list(range(1, number + 1))
        with lakestep.transaction(fresh, as_of=times[number - 1]):
            count = max(n for n in range(1, 12) if times[n - 1] <= times[number - 1])
            assert len(rows(fresh, name)) == count
    # Another client, which has read nothing yet.
    anew = new_session(spark, tmp_path / "timeline")
    with lakestep.transaction(anew, as_of=3):
        assert len(rows(anew, name)) == 3


def test_tables_that_are_others_now_or_gone(spark, table, tmp_path):
    name, path = table("past_kept"), f"{tmp_path}/again"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    before = write(spark, f"INSERT INTO delta.`{path}` VALUES (1)", f"DELETE FROM {name}")
    spark.sql(f"CREATE TABLE delta.`{path}2` (id INT) USING delta")
    spark.sql(f"BEGIN AS OF VERSION {before}")
    assert rows(spark, f"delta.`{path}`") == [(1,)]
    with refused("LAKESTEP_NOT_THERE_AS_OF", "42704"):
        spark.table(f"delta.`{path}2`").collect()
    assert rows(spark, name) == []
    rollback(spark)
    spark.sql("CREATE TABLE past_again (id INT) USING delta")
    then = write(spark, "INSERT INTO past_again VALUES (1)")
    spark.sql("DROP TABLE past_again")
    spark.sql("CREATE TABLE past_again (id INT) USING delta")
    write(spark, "INSERT INTO past_again VALUES (2)")
    spark.sql(f"BEGIN AS OF VERSION {then}")
    with refused("LAKESTEP_NOT_THERE_AS_OF", "42704"):
        spark.table("past_again").collect()
    rollback(spark)
    spark.sql("DROP TABLE past_again")


def test_delta_s_own_versions_are_those_of_the_table(spark, table):
    name = table("past_delta")
    entry = write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    write(spark, f"INSERT INTO {name} VALUES (4, 'd')")
    with lakestep.transaction(spark, as_of=entry):
        assert len(rows(spark, name)) == 3
        assert spark.sql(f"SELECT * FROM {name} VERSION AS OF 1").count() == 2
        with pytest.raises(Exception, match="version"):
            spark.sql(f"SELECT * FROM {name} VERSION AS OF 3").count()


@pytest.mark.parametrize(
    ("clause", "condition", "state"),
    [
        ("AS OF VERSION 0", "LAKESTEP_AS_OF_NOT_FOUND", "22023"),
        ("AS OF VERSION 999999", "LAKESTEP_AS_OF_NOT_FOUND", "22023"),
        ("AS OF VERSION many", "LAKESTEP_AS_OF_INVALID", "42601"),
        ("AS OF TIMESTAMP 'yesterday'", "LAKESTEP_AS_OF_INVALID", "42601"),
        ("AS OF TIMESTAMP '2001-01-01'", "LAKESTEP_AS_OF_NOT_FOUND", "22023"),
        ("AS OF TIMESTAMP '1969-12-31'", "LAKESTEP_AS_OF_NOT_FOUND", "22023"),
        ("AS OF TIMESTAMP '2999-01-01'", "LAKESTEP_AS_OF_NOT_FOUND", "22023"),
        ("READ WRITE AS OF VERSION 1", "LAKESTEP_AS_OF_READ_WRITE", "25006"),
    ],
)
def test_what_is_refused(spark, table, clause, condition, state):
    write(spark, f"INSERT INTO {table('past_refused')} VALUES (3, 'c')")
    with refused(condition, state):
        spark.sql(f"BEGIN {clause}")
    assert spark.sql("SHOW TRANSACTIONS").collect() == []


@pytest.mark.parametrize(
    "statement",
    [
        "RESTORE TABLE {} TO VERSION AS OF 'db:1'",
        "RESTORE {} TO VERSION AS OF 'snapshot:eoy'",
        "CREATE TABLE past_clone SHALLOW CLONE {} VERSION AS OF 'db:1'",
    ],
)
def test_only_queries_name_a_state_of_the_database(spark, table, statement):
    with refused("LAKESTEP_AS_OF_OUTSIDE_QUERY", "0A000"):
        spark.sql(statement.format(table("past_elsewhere")))


def test_nothing_is_written(spark, table):
    name = table("past_read_only")
    entry = write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    spark.sql(f"BEGIN AS OF VERSION {entry}")
    with refused("LAKESTEP_READ_ONLY_TRANSACTION", "25006"):
        spark.sql(f"DELETE FROM {name}")
    abandon(spark)


def test_queries_outside_name_versions_of_the_database(spark, other_session, table):
    one, two = table("past_query_one"), table("past_query_two")
    first = write(spark, f"INSERT INTO {one} VALUES (3, 'c')", f"DELETE FROM {two} WHERE id = 1")
    spark.sql(f"INSERT INTO {one} VALUES (4, 'outside')")
    second = write(spark, f"DELETE FROM {one}", f"DELETE FROM {two}")

    def count(session, clause, *tables):
        union = " UNION ALL ".join(f"SELECT id FROM {name} {clause}" for name in tables)
        return session.sql(f"SELECT count(*) AS n FROM ({union})").first()["n"]

    for session in (spark, other_session):
        assert count(session, f"VERSION AS OF 'db:{first}'", one, two) == 3 + 1
        assert count(session, f"FOR SYSTEM_VERSION AS OF 'DB:{second}'", one, two) == 0
        path = session.sql(f"DESCRIBE DETAIL {one}").first()["location"]
        assert count(session, f"VERSION AS OF 'db:{first}'", f"delta.`{path}`") == 3
        assert session.read.option("lakestepVersion", first).table(one).count() == 3
        by_path = session.read.option("lakestepVersion", first).format("delta")
        assert by_path.load(path).count() == by_path.option("path", path).load().count() == 3
        stream = session.readStream.format("delta").option("lakestepVersion", first)
        for read in (lambda s=stream: s.table(one), lambda s=stream, p=path: s.load(p)):
            with refused("LAKESTEP_AS_OF_NOT_FOUND", "22023"):
                _ = read().schema
        # Delta's own.
        assert count(session, "VERSION AS OF 1", one) == 2
        assert session.read.option("versionAsOf", 1).table(one).count() == 2
    changed = spark.sql(
        f"SELECT count(*) AS n FROM {two} VERSION AS OF 'db:{first}' then"
        f" LEFT ANTI JOIN {two} now ON then.id = now.id"
    )
    assert changed.first()["n"] == 1
    # A statement that writes reads it, too, and so does a transaction.
    spark.sql(f"INSERT INTO {two} SELECT * FROM {one} VERSION AS OF 'db:{first}'")
    assert spark.table(two).count() == 3
    with lakestep.transaction(spark):
        assert count(spark, f"VERSION AS OF 'db:{first}'", one, two) == 3 + 1
        spark.sql(f"INSERT INTO {one} SELECT * FROM {two} VERSION AS OF 'db:{first}'")
        assert count(spark, "", one) == 1


def test_names_of_queries_are_those_of_then(spark, table):
    made = write(spark, "CREATE TABLE past_q USING delta AS SELECT 1 AS id")
    renamed = write(
        spark,
        "ALTER TABLE past_q RENAME TO past_r",
        "CREATE TABLE past_q USING delta AS SELECT 2 AS id",
        "CREATE VIEW past_w AS SELECT 1 AS id",
    )

    def ids(name, entry):
        return [
            r[0] for r in spark.sql(f"SELECT * FROM {name} VERSION AS OF 'db:{entry}'").collect()
        ]

    assert ids("past_q", made) == [1]
    assert ids("past_q", renamed) == ids("default.past_q", renamed) == [2]
    assert ids("past_r", renamed) == ids("spark_catalog.default.past_r", renamed) == [1]
    for name, entry in (("past_r", made), ("past_w", renamed), ("past_missing", made)):
        with refused("LAKESTEP_NOT_THERE_AS_OF", "42704"):
            ids(name, entry)
    gone = write(spark, "DROP TABLE past_q", "DROP TABLE past_r", "DROP VIEW past_w")
    assert (ids("past_q", renamed), ids("past_r", renamed)) == ([2], [1])
    with refused("LAKESTEP_NOT_THERE_AS_OF", "42704"):
        ids("past_q", gone)
    with refused("LAKESTEP_AS_OF_NOT_FOUND", "22023"):
        ids("past_q", gone + 1)
    with refused("LAKESTEP_AS_OF_INVALID", "42601"):
        ids("past_q", "many")


def at(session, entry, *tables):
    """The ids in tables, in one transaction that reads a version; or why not."""
    with lakestep.transaction(session, as_of=entry):
        found: list[object] = []
        for name in tables:
            try:
                found.append([row[0] for row in rows(session, name)])
            except PySparkException as error:
                found.append(error.getCondition())
        return found


def commits(path):
    return sorted((path / "_delta_log").glob("[0-9]*.json"))


@pytest.mark.parametrize("other", ["DELETE in a transaction", "DELETE outside"])
def test_a_log_that_was_cut_is_not_read_as_of_today(spark, table, other):
    name, kept = table("past_cut"), table("past_cut_kept")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.checkpointInterval' = '4')")
    entry = write(spark, f"INSERT INTO {name} VALUES (3, 'c')", f"DELETE FROM {kept} WHERE id = 1")
    if other == "DELETE outside":
        spark.sql(f"DELETE FROM {name}")
    else:
        write(spark, f"DELETE FROM {name}", f"DELETE FROM {kept}")
    while not (checkpoints := list((folder(spark, name) / "_delta_log").glob("*.checkpoint*"))):
        spark.sql(f"INSERT INTO {name} VALUES (10, 'later')")
    spark.sql(f"INSERT INTO {name} VALUES (11, 'later')")
    assert at(spark, entry, name, kept) == [[1, 2, 3], [2]]
    newest = max(checkpoints).name[:20]
    for file in commits(folder(spark, name)):
        if file.name[:20] < newest:
            file.unlink()
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    assert at(spark, entry, name, kept) == ["LAKESTEP_NOT_THERE_AS_OF", [2]]

    def why():
        with refused("LAKESTEP_NOT_THERE_AS_OF", "42704") as raised:
            spark.sql(f"SELECT * FROM {name} VERSION AS OF 'db:{entry}'").collect()
        return str(raised.value)

    told = why()
    if other != "DELETE outside":
        assert "a named snapshot of that version would have kept it" in told
        spark.sql("CREATE SNAPSHOT past_keeper")
        assert "snapshot past_keeper has it as it was in version" in why()
        spark.sql("DROP SNAPSHOT past_keeper")


@pytest.fixture(params=["true", "false"])
def adaptive(spark, request):
    with setting(spark, "spark.sql.adaptive.enabled", request.param):
        yield


@pytest.mark.usefixtures("adaptive")
def test_a_data_file_that_is_gone_is_told(spark, table):
    name, other = table("past_lost"), table("past_lost_other")
    entry = write(spark, f"INSERT INTO {name} VALUES (3, 'c')", f"DELETE FROM {other} WHERE id = 1")
    file = next(iter(spark.sql(f"SELECT _metadata.file_path FROM {name} WHERE id = 3").first()))
    write(spark, f"DELETE FROM {name} WHERE id = 3")
    version = spark.sql(f"DESCRIBE HISTORY {name}").first()["version"] - 1
    Path(file.removeprefix("file:")).unlink()
    assert rows(spark, name) == [(1, "a"), (2, "b")]
    past = f"SELECT * FROM {name} VERSION AS OF 'db:{entry}'"
    joined = f"{past} JOIN {other} VERSION AS OF 'db:{entry}' USING (id)"

    def why(query):
        with refused("LAKESTEP_DATA_FILE_GONE", "58P01") as raised:
            spark.sql(query).collect()
        text = str(raised.value)
        of_table = f"which version {version} of table file:{folder(spark, name)} needs"
        assert file in text and of_table in text, text
        return text

    for query in (past, joined, f"SELECT sum(id) FROM ({past})"):
        assert "a named snapshot of that version would have kept it" in why(query)
    spark.sql(f"BEGIN AS OF VERSION {entry}")
    why(f"SELECT * FROM {name}")
    assert rows(spark, other) == [(2, "b")]
    rollback(spark)
    spark.sql("CREATE SNAPSHOT past_lost_keeper")
    assert "snapshot past_lost_keeper has it as it was in version" in why(past)
    spark.sql("DROP SNAPSHOT past_lost_keeper")
    # So is one that a snapshot should have kept, by the copy of its log, and inside a transaction.
    spark.sql(f"CREATE SNAPSHOT past_lost_kept AS OF VERSION {entry}")
    for inside in (False, True):
        if inside:
            spark.sql("BEGIN")
        told = why(f"SELECT * FROM {name} VERSION AS OF 'snapshot:past_lost_kept'")
        assert "snapshot past_lost_kept reads it, too" in told
    rollback(spark)
    spark.sql("DROP SNAPSHOT past_lost_kept")
    spark.sql("BEGIN AS OF VERSION " + str(entry + 1))
    why(past)
    rollback(spark)
    # A version of Delta's own is explained, too.
    why(f"SELECT * FROM {name} VERSION AS OF {version}")


def test_the_time_of_a_commit_is_the_one_that_it_holds(spark, table):
    name, other = table("past_stamped"), table("past_stamped_other")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    first = write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    spark.sql(f"INSERT INTO {name} VALUES (4, 'outside')")
    spark.sql(f"INSERT INTO {name} VALUES (5, 'outside')")
    second = write(spark, f"DELETE FROM {other}")
    spark.sql(f"INSERT INTO {name} VALUES (6, 'outside')")
    third = write(spark, f"DELETE FROM {name} WHERE id = 1")
    expected = [[[1, 2, 3]], [[1, 2, 3, 4, 5]], [[2, 3, 4, 5, 6]]]
    assert [at(spark, entry, name) for entry in (first, second, third)] == expected
    # As after a backup was put back.
    for file in commits(folder(spark, name)):
        os.utime(file, (file.stat().st_mtime + 10800,) * 2)
    assert [at(spark, entry, name) for entry in (first, second, third)] == expected


def test_inside_a_transaction_no_version_is_one_of_its_own(spark, other_session, table):
    name = table("past_own")
    first = write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    begin(spark)
    spark.sql(f"INSERT INTO {name} VALUES (100, 'mine')")
    second = write(other_session, f"INSERT INTO {name} VALUES (200, 'theirs')")
    versioned = spark.sql(f"SELECT id FROM {name} VERSION AS OF 'db:{first}'")
    assert sorted(row[0] for row in versioned.collect()) == [1, 2, 3]
    for read in (
        lambda: spark.sql(f"SELECT id FROM {name} VERSION AS OF 'db:{second}'"),
        lambda: (
            spark.read.format("delta")
            .option("lakestepVersion", second)
            .load(str(folder(other_session, name)))
        ),
    ):
        with refused("LAKESTEP_AS_OF_NOT_FOUND", "22023"):
            read().collect()
    rollback(spark)


def test_names_in_a_view_and_names_that_have_moved(spark, table):
    spark.sql("CREATE SCHEMA IF NOT EXISTS past_schema")
    for schema, ids in (("default", "(1)"), ("past_schema", "(2), (3)")):
        spark.sql(f"CREATE TABLE {schema}.past_x (id INT) USING delta")
        spark.sql(f"INSERT INTO {schema}.past_x VALUES {ids}")
    entry = write(
        spark, "INSERT INTO past_x VALUES (4)", "INSERT INTO past_schema.past_x VALUES (5)"
    )
    spark.sql(f"CREATE VIEW past_of_default AS SELECT id FROM past_x VERSION AS OF 'db:{entry}'")
    write(
        spark,
        "ALTER TABLE past_x RENAME TO past_y",
        "ALTER TABLE past_schema.past_x RENAME TO past_schema.past_y",
    )
    spark.sql("USE past_schema")
    try:
        assert [row[0] for row in rows(spark, "default.past_of_default")] == [1, 4]
        query = f"SELECT past_x.id FROM past_x VERSION AS OF 'db:{entry}' ORDER BY past_x.id"
        assert [row[0] for row in spark.sql(query).collect()] == [2, 3, 5]
        with refused("LAKESTEP_NOT_A_TABLE", "42P01"):
            spark.sql("SELECT * FROM lakestep_table_versions('default.past_of_default')").collect()
    finally:
        spark.sql("USE default")
    spark.range(9).createOrReplaceTempView("past_x")
    with pytest.raises(Exception, match=r"UNSUPPORTED_FEATURE.TIME_TRAVEL|time travel"):
        spark.sql(f"SELECT * FROM past_x VERSION AS OF 'db:{entry}'").collect()
    spark.catalog.dropTempView("past_x")
    spark.sql("DROP SCHEMA past_schema CASCADE")
    for name in ("VIEW past_of_default", "TABLE past_y"):
        spark.sql(f"DROP {name}")


def test_names_that_others_have_changed_are_those_of_today_to_all(spark, table, tmp_path):
    other = table("past_today")
    spark.sql(f"CREATE TABLE past_old (id INT) USING delta LOCATION '{tmp_path}/one'")
    write(
        spark,
        "DROP TABLE past_old",
        f"CREATE TABLE past_ext USING delta LOCATION '{tmp_path}/two' AS SELECT 1 AS id",
    )
    spark.sql("DROP TABLE past_ext")
    spark.sql(f"CREATE TABLE past_ext (id INT) USING delta LOCATION '{tmp_path}/three'")
    spark.sql("INSERT INTO past_ext VALUES (2)")
    entry = write(spark, f"DELETE FROM {other} WHERE id = 1")
    assert at(spark, entry, "past_ext") == [[2]]
    anew = new_session(spark, checkpointInterval="2")
    for _ in range(3):
        write(anew, f"INSERT INTO {other} VALUES (3, 'c')")
    assert at(anew, entry, "past_ext") == at(spark, entry, "past_ext") == [[2]]
    spark.sql("DROP TABLE past_ext")


def test_tables_made_anew_before_and_since(spark, table, tmp_path):
    name, other = table("past_anew"), table("past_anew_other")
    write(spark, f"INSERT INTO {name} VALUES (3, 'c')")
    spark.sql(f"DROP TABLE {name}")
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (7, 'anew')")
    entry = write(spark, f"DELETE FROM {other}")
    assert at(spark, entry, name, other) == [[7], []]
    write(spark, f"CREATE TABLE delta.`{tmp_path}/since` (id INT) USING delta")
    assert at(spark, entry, f"delta.`{tmp_path}/since`") == ["LAKESTEP_NOT_THERE_AS_OF"]
