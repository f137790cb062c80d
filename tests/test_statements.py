"""Each statement inside a transaction, rolled back, failing and committed, against plain Delta."""

import itertools
import json
import os
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake import QueryBuilder

import files_on_disk
import statement_kinds
import table_kinds
import table_state
from statement_kinds import Target

numbers = itertools.count()


class Arena:
    """Copies of ready-made tables: one to transact on, twins for plain Delta."""

    def __init__(self, spark, plain, folder):
        self._spark, self._plain, self._folder = spark, plain, folder
        self._expected = {}

    def copy(self, kind, name=None):
        template = self._folder / "templates" / kind
        if not template.exists():
            self._plain.ask("create", kind=kind, path=str(template))
        path = self._folder / (name or f"{kind}-{next(numbers)}")
        shutil.copytree(template, path)
        return path

    def table(self, kind):
        path = self.copy(kind)
        name = path.name.replace("-", "_")
        self._spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
        return Target(name, str(path))

    def expected(self, kind, *statements):
        """What plain Delta makes of the statements on a twin; computed meanwhile."""
        if (kind, statements) not in self._expected:
            path = self.copy(kind)
            self._expected[kind, statements] = self._plain.start(
                "after", statements=statements, path=str(path), since=head(path)
            )
        return self._expected[kind, statements]


def head(path):
    """The newest version of a table."""
    return max(int(file.name[:20]) for file in Path(path, "_delta_log").glob("[0-9]*.json"))


@pytest.fixture(scope="module")
def arena(spark, plain, tmp_path_factory):
    return Arena(spark, plain, tmp_path_factory.mktemp("tables"))


def matrix():
    """Every statement on its own table in `make test`, on every other in `make test-long`."""
    for statement in statement_kinds.KINDS.values():
        for table in table_kinds.KINDS:
            marks = () if table == statement.table else (pytest.mark.long,)
            yield pytest.param(statement.name, table, marks=marks, id=f"{statement.name}-{table}")


def begin(spark):
    spark.sql("BEGIN").collect()


def commit(spark):
    spark.sql("COMMIT").collect()


def rollback(spark):
    spark.sql("ROLLBACK").collect()


def abandon(spark):
    """Leaves no transaction to the next test, whatever state a failed one is in."""
    if spark.sql("SHOW TRANSACTIONS").where("state != 'INFLIGHT'").collect():
        rollback(spark)


def run(spark, statement, target):
    """The condition of the statement's failure, or None."""
    try:
        statement_kinds.run(spark, statement, target)
    except Exception as failure:
        if not hasattr(failure, "getCondition"):
            raise
        return failure.getCondition()
    return None


def lines(rows):
    return sorted(json.dumps(row, default=str, ensure_ascii=False) for row in rows)


def read_by_delta_rs(path):
    table = DeltaRsTable(path)
    columns = ", ".join(f'"{field.name}"' for field in table.schema().fields)
    batches = QueryBuilder().register("t", table).execute(f"SELECT {columns} FROM t")
    result = batches.read_all()
    return lines(zip(*(result.column(i).to_pylist() for i in range(result.num_columns))))


@pytest.mark.parametrize(("statement", "kind"), list(matrix()))
def test_statement_is_seen_then_rolled_back_then_committed_as_plain_delta_does(
    spark, plain, arena, statement, kind
):
    expected = arena.expected(kind, statement)
    target = arena.table(kind)
    files = files_on_disk.prints(target.path)
    before = table_state.view(spark, target.sql)

    begin(spark)
    try:
        condition = run(spark, statement, target)
        inside = table_state.view(spark, target.sql)
        files_on_disk.assert_log_untouched(target.path, files)
    finally:
        rollback(spark)
    assert condition == expected.result()["condition"], expected.result().get("message")
    if condition is not None:
        assert inside == before
        return
    assert inside != before
    assert inside == expected.result()["view"]
    files_on_disk.assert_log_untouched(target.path, files)
    assert table_state.view(spark, target.sql) == before

    if os.environ.get("NOCOMMIT"): return
    since = head(target.path)
    begin(spark)
    assert run(spark, statement, target) is None
    files_on_disk.assert_log_untouched(target.path, files)
    commit(spark)
    files_on_disk.assert_kept(target.path, files)
    assert table_state.view(spark, target.sql) == inside
    assert plain.ask("state", path=target.path, since=since) == expected.result()["state"]
    assert read_by_delta_rs(target.path) == expected.result()["view"]["rows"]


@pytest.mark.parametrize(("statement", "kind"), list(matrix()))
def test_failing_statement_leaves_the_state_before_it_and_the_transaction_commits(
    spark, plain, arena, statement, kind
):
    one_only = table_kinds.KINDS[kind].one_data_statement or statement == "optimize"
    first = "metadata" if one_only or statement == "unset_properties" else "data"
    expected = arena.expected(kind, first, statement)
    target = arena.table(kind)
    files = files_on_disk.prints(target.path)

    begin(spark)
    try:
        statement_kinds.run(spark, first, target)
        before = table_state.view(spark, target.sql)
        staged = files_on_disk.staged_commits(target.path)
        with pytest.raises(Exception) as raised:
            statement_kinds.KINDS[statement].fail(spark, target)
        assert not raised.value.getCondition().startswith("LAKESTEP")
        assert table_state.view(spark, target.sql) == before
        assert files_on_disk.staged_commits(target.path) == staged
        files_on_disk.assert_log_untouched(target.path, files)
        since = head(target.path)
        condition = run(spark, statement, target)
        if os.environ.get("NOCOMMIT"): return rollback(spark)
        assert condition == expected.result()["condition"], expected.result().get("message")
        commit(spark)
    except BaseException:
        abandon(spark)
        raise
    files_on_disk.assert_kept(target.path, files)
    if condition is None:
        assert plain.ask("state", path=target.path, since=since) == expected.result()["state"]
