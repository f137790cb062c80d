"""REVERT TRANSACTION and RESTORE: what was done is taken back, over all tables, or nothing is."""

import re
import shutil

import pytest

import lakestep
from name_steps import names
from three_rows import ids
from transactions import abandon, begin, flush, folder, new_session, refused, rollback, write

pytestmark = [
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced,
]


def rows(session, query):
    return sorted(tuple(row) for row in session.sql(f"SELECT * FROM {query}").collect())


def undo(session, statement):
    """The rows that a statement gives, by the name or the action of each; names come last."""
    found = [row.asDict() for row in session.sql(statement).collect()]
    return {(row["table"] or row["path"] or row["action"]).split(".")[-1]: row for row in found}


def actions(session, statement):
    """What becomes of tables and names."""
    found = [row.asDict() for row in session.sql(statement).collect()]
    return sorted(
        (row["action"], (row["table"] or row["path"] or "").replace("/", ".").split(".")[-1])
        for row in found
    )


def last(session):
    """The newest transaction of the timeline."""
    return session.sql("SHOW TIMELINE LAST 1").first()


def load(spark, *statements):
    """The id of a transaction of these statements."""
    with lakestep.transaction(spark) as txn:
        for statement in statements:
            spark.sql(statement)
    flush(spark)
    return txn.id


@pytest.fixture
def pair(table):
    return table("undo_one"), table("undo_two")


# REVERT.


def test_a_transaction_is_taken_back_over_all_its_tables(spark, other_session, pair):
    one, two = pair
    bad = load(
        spark,
        f"INSERT INTO {one} VALUES (3, 'bad')",
        f"UPDATE {two} SET v = 'bad' WHERE id = 1",
    )
    write(spark, f"INSERT INTO {one} VALUES (4, 'good')", f"INSERT INTO {two} VALUES (5, 'good')")
    found = undo(spark, f"REVERT TRANSACTION '{bad}'")
    assert {row["action"] for row in found.values()} == {"RESTORED"}
    assert sum(row["removed_files"] for row in found.values()) == 2
    assert sum(row["added_files"] for row in found.values()) == 1
    assert rows(other_session, one) == [(1, "a"), (2, "b"), (4, "good")]
    assert rows(other_session, two) == [(1, "a"), (2, "b"), (5, "good")]
    newest = last(spark)
    assert newest["undoes"] == [f"REVERT TRANSACTION '{bad}'"]
    (about,) = spark.sql(f"DESCRIBE TRANSACTION '{newest['transaction_id']}'").collect()
    assert about["undoes"] == f"REVERT TRANSACTION '{bad}'"
    # Both tables by one entry.
    assert len(newest["tables"]) == 2


def test_dry_run_tells_and_changes_nothing(spark, pair):
    one, two = pair
    bad = load(spark, f"INSERT INTO {one} VALUES (3, 'bad'), (4, 'bad')", f"DELETE FROM {two}")
    entry = last(spark)["entry"]
    found = undo(spark, f"REVERT TRANSACTION '{bad}' DRY RUN")
    first, second = sorted(found.values(), key=lambda row: row["path"])
    assert (first["removed_rows"], first["added_rows"]) == (2, 0)
    assert (second["removed_rows"], second["added_rows"]) == (0, 2)
    assert last(spark)["entry"] == entry
    assert (ids(spark, one), ids(spark, two)) == ([1, 2, 3, 4], [])
    spark.sql("BEGIN READ ONLY")
    assert undo(spark, f"REVERT TRANSACTION '{bad}' DRY RUN").keys() == found.keys()
    with refused("LAKESTEP_READ_ONLY_TRANSACTION", "25006"):
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    rollback(spark)


def test_what_others_built_upon_stays_and_is_named(spark, pair):
    one, two = pair
    bad = load(spark, f"UPDATE {one} SET v = 'bad'", f"INSERT INTO {two} VALUES (3, 'bad')")
    later = load(spark, f"UPDATE {one} SET v = 'upon' WHERE id = 1")
    spark.sql(f"UPDATE {two} SET v = 'outside' WHERE id = 3")
    with refused("LAKESTEP_REVERT_BUILT_UPON", "2BP01") as raised:
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    told = str(raised.value)
    assert later in told and "UPDATE" in told and one in told and two in told, told
    assert (ids(spark, two), len(ids(spark, one))) == ([1, 2, 3], 2)
    # The newest first.
    spark.sql(f"DELETE FROM {two} WHERE id = 3")
    spark.sql(f"REVERT TRANSACTION '{later}'")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert rows(spark, one) == [(1, "a"), (2, "b")]
    assert ids(spark, two) == [1, 2]


def test_an_optimize_in_between_is_no_obstacle(spark, table):
    one = table("undo_optimized")
    bad = load(spark, f"INSERT INTO {one} VALUES (3, 'bad')")
    write(spark, f"INSERT INTO {one} VALUES (4, 'good')")
    spark.sql(f"OPTIMIZE {one}")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert ids(spark, one) == [1, 2, 4]


def test_rows_that_a_restore_brought_back_do_not_come_twice(spark, table):
    name = table("undo_twice", rows=[(1, "a"), (2, "b"), (3, "c")])
    before = write(spark, f"INSERT INTO {name} VALUES (4, 'd')")
    spark.sql(f"OPTIMIZE {name}")
    deleted = load(spark, f"DELETE FROM {name}")
    write(spark, f"RESTORE TABLES ({name}) TO VERSION {before}")
    with refused("LAKESTEP_REVERT_BUILT_UPON", "2BP01"):
        spark.sql(f"REVERT TRANSACTION '{deleted}'")
    assert sorted(row["id"] for row in spark.table(name).collect()) == [1, 2, 3, 4]


@pytest.mark.parametrize("first", ["revert", "restore"])
def test_two_that_bring_rows_back_at_once_conflict(spark, other_session, table, first):
    name = table("undo_at_once", rows=[(1, "a"), (2, "b"), (3, "c")])
    before = write(spark, f"INSERT INTO {name} VALUES (4, 'd')")
    spark.sql(f"OPTIMIZE {name}")
    deleted = load(spark, f"DELETE FROM {name}")
    one, two = (
        f"REVERT TRANSACTION '{deleted}'",
        f"RESTORE TABLES ({name}) TO VERSION {before}",
    )
    if first == "restore":
        one, two = two, one
    begin(other_session)
    other_session.sql(two)
    spark.sql(one)
    with refused("LAKESTEP_CONFLICT", "40001"):
        other_session.sql("COMMIT")
    rollback(other_session)
    assert sorted(row["id"] for row in spark.table(name).collect()) == [1, 2, 3, 4]


def test_two_transactions_are_taken_back_the_older_one_first(spark, table):
    name = table("undo_both", rows=[(1, "a"), (2, "b"), (3, "c")])
    spark.sql(f"OPTIMIZE {name}")
    write(spark, f"INSERT INTO {name} VALUES (4, 'd')")
    one = load(spark, f"DELETE FROM {name} WHERE id < 3")
    two = load(spark, f"DELETE FROM {name} WHERE id = 4")
    spark.sql(f"REVERT TRANSACTION '{one}'")
    spark.sql(f"REVERT TRANSACTION '{two}'")
    assert sorted(row["id"] for row in spark.table(name).collect()) == [1, 2, 3, 4]


def test_deletion_vectors_come_and_go(spark, table):
    one = table("undo_vectors", rows=[(i, "x") for i in range(10)])
    spark.sql(f"ALTER TABLE {one} SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    first = load(spark, f"DELETE FROM {one} WHERE id = 1")
    second = load(spark, f"DELETE FROM {one} WHERE id = 2")
    with refused("LAKESTEP_REVERT_BUILT_UPON"):
        spark.sql(f"REVERT TRANSACTION '{first}'")
    spark.sql(f"REVERT TRANSACTION '{second}'")
    assert ids(spark, one) == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    spark.sql(f"REVERT TRANSACTION '{first}'")
    assert ids(spark, one) == list(range(10))


def test_names_are_taken_back(spark, table):
    one = table("undo_named")
    bad = load(
        spark,
        "CREATE TABLE undo_made (id INT) USING delta",
        "INSERT INTO undo_made VALUES (1)",
        f"ALTER TABLE {one} RENAME TO undo_renamed",
        "CREATE VIEW undo_view AS SELECT * FROM undo_renamed",
    )
    dropped = load(spark, "DROP TABLE undo_renamed")
    with refused("LAKESTEP_REVERT_BUILT_UPON") as raised:
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert "undo_renamed` was dropped since" in str(raised.value)
    found = undo(spark, f"REVERT TRANSACTION '{dropped}'")
    assert found["undo_renamed"]["action"] == "NAMED"
    assert ids(spark, "undo_view") == [1, 2]
    found = undo(spark, f"REVERT TRANSACTION '{bad}'")
    assert {name: row["action"] for name, row in found.items()} == {
        one: "NAMED",
        "undo_made": "DROPPED",
        "undo_renamed": "DROPPED",
        "undo_view": "DROPPED",
    }
    assert ids(spark, one) == [1, 2]
    there = {row["tableName"] for row in spark.sql("SHOW TABLES").collect()}
    assert not there & {"undo_made", "undo_renamed", "undo_view"}
    # It is dropped as any other table.
    spark.sql("UNDROP TABLE undo_made")
    assert ids(spark, "undo_made") == [1]
    spark.sql("DROP TABLE undo_made")


def test_columns_are_taken_back_unless_others_use_them(spark, table):
    one = table("undo_columns")
    bad = load(
        spark,
        f"ALTER TABLE {one} ADD COLUMN (w INT)",
        f"INSERT INTO {one} VALUES (3, 'bad', 1)",
    )
    again = load(spark, f"INSERT INTO {one} VALUES (4, 'upon', 2)")
    with refused("LAKESTEP_REVERT_BUILT_UPON") as raised:
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert again in str(raised.value)
    spark.sql(f"REVERT TRANSACTION '{again}'")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert rows(spark, one) == [(1, "a"), (2, "b")]


def test_what_optimize_has_replaced_and_vacuum_deleted_is_named(spark, table):
    one = table("undo_compacted")
    bad = load(spark, f"INSERT INTO {one} VALUES (3, 'bad')")
    replaced = set(folder(spark, one).glob("*.parquet"))
    spark.sql(f"OPTIMIZE {one}")
    for file in replaced:
        file.unlink()
    with refused("LAKESTEP_UNDO_FILES_GONE", "58P01") as raised:
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert any(file.name in str(raised.value) for file in replaced)
    assert ids(spark, one) == [1, 2, 3]


def test_bad_load_is_replaced_by_a_good_one_in_one_transaction(spark, other_session, pair):
    one, two = pair
    bad = load(
        spark, f"INSERT INTO {one} VALUES (3, 'bad')", f"INSERT INTO {two} VALUES (3, 'bad')"
    )
    spark.sql("BEGIN")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert ids(spark, one) == [1, 2]
    spark.sql(f"INSERT INTO {one} VALUES (3, 'good')")
    assert rows(other_session, one)[-1] == (3, "bad")
    spark.sql("COMMIT")
    assert rows(other_session, one)[-1] == (3, "good")
    assert ids(other_session, two) == [1, 2]


def test_a_failed_or_rolled_back_revert_leaves_no_trace(spark, pair):
    one, two = pair
    bad = load(spark, f"INSERT INTO {one} VALUES (3, 'bad')")
    begin(spark)
    spark.sql("SAVEPOINT before")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    spark.sql("ROLLBACK TO before")
    assert ids(spark, one) == [1, 2, 3]
    spark.sql(f"INSERT INTO {two} VALUES (9, 'kept')")
    spark.sql("COMMIT")
    assert not last(spark)["undoes"]
    begin(spark)
    spark.sql(f"INSERT INTO {one} VALUES (4, 'mine')")
    with refused("LAKESTEP_UNDO_OF_WRITTEN_TABLE", "25001"):
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    spark.sql("COMMIT")
    assert ids(spark, one) == [1, 2, 3, 4]


def test_bad_input_is_told(spark, pair):
    one, two = pair
    with refused("LAKESTEP_REVERT_NOT_COMMITTED", "22023") as raised:
        spark.sql("REVERT TRANSACTION 't0'")
    assert "not known" in str(raised.value)
    bad = load(spark, f"INSERT INTO {one} VALUES (3, 'bad')")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    reverting = last(spark)["transaction_id"]
    with refused("LAKESTEP_ALREADY_REVERTED", "22023") as raised:
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert reverting in str(raised.value)
    with refused("LAKESTEP_REVERT_OF_UNDO", "22023") as raised:
        spark.sql(f"REVERT TRANSACTION '{reverting}'")
    assert bad in str(raised.value)
    # What the message names as the next step.
    spark.sql(f"RESTORE TABLES ({one}, {two}) TO BEFORE TRANSACTION '{reverting}'")
    assert ids(spark, one) == [1, 2, 3]
    mine = begin(spark)
    with refused("LAKESTEP_REVERT_NOT_COMMITTED") as raised:
        spark.sql(f"REVERT TRANSACTION '{mine}'")
    assert "open" in str(raised.value)
    rollback(spark)


def test_files_that_are_gone_are_named_and_nothing_changes(spark, pair):
    one, two = pair
    where = folder(spark, two)
    before = {file.name for file in where.glob("*.parquet")}
    bad = load(spark, f"INSERT INTO {one} VALUES (3, 'bad')", f"DELETE FROM {two} WHERE id < 3")
    for name in before:
        (where / name).unlink()
    for statement in (
        f"REVERT TRANSACTION '{bad}'",
        f"REVERT TRANSACTION '{bad}' DRY RUN",
        f"RESTORE TABLES ({one}, {two}) TO BEFORE TRANSACTION '{bad}'",
    ):
        with refused("LAKESTEP_UNDO_FILES_GONE", "58P01") as raised:
            spark.sql(statement)
        assert any(name in str(raised.value) for name in before)
    assert ids(spark, one) == [1, 2, 3]


# RESTORE.


def test_tables_are_as_they_were(spark, other_session, pair, table):
    one, two = pair
    other = table("undo_other")
    entry = write(spark, f"INSERT INTO {one} VALUES (3, 'x')", f"INSERT INTO {two} VALUES (3, 'x')")
    spark.sql(f"INSERT INTO {one} VALUES (4, 'outside')")
    write(spark, f"UPDATE {one} SET v = 'y'", f"DELETE FROM {two}", f"DELETE FROM {other}")
    spark.sql(f"INSERT INTO {two} VALUES (7, 'outside')")
    dry = undo(spark, f"RESTORE TABLES ({one}, {two}) TO VERSION {entry} DRY RUN")
    assert dry[two]["removed_rows"] == 1
    found = undo(spark, f"RESTORE TABLES ({one}, {two}) TO VERSION AS OF {entry}")
    assert {name: row["added_files"] for name, row in found.items()} == {
        name: row["added_files"] for name, row in dry.items()
    }
    # What others had committed by then belongs to it.
    assert ids(other_session, one) in ([1, 2, 3], [1, 2, 3, 4])
    assert rows(other_session, two) == [(1, "a"), (2, "b"), (3, "x")]
    assert ids(spark, other) == []
    newest = last(spark)
    assert newest["undoes"] == [f"RESTORE TABLES (`{one}`, `{two}`) TO VERSION {entry}"]
    again = undo(spark, f"RESTORE TABLES ({two}) TO VERSION {entry}")
    assert [row["action"] for row in again.values()] == ["UNCHANGED"]


def test_before_a_transaction_keeps_what_others_wrote_before_it(spark, pair):
    one, two = pair
    write(spark, f"INSERT INTO {one} VALUES (3, 'x')")
    spark.sql(f"INSERT INTO {one} VALUES (4, 'outside, before')")
    spark.sql(f"INSERT INTO {two} VALUES (4, 'outside, before')")
    bad = load(spark, f"UPDATE {one} SET v = 'bad'")
    write(spark, f"INSERT INTO {two} VALUES (5, 'after')")
    spark.sql(f"INSERT INTO {one} VALUES (6, 'outside, after')")
    spark.sql(f"RESTORE TABLES ({one}, {two}) BEFORE TRANSACTION '{bad}'")
    assert rows(spark, one) == [(1, "a"), (2, "b"), (3, "x"), (4, "outside, before")]
    assert ids(spark, two) == [1, 2, 4]


def test_schema_with_its_names_is_as_it_was(spark):
    spark.sql("CREATE SCHEMA undo_schema")
    try:
        spark.sql("USE undo_schema")
        entry = write(
            spark,
            "CREATE TABLE a (id INT) USING delta",
            "CREATE TABLE b (id INT) USING delta",
            "INSERT INTO a VALUES (1)",
            "INSERT INTO b VALUES (2)",
            "CREATE VIEW both AS SELECT * FROM a UNION ALL SELECT * FROM b",
        )
        write(
            spark,
            "DROP TABLE a",
            "ALTER TABLE b RENAME TO c",
            "INSERT INTO c VALUES (3)",
            "DROP VIEW both",
            "CREATE TABLE d (id INT) USING delta",
        )
        assert actions(spark, f"RESTORE SCHEMA undo_schema TO VERSION {entry}") == [
            ("DROPPED", "c"),
            ("DROPPED", "d"),
            ("NAMED", "a"),
            ("NAMED", "b"),
            ("NAMED", "both"),
            ("RESTORED", "b"),
            ("UNCHANGED", "a"),
        ]
        assert sorted(names(spark)) == ["a", "b", "both"]
        assert ids(spark, "both") == [1, 2]
    finally:
        spark.sql("USE default")
        spark.sql("DROP SCHEMA undo_schema CASCADE")


@pytest.mark.classic
def test_database_is_as_it_was(spark, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.lakestep.root", f"file:{tmp_path}/timeline")
    session.sql("CREATE SCHEMA undo_database")
    session.sql("USE undo_database")
    path = f"delta.`{tmp_path}/by_path`"
    try:
        write(session, "CREATE TABLE a (id INT) USING delta", "INSERT INTO a VALUES (1)")
        write(
            session, f"CREATE TABLE {path} (id INT) USING delta", f"INSERT INTO {path} VALUES (1)"
        )
        session.sql("CREATE SNAPSHOT good")
        bad = load(session, "INSERT INTO a VALUES (2)", f"INSERT INTO {path} VALUES (2)")
        write(session, "DROP TABLE a", "CREATE TABLE b (id INT) USING delta")
        later = f"delta.`{tmp_path}/later`"
        write(session, f"CREATE TABLE {later} (id INT) USING delta")
        assert actions(session, "RESTORE DATABASE TO SNAPSHOT good") == [
            ("DROPPED", "b"),
            # A path without a name stays.
            ("MADE SINCE", "later"),
            ("NAMED", "a"),
            ("RESTORED", "a"),
            ("RESTORED", "by_path"),
        ]
        assert (ids(session, "a"), ids(session, path)) == ([1], [1])
        assert {row["tableName"] for row in session.sql("SHOW TABLES").collect()} == {"a"}
        undoing = last(session)["transaction_id"]
        session.sql(f"RESTORE DATABASE TO BEFORE TRANSACTION '{undoing}'")
        assert {row["tableName"] for row in session.sql("SHOW TABLES").collect()} == {"b"}
        assert ids(session, path) == [1, 2]
        session.sql(f"RESTORE DATABASE BEFORE TRANSACTION '{bad}'")
        assert (ids(session, "a"), ids(session, path)) == ([1], [1])
    finally:
        session.sql("USE default")
        session.sql("DROP SCHEMA undo_database CASCADE")


def test_restore_tells_what_it_cannot_do(spark, pair):
    one, _ = pair
    entry = write(spark, f"INSERT INTO {one} VALUES (3, 'x')")
    with refused("LAKESTEP_AS_OF_NOT_FOUND", "22023"):
        spark.sql(f"RESTORE TABLES ({one}) TO VERSION {entry + 100}")
    with refused("LAKESTEP_AS_OF_NOT_FOUND", "22023"):
        spark.sql(f"RESTORE TABLES ({one}) TO VERSION 0")
    with refused("LAKESTEP_NO_SUCH_SNAPSHOT", "42704"):
        spark.sql(f"RESTORE TABLES ({one}) TO SNAPSHOT nothing")
    with refused("LAKESTEP_AS_OF_NOT_FOUND", "22023"):
        spark.sql(f"RESTORE TABLES ({one}) TO BEFORE TRANSACTION 't0'")
    with refused("LAKESTEP_NOT_THERE_AS_OF"):
        spark.sql(f"RESTORE TABLES (undo_nothing) TO VERSION {entry}")
    with refused("SCHEMA_NOT_FOUND"):
        spark.sql(f"RESTORE SCHEMA undo_nothing TO VERSION {entry}")
    with refused("LAKESTEP_AS_OF_INVALID", "42601"):
        spark.sql(f"RESTORE TABLES ({one}) TO VERSION yesterday")
    begin(spark)
    try:
        spark.sql(f"INSERT INTO {one} VALUES (4, 'mine')")
        with refused("LAKESTEP_UNDO_OF_WRITTEN_TABLE", "25001"):
            spark.sql(f"RESTORE TABLES ({one}) TO VERSION {entry}")
    finally:
        rollback(spark)
    assert ids(spark, one) == [1, 2, 3]


def test_what_delta_reads_stays_deltas(spark, table):
    for name in ("database", "snapshot", "timeline", "schema", "tables"):
        made = table(f"`{name}`")
        spark.sql(f"DELETE FROM {made}")
        spark.sql(f"RESTORE TABLE {made} TO VERSION AS OF 1")
        assert ids(spark, made) == [1, 2]
    spark.sql("DELETE FROM schema")
    spark.sql("RESTORE schema TO VERSION AS OF 1")
    assert ids(spark, "schema") == [1, 2]


def test_header_is_as_it_was(spark, table):
    one = table("undo_header")
    entry = write(spark, f"INSERT INTO {one} VALUES (3, 'x')")
    write(
        spark,
        f"ALTER TABLE {one} ADD COLUMN (w INT)",
        f"ALTER TABLE {one} SET TBLPROPERTIES (kept_by = 'me')",
        f"INSERT INTO {one} VALUES (4, 'y', 1)",
    )
    spark.sql(f"RESTORE TABLES ({one}) TO VERSION {entry}")
    assert spark.table(one).columns == ["id", "v"]
    properties = {row["key"] for row in spark.sql(f"SHOW TBLPROPERTIES {one}").collect()}
    assert "kept_by" not in properties
    assert rows(spark, one)[-1] == (3, "x")


def described(session, name):
    """Schema with its metadata, rows, and protocol of a table."""
    detail = session.sql(f"DESCRIBE DETAIL {name}").first()
    schema = [field.jsonValue() for field in session.table(name).schema]
    protocol = (detail["minReaderVersion"], detail["minWriterVersion"])
    features = sorted(detail["tableFeatures"])
    # Some values are random.
    properties = {k: re.sub("-[-0-9a-f]{36}", "", v) for k, v in detail["properties"].items()}
    return schema, rows(session, name), protocol, features, properties


CHANGES = {
    "column mapping": (
        "",
        "'delta.columnMapping.mode' = 'name'",
        (
            "ALTER TABLE {} RENAME COLUMN v TO w",
            "INSERT INTO {} (id, w, n) VALUES (4, 'new', 4)",
            "ALTER TABLE {} DROP COLUMN n",
            "ALTER TABLE {} ADD COLUMN (n STRING)",
            "UPDATE {} SET n = 'again' WHERE id = 1",
        ),
    ),
    "column mapping since": (
        "",
        "'kept' = 'x'",
        (
            "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "ALTER TABLE {} RENAME COLUMN v TO w",
            "UPDATE {} SET w = 'new' WHERE id = 1",
        ),
    ),
    "deletion vectors since": (
        "",
        "'delta.enableChangeDataFeed' = 'true'",
        (
            "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
            "DELETE FROM {} WHERE id = 2",
            "INSERT INTO {} (id, v, n) VALUES (4, 'new', 4)",
        ),
    ),
    "row tracking since": (
        "",
        "'kept' = 'x'",
        (
            "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
            "UPDATE {} SET v = 'new' WHERE id = 2",
        ),
    ),
    "identity column": (
        "k BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), ",
        "'kept' = 'x'",
        (
            "INSERT INTO {} (id, v, n) VALUES (4, 'new', 4), (5, 'new', 5)",
            "DELETE FROM {} WHERE id = 1",
            "INSERT INTO {} (id, v, n) VALUES (6, 'new', 6)",
        ),
    ),
}


@pytest.mark.parametrize("since", CHANGES)
@pytest.mark.parametrize("of", ["TABLES", "DATABASE"])
def test_restore_leaves_what_that_of_delta_leaves(spark, tmp_path, since, of):
    """A twin takes the same way without transactions."""
    session = new_session(spark, tmp_path / "timeline")
    column, properties, changes = CHANGES[since]
    ours, twin = (f"delta.`{tmp_path}/{name}`" for name in ("ours", "twin"))
    for name in (ours, twin):
        session.sql(
            f"CREATE TABLE {name} ({column}id INT, v STRING, n INT) USING delta"
            f" TBLPROPERTIES ({properties})"
        )
    first = "INSERT INTO {} (id, v, n) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)"
    entry = write(session, first.format(ours))
    session.sql(first.format(twin))
    then = session.sql(f"DESCRIBE HISTORY {twin}").first()["version"]
    write(session, *(change.format(ours) for change in changes))
    for change in changes:
        session.sql(change.format(twin))
    assert described(session, ours)[1] == described(session, twin)[1]
    what = f"TABLES ({ours})" if of == "TABLES" else of
    session.sql(f"RESTORE {what} TO VERSION {entry}")
    session.sql(f"RESTORE TABLE {twin} TO VERSION AS OF {then}")
    assert described(session, ours) == described(session, twin)
    # What comes next is the same, too: the numbers of an identity column go on.
    for name in (ours, twin):
        session.sql(f"INSERT INTO {name} (id, v, n) VALUES (7, 'next', 7)")
        session.sql(f"DELETE FROM {name} WHERE id = 2")
    assert described(session, ours) == described(session, twin)
    assert [row[-3:] for row in rows(session, ours)] == [
        (1, "a", 1),
        (3, "c", 3),
        (7, "next", 7),
    ]


def test_identity_columns_give_no_number_twice(spark):
    spark.sql(
        "CREATE TABLE undo_identity (n BIGINT GENERATED ALWAYS AS IDENTITY, id INT) USING delta"
    )
    try:
        entry = write(spark, "INSERT INTO undo_identity (id) VALUES (1)")
        write(spark, "INSERT INTO undo_identity (id) VALUES (2)")
        used = {row[0] for row in rows(spark, "undo_identity")}
        spark.sql(f"RESTORE TABLES (undo_identity) TO VERSION {entry}")
        spark.sql("INSERT INTO undo_identity (id) VALUES (3)")
        fresh = {n for n, id in rows(spark, "undo_identity") if id == 3}
        assert not used & fresh
    finally:
        spark.sql("DROP TABLE undo_identity")


@pytest.mark.classic
def test_log_that_was_cleaned_up_is_restored_from_a_snapshot(spark, other_session, table):
    one = table("undo_cleaned")
    write(spark, f"INSERT INTO {one} VALUES (3, 'x')")
    spark.sql("CREATE SNAPSHOT undo_kept")
    try:
        bad = load(spark, f"DELETE FROM {one} WHERE id < 3")
        write(spark, f"INSERT INTO {one} VALUES (9, 'y')")
        where = folder(spark, one) / "_delta_log"
        log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
            spark._jsparkSession, str(where.parent)
        )
        log.checkpoint()
        newest = max(int(file.stem) for file in where.glob("*.json") if file.stem.isdigit())
        for file in where.glob("*.json"):
            if file.stem.isdigit() and int(file.stem) < newest:
                file.unlink()
                (where / f".{file.name}.crc").unlink(missing_ok=True)
        with refused("LAKESTEP_REVERT_LOG_GONE", "58P01"):
            spark.sql(f"REVERT TRANSACTION '{bad}'")
        spark.sql(f"RESTORE TABLES ({one}) TO SNAPSHOT undo_kept")
        assert ids(spark, one) == [1, 2, 3]
        # While another one is at it, VACUUM reads what that needs from the snapshot's copy.
        write(spark, f"DELETE FROM {one} WHERE id = 3")
        begin(other_session)
        other_session.sql(f"RESTORE TABLES ({one}) TO SNAPSHOT undo_kept")
        spark.sql(f"VACUUM {one} RETAIN 1000 HOURS")
    finally:
        spark.sql("DROP SNAPSHOT undo_kept")
    with refused("LAKESTEP_HELD_VERSION_UNREADABLE", "55000"):
        spark.sql(f"VACUUM {one} RETAIN 1000 HOURS")
    # As if its client had died.
    spark.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")
    spark.sql(f"VACUUM {one} RETAIN 1000 HOURS")
    abandon(other_session)


# Keys of applications and queries.


def write_as(session, one, app, version, value):
    frame = session.createDataFrame([(value, "batch")], "id INT, v STRING")
    options = {"txnAppId": app, "txnVersion": str(version)}
    frame.write.format("delta").mode("append").options(**options).saveAsTable(one)


def test_marks_of_applications_go_back_and_the_batch_is_loaded_again(spark, table):
    one = table("undo_marks")
    write_as(spark, one, "job", 1, 10)
    with lakestep.transaction(spark) as txn:
        write_as(spark, one, "job", 2, 20)
    (found,) = undo(spark, f"REVERT TRANSACTION '{txn.id}'").values()
    assert (found["keys_taken_back"], found["keys_kept"]) == (["job"], [])
    write_as(spark, one, "job", 2, 21)
    assert ids(spark, one) == [1, 2, 10, 21]
    # What is older than the newest is applied no second time.
    write_as(spark, one, "job", 1, 11)
    assert ids(spark, one) == [1, 2, 10, 21]


def test_marks_stay_where_the_application_went_on_or_the_user_says_so(spark, table):
    one = table("undo_kept_marks")
    with lakestep.transaction(spark) as first:
        write_as(spark, one, "job", 1, 10)
    write_as(spark, one, "job", 2, 20)
    (found,) = undo(spark, f"REVERT TRANSACTION '{first.id}'").values()
    assert (found["keys_taken_back"], found["keys_kept"]) == ([], ["job"])
    write_as(spark, one, "job", 2, 21)
    assert ids(spark, one) == [1, 2, 20]
    with lakestep.transaction(spark) as third:
        write_as(spark, one, "job", 3, 30)
    (found,) = undo(spark, f"REVERT TRANSACTION '{third.id}' KEEP KEYS").values()
    assert (found["keys_taken_back"], found["keys_kept"]) == ([], ["job"])
    write_as(spark, one, "job", 3, 31)
    assert ids(spark, one) == [1, 2, 20]


def test_marks_that_were_kept_stay_when_an_earlier_transaction_is_reverted(spark, table):
    one = table("undo_twice_kept_marks")
    with lakestep.transaction(spark) as first:
        write_as(spark, one, "job", 1, 10)
    with lakestep.transaction(spark) as second:
        write_as(spark, one, "job", 2, 20)
    undo(spark, f"REVERT TRANSACTION '{second.id}' KEEP KEYS")
    (found,) = undo(spark, f"REVERT TRANSACTION '{first.id}'").values()
    assert (found["keys_taken_back"], found["keys_kept"]) == ([], ["job"])
    write_as(spark, one, "job", 2, 21)
    assert ids(spark, one) == [1, 2]


def load_batch(session, one, number, value):
    with lakestep.transaction(session, batch=("undo_query", number)) as txn:
        if txn.replays is None:
            session.sql(f"INSERT INTO {one} VALUES ({value}, 'batch')")
    return txn


def test_batches_go_back_and_are_loaded_again(spark, table):
    one, two = table("undo_batches"), table("undo_more")
    spark.sql("FORGET BATCH KEYS 'undo_query'")
    load_batch(spark, one, 1, 10)
    bad = load_batch(spark, one, 2, 20)
    found = undo(spark, f"REVERT TRANSACTION '{bad.id}'")
    assert found["BATCHES"]["keys_taken_back"] == ["undo_query"]
    load_batch(spark, one, 1, 11)
    load_batch(spark, one, 2, 21)
    assert ids(spark, one) == [1, 2, 10, 21]
    entry = last(spark)["entry"]
    third = load_batch(spark, one, 3, 30)
    load_batch(spark, two, 4, 40)
    found = undo(spark, f"REVERT TRANSACTION '{third.id}'")
    assert found["BATCHES"]["keys_kept"] == ["undo_query"]
    # The query has written a table that is not restored.
    found = undo(spark, f"RESTORE TABLES ({one}) TO VERSION {entry}")
    assert found["BATCHES"]["keys_kept"] == ["undo_query"]
    found = undo(spark, f"RESTORE TABLES ({one}, {two}) TO VERSION {entry}")
    assert found["BATCHES"]["keys_taken_back"] == ["undo_query"]
    load_batch(spark, one, 3, 31)
    assert ids(spark, one) == [1, 2, 10, 21, 31]


def test_revert_conflicts_with_a_batch_that_comes_meanwhile(spark, other_session, table):
    one, two = table("undo_race"), table("undo_race_two")
    spark.sql("FORGET BATCH KEYS 'undo_query'")
    bad = load_batch(spark, one, 1, 10)
    spark.sql("BEGIN")
    spark.sql(f"REVERT TRANSACTION '{bad.id}'").collect()
    load_batch(other_session, two, 2, 20)
    with refused("LAKESTEP_CONFLICT"):
        spark.sql("COMMIT")
    rollback(spark)
    assert ids(spark, one) == [1, 2, 10]


# VACUUM.


@pytest.fixture
def vacuums(spark):
    """VACUUM deletes what nobody holds; no transaction that another test has left does."""
    spark.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    yield
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    spark.conf.unset("spark.lakestep.undo.retainHours")


@pytest.mark.classic
def test_vacuum_leaves_what_was_removed_within_the_hours_of_undo(spark, table, vacuums):
    one = table("undo_hours")
    first = load(spark, f"DELETE FROM {one} WHERE id = 1")
    spark.conf.set("spark.lakestep.undo.retainHours", "24")
    spark.sql(f"VACUUM {one} RETAIN 0 HOURS")
    spark.sql(f"REVERT TRANSACTION '{first}'")
    assert ids(spark, one) == [1, 2]
    second = load(spark, f"DELETE FROM {one} WHERE id = 2")
    spark.conf.set("spark.lakestep.undo.retainHours", "0")
    spark.sql(f"VACUUM {one} RETAIN 0 HOURS")
    with refused("LAKESTEP_UNDO_FILES_GONE"):
        spark.sql(f"REVERT TRANSACTION '{second}'")
    assert ids(spark, one) == [1]


@pytest.mark.classic
def test_vacuum_leaves_what_an_open_transaction_brings_back(spark, other_session, table, vacuums):
    other_session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    one = table("undo_held")
    entry = write(spark, f"INSERT INTO {one} VALUES (3, 'x')")
    bad = load(spark, f"DELETE FROM {one} WHERE id < 3")
    for statement in (
        f"REVERT TRANSACTION '{bad}'",
        f"RESTORE TABLES ({one}) TO VERSION {entry}",
    ):
        begin(spark)
        spark.sql(statement)
        (held,) = [row for row in held_of(other_session, one) if row["name"].startswith("UNDO-")]
        assert held["files"] > 0
        assert not any(row["snapshot"].startswith("UNDO") for row in shown_snapshots(spark))
        other_session.sql(f"VACUUM {one} RETAIN 0 HOURS")
        spark.sql("COMMIT")
        assert ids(other_session, one) == [1, 2, 3]
        flush(spark)
        assert not [row for row in held_of(spark, one) if row["name"].startswith("UNDO-")]
        spark.sql(f"RESTORE TABLES ({one}) TO VERSION {entry + 1}")
    # ROLLBACK lets it go, too.
    begin(spark)
    spark.sql(f"RESTORE TABLES ({one}) TO VERSION {entry}")
    rollback(spark)
    assert not [row for row in held_of(spark, one) if row["name"].startswith("UNDO-")]
    spark.sql(f"VACUUM {one} RETAIN 0 HOURS")
    with refused("LAKESTEP_UNDO_FILES_GONE"):
        spark.sql(f"RESTORE TABLES ({one}) TO VERSION {entry}")


def held_of(session, name):
    return session.sql(f"SELECT * FROM lakestep_held('{name}')").collect()


def shown_snapshots(session):
    return session.sql("SHOW SNAPSHOTS").collect()


@pytest.mark.classic
def test_vacuum_that_may_be_at_it_is_waited_for(spark, table, vacuums, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.lakestep.root", f"file:{tmp_path}/timeline")
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    one = table("undo_cut")
    bad = load(session, f"DELETE FROM {one} WHERE id = 1")
    session.sql(f"VACUUM {one} RETAIN 0 HOURS DRY RUN")
    session.conf.set("spark.lakestep.undo.retainHours", "1")
    session.sql(f"VACUUM {one} RETAIN 0 HOURS")
    (ended,) = (tmp_path / "timeline" / "cuts").glob("*.ended.json")
    # As its client has left it that died before it was done.
    ended.unlink()
    with refused("LAKESTEP_UNDO_CUT", "55006"):
        session.sql(f"REVERT TRANSACTION '{bad}'")
    assert ids(session, one) == [2]
    session.sql(f"VACUUM {one} RETAIN 0 HOURS")
    with refused("LAKESTEP_UNDO_CUT"):
        session.sql(f"REVERT TRANSACTION '{bad}'")
    for cut in (tmp_path / "timeline" / "cuts").glob("*.json"):
        if not cut.name.endswith(".ended.json"):
            (cut.parent / cut.name.replace(".json", ".ended.json")).write_bytes(cut.read_bytes())
    session.sql(f"REVERT TRANSACTION '{bad}'")
    assert ids(session, one) == [1, 2]


def schemas(spark):
    return {row[0] for row in spark.sql("SHOW SCHEMAS").collect()}


@pytest.mark.classic
def test_schemas_go_and_come_back_with_their_tables(spark):
    make = "CREATE TABLE undo_schema.t USING delta AS SELECT 1 AS id, 'a' AS v"
    entry = write(spark, "CREATE SCHEMA undo_schema", make)
    try:
        bad = load(spark, "DROP SCHEMA undo_schema CASCADE")
        lakestep.revert(spark, bad)
        assert ids(spark, "undo_schema.t") == [1]
        write(spark, "INSERT INTO undo_schema.t VALUES (2, 'b')")
        then = spark.sql("SELECT current_timestamp()").first()[0]
        worse = load(spark, "DROP SCHEMA undo_schema CASCADE")
        spark.sql(f"BEGIN AS OF VERSION {entry}")
        assert "undo_schema" in schemas(spark)
        rollback(spark)
        assert "undo_schema" not in schemas(spark)
        lakestep.revert(spark, worse)
        created = load(spark, make.replace(".t", ".u"))
        begin(spark)
        spark.sql(f"REVERT TRANSACTION '{created}'")
        with refused("TABLE_OR_VIEW_NOT_FOUND"):
            spark.table("undo_schema.u")
        spark.sql("UNDROP TABLE undo_schema.u")
        assert ids(spark, "undo_schema.u") == [1]
        rollback(spark)
        worse = load(spark, "DROP SCHEMA undo_schema CASCADE")
        dry = lakestep.restore(spark, before=worse, schema="undo_schema", dry_run=True)
        assert "NAMED" in {found.action for found in dry}
        assert "undo_schema" not in schemas(spark)
        lakestep.restore(spark, before=worse, schema="spark_catalog.undo_schema")
        assert ids(spark, "undo_schema.t") == [1, 2]
        write(spark, "DELETE FROM undo_schema.t")
        lakestep.restore(spark, timestamp=then, schema="`undo_schema`", keep_keys=True)
        assert ids(spark, "undo_schema.t") == [1, 2]
        spark.sql("CREATE SNAPSHOT undo_all")
        write(spark, "DELETE FROM undo_schema.t")
        lakestep.restore(spark, snapshot="undo_all", tables=["undo_schema.t"])
        spark.sql("DROP SNAPSHOT undo_all")
        assert ids(spark, "undo_schema.t") == [1, 2]
    finally:
        abandon(spark)
        spark.sql("DROP SCHEMA IF EXISTS undo_schema CASCADE")


# Python.


def test_python_reverts_and_restores(spark, pair):
    one, two = pair
    entry = write(spark, f"INSERT INTO {one} VALUES (3, 'x')")
    bad = load(spark, f"INSERT INTO {one} VALUES (4, 'bad')", f"DELETE FROM {two}")
    dry = lakestep.revert(spark, bad, dry_run=True)
    assert {found.action for found in dry} == {"RESTORED"}
    assert sum(found.removed_rows or 0 for found in dry) == 1
    lakestep.revert(spark, bad)
    assert (ids(spark, one), ids(spark, two)) == ([1, 2, 3], [1, 2])
    write(spark, f"DELETE FROM {one}")
    (found,) = lakestep.restore(spark, version=entry, tables=[one])
    assert (found.action, found.added_rows) == ("RESTORED", 3)
    assert ids(spark, one) == [1, 2, 3]
    with pytest.raises(TypeError, match="exactly one of"):
        lakestep.restore(spark, version=entry, snapshot="x")
    with pytest.raises(TypeError, match="exactly one of"):
        lakestep.restore(spark, tables=[one])
    with pytest.raises(TypeError, match="schema or tables"):
        lakestep.restore(spark, version=entry, tables=[one], schema="default")


@pytest.mark.classic
def test_closed_table_is_restored(spark, table):
    one = table("undo_closed")
    spark.sql(f"ALTER TABLE {one} SET TBLPROPERTIES (lakestep.foreignWriters = 'forbid')")
    entry = write(spark, f"INSERT INTO {one} VALUES (3, 'x')")
    bad = load(spark, f"DELETE FROM {one} WHERE id = 1")
    write(spark, f"INSERT INTO {one} VALUES (4, 'y')")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert ids(spark, one) == [1, 2, 3, 4]
    spark.sql(f"RESTORE TABLES ({one}) TO VERSION {entry}")
    assert ids(spark, one) == [1, 2, 3]
    properties = {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {one}").collect()}
    assert properties["lakestep.foreignWriters"] == "forbid"
    shutil.rmtree(folder(spark, one), ignore_errors=True)
