"""Queries outside a transaction, while another driver is held between two of its publishes."""

import pytest

from lake import Lake, append, rewrite

pytestmark = pytest.mark.sliced

UPDATE = "UPDATE {} SET v = 'new' WHERE id = 1"
OLD, NEW = ("old", "old"), ("new", "new")

# Each reads v of row 1 in both tables.
JOIN = "SELECT a.v, b.v AS w FROM {0} a JOIN {1} b USING (id) WHERE id = 1"
SUBQUERY = "SELECT v, (SELECT v FROM {1} WHERE id = 1) FROM {0} WHERE id = 1"
UNION = "SELECT first(v), last(v) FROM (SELECT * FROM {0} UNION ALL SELECT * FROM {1}) WHERE id = 1"
EXISTS = "SELECT v, v FROM {0} a WHERE id = 1 AND EXISTS (SELECT 1 FROM {1} b WHERE b.v = a.v)"

LISTS_HALT = {
    "fs.file.impl": "io.lakestep.testing.HaltingFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path, 2)


def both(lake, query):
    return query.format(*(f"delta.`{path}`" for path in lake.tables))


def export(lake, name, query):
    """Write the answer of a query as Parquet files."""
    return f"INSERT OVERWRITE DIRECTORY '{lake.folder}/{name}' USING parquet {both(lake, query)}"


def exported(session, lake, name):
    return session.sql(f"SELECT * FROM parquet.`{lake.folder}/{name}`")


@pytest.fixture
def held(drivers, lake):
    """A reader, and a writer that has published its first table and not its second."""
    writer, reader = drivers(2)
    session = reader.session(lake.root)
    assert session.sql(both(lake, JOIN)) == [OLD]
    with writer.halts("published:1") as halts:
        commit = writer.session(lake.root).start_sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
        halts.during(commit)
        assert halts.reached() == "published:1"

        def finish():
            halts.go()
            commit.result()

        yield session, finish


def test_query_sees_all_of_a_transaction_or_nothing(held, lake):
    session, finish = held
    assert [lake.rows(path)[0][1] for path in lake.tables] == ["new", "old"]
    for query in (JOIN, SUBQUERY, UNION, EXISTS):
        assert session.sql(both(lake, query)) == [OLD], query
    for path in lake.tables:
        assert session.sql(f"SELECT v FROM delta.`{path}` WHERE id = 1") == [("old",)]
        assert session.sql(f"SELECT count(*) FROM delta.`{path}`") == [(2,)]
    session.sql(export(lake, "before", JOIN))
    session.sql("DECLARE VARIABLE x STRING", "DECLARE VARIABLE y STRING")
    session.sql(f"SET VARIABLE (x, y) = ({both(lake, JOIN)})")
    assert session.sql("SELECT x, y") == [OLD]
    session.sql(f'EXECUTE IMMEDIATE "{both(lake, JOIN)}" INTO x, y')
    assert session.sql("SELECT x, y") == [OLD]
    session.sql("BEGIN READ ONLY")
    assert session.sql(both(lake, JOIN)) == [OLD]
    assert lake.outcome(1) is None, "a reader has finished the transaction of another"
    finish()
    assert session.sql(both(lake, JOIN)) == [OLD]
    session.sql("COMMIT")
    for query in (JOIN, SUBQUERY, UNION, EXISTS):
        assert session.sql(both(lake, query)) == [NEW], query
    session.sql(export(lake, "after", JOIN))
    assert exported(session, lake, "before") == [OLD]
    assert exported(session, lake, "after") == [NEW]


def test_first_transaction_of_tables_commits_while_a_query_loads_them(drivers, lake):
    driver, reader = drivers(2)
    writer = driver.session(lake.root)
    session = reader.session(lake.root, **LISTS_HALT)
    session.call("driver:analyse", statement=both(lake, JOIN))
    with reader.halts("list:2") as halts:
        query = halts.during(session.start("driver:run_analysed"))
        assert halts.reached() == "list:2"
        writer.sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
        halts.go()
        assert [tuple(row) for row in query.result()] == [NEW]


def test_foreign_commits_below_the_unfinished_one_are_read(held, lake):
    session, finish = held
    first, second = lake.tables
    append(second, (3, "foreign"))
    assert session.sql(f"SELECT max(id) FROM delta.`{second}`") == [(3,)]
    append(first, (3, "foreign"))
    assert session.sql(f"SELECT max(id) FROM delta.`{first}`") == [(2,)]
    finish()
    assert session.sql(f"SELECT max(id) FROM delta.`{first}`") == [(3,)]
    assert session.sql(both(lake, JOIN)) == [NEW]


COPIES = {
    "ctas": f"CREATE TABLE {{copy}} USING delta AS {JOIN}",
    "rtas": f"CREATE OR REPLACE TABLE {{copy}} USING delta AS {JOIN}",
    "clone": "CREATE TABLE {copy} SHALLOW CLONE {0}",
}


@pytest.mark.parametrize("kind", COPIES)
def test_table_that_is_made_of_others_holds_no_part_of_a_transaction(held, lake, kind):
    session, finish = held
    copy = f"delta.`{lake.folder}/copy`"
    tables = [f"delta.`{path}`" for path in lake.tables]
    session.sql(COPIES[kind].format(*tables, copy=copy))
    found = session.sql(f"SELECT * FROM {copy}")
    if kind != "clone":
        assert found == [OLD]
    else:
        assert (1, "new") in found
        assert lake.outcome(1)["outcome"] == "completed"
    finish()
    lake.check_timeline()


@pytest.mark.parametrize("kind", ["ctas", "rtas"])
def test_table_is_made_of_one_snapshot_of_others(drivers, lake, kind):
    driver, reader = drivers(2)
    session = reader.session(lake.root, **LISTS_HALT)
    tables = [f"delta.`{path}`" for path in lake.tables]
    create = COPIES[kind].format(*tables, copy=f"delta.`{lake.folder}/copy`")
    writer = driver.session(lake.root)
    writer.sql("BEGIN", *lake.sql("UPDATE {} SET v = 'new' WHERE id = 2"), "COMMIT")
    with reader.halts("list:4") as halts:
        made = halts.during(session.start_sql(create))
        # Analysed, and one of the two loaded.
        assert halts.reached() == "list:4"
        writer.sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
        halts.go()
        made.result()
    assert session.sql(f"SELECT * FROM delta.`{lake.folder}/copy`") == [NEW]


WRITES = {
    "update": "UPDATE {0} SET v = concat(v, '!') WHERE id = 1",
    "insert": "INSERT INTO {2} SELECT * FROM {0} WHERE id = 1",
    "merge": "MERGE INTO {2} c USING (SELECT * FROM {0} WHERE id = 1) a ON c.id = a.id "
    "WHEN NOT MATCHED THEN INSERT *",
    "update_by_a_subquery": "UPDATE {2} SET v = (SELECT v FROM {0} WHERE id = 1)",
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_statement_never_builds_on_what_is_taken_back(drivers, tmp_path, write):
    """Wherever a transaction is published between two listings of a statement outside of it."""
    writer, other = drivers(2)
    for listing in (2, 3, 4):
        lake = Lake(tmp_path / str(listing), 2)
        copy = lake.table("copy", [(0, "copy")])
        tables = [f"delta.`{path}`" for path in [*lake.tables, copy]]
        session = other.session(lake.root, **LISTS_HALT)
        owner = writer.session(lake.root)
        owner.sql("BEGIN", *lake.sql("INSERT INTO {} VALUES (9, 'first')"), "COMMIT")
        session.sql(f"SELECT count(*) FROM {tables[0]}")
        owner.sql("BEGIN", *lake.sql(UPDATE))
        with other.halts(f"list:{listing}") as halts, writer.halts("published:1") as publishing:
            statement = halts.during(session.start_sql(write.format(*tables)))
            if halts.reached() is None:
                assert listing > 2 and statement.exception() is None
                owner.sql("ROLLBACK")
                break
            commit = publishing.during(owner.start_sql("COMMIT"))
            publishing.reached()
            halts.go()
            failure = statement.exception()
            rewrite(lake.tables[1], 1)
            publishing.go()
            is_committed = commit.exception() is None
        assert failure is None
        found = {v.removesuffix("!") for path in (lake.tables[0], copy) for _, v in lake.rows(path)}
        assert ("new" in found) <= is_committed, (listing, found)
        lake.check_timeline()


def test_query_reads_the_newest_of_what_no_unfinished_entry_writes(drivers, lake):
    writer, client = drivers(2)
    one, two = (lake.table(name, [(0, name)]) for name in ("one", "two"))
    session = client.session(lake.root)
    session.sql("BEGIN", f"INSERT INTO delta.`{one}` VALUES (1, 'mine')")
    with writer.halts("published:1") as halts:
        commit = writer.session(lake.root).start_sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
        halts.during(commit)
        assert halts.reached() == "published:1"
        session.sql("COMMIT")
        session.sql(f"INSERT INTO delta.`{two}` SELECT * FROM delta.`{one}` WHERE id = 1")
        counts = ", ".join(f"(SELECT count(*) FROM delta.`{path}`)" for path in (one, two))
        assert session.sql(f"SELECT {counts}, v FROM delta.`{lake.tables[0]}` WHERE id = 1") == [
            (2, 2, "old")
        ]
        assert lake.outcome(1) is None
        halts.go()
        commit.result()
    lake.check_timeline()


def test_statement_that_writes_finishes_the_transaction_first(held, lake):
    session, finish = held
    session.sql(f"DELETE FROM delta.`{lake.tables[0]}` WHERE id = 2")
    assert lake.outcome(1)["outcome"] == "completed"
    assert session.sql(both(lake, JOIN)) == [NEW]
    finish()
    lake.check_timeline()


@pytest.mark.parametrize(
    ("statement", "takes_files"),
    [
        ("VACUUM delta.`{1}` RETAIN 0 HOURS", True),
        ("VACUUM delta.`{1}` RETAIN 0 HOURS DRY RUN", False),
        ("ALTER TABLE mine RENAME TO yours", True),
        ("CREATE TABLE yours LIKE mine", True),
        ("CREATE TABLE yours SHALLOW CLONE mine", True),
    ],
)
def test_what_would_take_files_from_under_an_unfinished_entry_finishes_it_first(
    drivers, lake, statement, takes_files
):
    writer, survivor = drivers(2)
    session = survivor.session(
        lake.root, **{"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
    )
    session.sql(f"CREATE TABLE mine USING delta LOCATION '{lake.tables[0]}'")
    with writer.halts("published:1") as halts:
        commit = writer.session(lake.root).start_sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
        halts.during(commit)
        assert halts.reached() == "published:1"
        writer.kill()
    session.sql(statement.format(*lake.tables))
    assert (lake.outcome(1) or {}).get("outcome") == ("completed" if takes_files else None)
    session.sql("RECOVER")
    session.sql("DROP TABLE IF EXISTS mine", "DROP TABLE IF EXISTS yours")
    assert session.sql(both(lake, JOIN)) == [NEW]


SELF_READS = {
    "replace": "CREATE OR REPLACE TABLE {0} USING delta AS SELECT * FROM {0}",
    "overwrite": "INSERT OVERWRITE {0} SELECT * FROM {0}",
    "merge": "MERGE INTO {0} t USING {0} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
}


@pytest.mark.parametrize("kind", SELF_READS)
def test_statement_that_reads_what_it_changes_loses_nothing_of_others(drivers, tmp_path, kind):
    """Wherever a foreign commit comes between two listings of it."""
    [driver] = drivers(1)
    for listing in range(1, 9):
        lake = Lake(tmp_path / str(listing))
        table = lake.table("t", [(1, "a"), (2, "z"), (3, "b")])
        session = driver.session(lake.root, **LISTS_HALT)
        session.sql(f"SELECT count(*) FROM delta.`{table}`")
        with driver.halts(f"list:{listing}") as halts:
            done = halts.during(session.start_sql(*lake.sql(SELF_READS[kind], [table])))
            if halts.reached() is None:
                assert listing > 2 and done.exception() is None
                break
            rewrite(table, 2)
            append(table, (4, "foreign"))
            halts.go()
            failure = done.exception()
        assert failure is None or "CONCURRENT" in failure.condition, failure
        assert [row for row, _ in lake.rows(table)] == [1, 3, 4]
    else:
        pytest.fail("it never came to its end")


@pytest.mark.parametrize("source", ["{1}", "(SELECT s.id, s.v FROM {1} s, {2} f)"])
def test_both_queries_of_a_merge_read_one_version_of_its_source(drivers, tmp_path, source):
    [driver] = drivers(1)
    for listing in range(1, 16):
        lake = Lake(tmp_path / str(listing))
        target = lake.table("target")
        read = lake.table("source", [(1, "new")])
        further = lake.table("further", [(0, "further")])
        session = driver.session(lake.root, **LISTS_HALT)
        merge = (
            f"MERGE INTO {{0}} t USING {source} s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
        ).format(*lake.sql("{}", [target, read, further]))
        with driver.halts(f"list:{listing}") as halts:
            done = halts.during(session.start_sql(merge))
            if halts.reached() is None:
                assert listing > 3 and done.exception() is None
                break
            append(read, (2, "new"))
            halts.go()
            assert done.exception() is None
        assert lake.rows(target) in ([(1, "new"), (2, "old")], [(1, "new"), (2, "new")])
    else:
        pytest.fail("it never came to its end")


def test_a_session_sees_its_own_commit_above_an_unfinished_entry(drivers, lake):
    writer, reader = drivers(2)
    first, _ = lake.tables
    # Read when Delta's transaction has begun.
    source = lake.table("source", [(0, "mine")])
    owner = writer.session(lake.root)
    session = reader.session(lake.root, **LISTS_HALT)
    owner.sql("BEGIN", *lake.sql("INSERT INTO {} VALUES (8, 'first')"), "COMMIT")
    for listing in range(1, 9):
        row = 100 + listing
        owner.sql("BEGIN", *lake.sql(UPDATE))
        with reader.halts(f"list:{listing}") as halts, writer.halts("published:1") as publishing:
            insert = f"INSERT INTO delta.`{first}` SELECT {row}, v FROM delta.`{source}`"
            done = halts.during(session.start_sql(insert))
            if halts.reached() is None:
                assert listing > 2 and done.exception() is None
                owner.sql("ROLLBACK")
                break
            commit = publishing.during(owner.start_sql("COMMIT"))
            publishing.reached()
            halts.go()
            assert done.exception() is None
            assert session.sql(f"SELECT v FROM delta.`{first}` WHERE id = {row}") == [("mine",)]
            publishing.go()
            assert commit.exception() is None
    else:
        pytest.fail("it never came to its end")
    lake.check_timeline()
