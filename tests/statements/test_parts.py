"""A transaction that makes several commits in one table, looked at between two of them."""

import pytest

pytestmark = pytest.mark.sliced

STATEMENTS = ("UPDATE {} SET v = 'new' WHERE id = 1", "INSERT INTO {} VALUES (3, 'new')")
OLD, NEW = [(1, "old"), (2, "old")], [(1, "new"), (2, "old"), (3, "new")]


@pytest.fixture
def table(plain, tmp_path):
    """A table with a change feed, which plain Delta has made."""
    name = f"delta.`{tmp_path}/t`"
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    plain.ask("sql", text=f"CREATE TABLE {name} (id INT, v STRING) USING delta {feed}")
    plain.ask("sql", text=f"INSERT INTO {name} VALUES (1, 'old'), (2, 'old')")
    return name


def test_sessions_see_all_of_the_commits_or_none_and_others_may_commit_between(
    drivers, plain, table, tmp_path
):
    writer, reader = drivers(2)
    root = {"spark.lakestep.root": f"file:{tmp_path}/timeline"}
    session = reader.session(**root)
    rows = f"SELECT id, v FROM {table} ORDER BY id"
    feed = f"table_changes_by_path('{tmp_path}/t', 2)"
    changes = f"SELECT id FROM {feed} ORDER BY _commit_version, id"
    assert session.sql(rows) == OLD
    with writer.halts("published:1") as halts:
        typed = (statement.format(table) for statement in STATEMENTS)
        commit = writer.session(**root).start_sql("BEGIN", *typed, "COMMIT")
        halts.during(commit)
        assert halts.reached() == "published:1"
        # What readers without Lakestep see, as docs/guarantees.md says, is in the log.
        assert plain.ask("state", path=f"{tmp_path}/t", since=1)["rows"] == [
            '[1, "new"]',
            '[2, "old"]',
        ]
        assert session.sql(rows) == OLD
        session.sql("BEGIN READ ONLY")
        assert session.sql(rows) == OLD
        plain.ask("sql", text=f"INSERT INTO {table} VALUES (4, 'theirs')")
        halts.go()
        commit.result()
    assert session.sql(rows) == OLD
    session.sql("COMMIT")
    assert session.sql(rows) == [*NEW, (4, "theirs")]
    assert session.sql(changes) == [(1,), (1,), (4,), (3,)]
    # By plain Delta, which also derives the next checksum from the last one.
    plain.ask("sql", text=f"INSERT INTO {table} VALUES (5, 'theirs')")
    state = plain.ask("state", path=f"{tmp_path}/t", since=1)
    assert state["checksum"] is True and len(state["rows"]) == 5
