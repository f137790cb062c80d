"""Each statement inside a transaction, rolled back, failing and committed, against plain Delta."""

import pytest

import files_on_disk
import statement_kinds
import table_kinds
import table_state
from arena import head, read_by_delta_rs
from built import LINE
from transactions import begin, commit, condition_of, rollback

pytestmark = pytest.mark.usefixtures("no_transaction_left")

# In `make test` a statement fails in the middle for one of each way in which Delta stages it.
FAILING = {"insert_values", "update", "merge", "add_column", "write_overwrite", "optimize"}


# Spark 4.0 replaces the table.
NOT_THERE = {"save_as_table_overwrite"} if LINE == "4.0" else set()
ALL = [kind for kind in statement_kinds.KINDS.values() if kind.name not in NOT_THERE]


# Plain Delta writes files there that no version names, and says nothing: test_refusals.py.
LOST = ("insert_into_view", "partitioned")


def cases(pairs, short):
    """Pairs of a statement and a table kind; in `make test` only those that `short` takes."""
    return [
        pytest.param(
            statement.name,
            kind,
            id=f"{statement.name}-{kind}",
            marks=[
                *(() if short(statement, kind) else (pytest.mark.long,)),
                # Delta publishes no JAR for the Connect server's side of DeltaTable.
                *((pytest.mark.classic,) if statement.name.startswith("for_") else ()),
            ],
        )
        for statement, kind in pairs
    ]


def on_every_table():
    """Each statement on each kind of table."""
    pairs = [
        (statement, kind)
        for statement in ALL
        for kind in table_kinds.KINDS
        if (statement.is_seen or kind == statement.table) and (statement.name, kind) != LOST
    ]
    return cases(pairs, lambda statement, kind: kind == statement.table)


def failing():
    """Each statement fails on its own kind of table, and on each kind of table some statement."""
    rows = [statement for statement in ALL if statement.name in ("update", "merge")]
    pairs = [(statement, statement.table) for statement in ALL]
    pairs += [(s, kind) for s in rows for kind in table_kinds.KINDS if kind != s.table]
    return cases(pairs, lambda s, kind: s.name in FAILING and kind == s.table)


def run(spark, statement, target):
    """The condition of the statement's failure, or None."""
    try:
        statement_kinds.run(spark, statement, target)
    except Exception as failure:
        if condition_of(failure) is None:
            raise
        return condition_of(failure)
    return None


def assert_state(state, expected):
    # Plain Delta leaves no checksum after RESTORE.
    assert state | ({} if expected["checksum"] else {"checksum": False}) == expected


@pytest.mark.sliced
@pytest.mark.parametrize(("statement", "kind"), on_every_table())
def test_statement_is_seen_then_rolled_back_then_committed_as_plain_delta_does(
    spark, arena, statement, kind
):
    expected = arena.expected(kind, statement)
    target = arena.table(kind)
    files = files_on_disk.prints(target.path)
    before = table_state.view(spark, target.sql)

    begin(spark)
    condition = run(spark, statement, target)
    inside = table_state.view(spark, target.sql)
    files_on_disk.assert_log_untouched(target.path, files)
    rollback(spark)
    assert condition == expected.result()["condition"], expected.result().get("message")
    if condition is not None:
        assert kind != statement_kinds.KINDS[statement].table, expected.result()["message"]
        assert inside == before
        return
    assert inside != before or not statement_kinds.KINDS[statement].is_seen
    assert inside == expected.result()["view"]
    files_on_disk.assert_log_untouched(target.path, files)
    assert table_state.view(spark, target.sql) == before

    since = head(target.path)
    begin(spark)
    assert run(spark, statement, target) is None
    files_on_disk.assert_log_untouched(target.path, files)
    commit(spark)
    files_on_disk.await_checksum(target.path, since + 1)
    files_on_disk.assert_kept(target.path, files)
    assert head(target.path) == since + 1
    assert_state(arena.state(target.path, since), expected.result()["state"])
    if table_kinds.KINDS[kind].delta_rs_reads:
        assert read_by_delta_rs(target.path) == expected.result()["view"]["rows"]


@pytest.mark.classic
@pytest.mark.sliced
@pytest.mark.parametrize(("statement", "kind"), failing())
def test_failing_statement_leaves_the_state_before_it_and_the_transaction_commits(
    spark, arena, statement, kind
):
    expected = arena.expected(kind, "data", statement)
    target = arena.table(kind)
    files = files_on_disk.prints(target.path)
    since = head(target.path)

    begin(spark)
    statement_kinds.run(spark, "data", target)
    before = table_state.view(spark, target.sql)
    staged = files_on_disk.staged_commits(target.path)
    with pytest.raises(Exception) as raised:
        statement_kinds.KINDS[statement].fail(spark, target)
    # Delta has errors without a condition.
    assert not (condition_of(raised.value) or "").startswith("LAKESTEP")
    assert table_state.view(spark, target.sql) == before
    assert files_on_disk.staged_commits(target.path) == staged
    files_on_disk.assert_log_untouched(target.path, files)
    condition = run(spark, statement, target)
    assert condition == expected.result()["condition"], expected.result().get("message")
    commit(spark)
    files_on_disk.assert_kept(target.path, files)
    if condition is None:
        assert_state(arena.state(target.path, since), expected.result()["state"])
