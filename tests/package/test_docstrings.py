"""The examples in the docstrings of the package, run on tables that they name."""

import doctest
import importlib
import logging
import pkgutil
from contextlib import ExitStack

import pytest
from pyspark.errors import AnalysisException

import lakestep
from built import LINE
from transactions import write

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]

# A session that is being made, and a project: test_configure.py and test_dbt.py have them.
ELSEWHERE = ("SparkSession", "run_dbt", "result.success")
SOME_ID = "t0123456789abcdef0123456789abcdef"
TABLES = {
    "orders": "SELECT 1 AS id",
    "lineitems": "SELECT 1 AS id",
    "new_orders": "SELECT 2 AS id",
    "new_lineitems": "SELECT 2 AS id",
    "staging": "SELECT 1 AS id, true AS loaded",
    "accounts": "SELECT 1 AS id, 100 AS balance",
    "stock": "SELECT 'apple' AS item, 5 AS n",
    "sales": "SELECT 'pear' AS item, current_timestamp() AS at",
    "raw": "SELECT 1 AS id, 'monday' AS day",
    "events": "SELECT 0 AS id, 'sunday' AS day",
    "days": "SELECT 'sunday' AS day, 1L AS n",
}


def documented():
    """The examples of each docstring that has some."""
    finder, found = doctest.DocTestFinder(exclude_empty=True), {}
    modules = [m.name for m in pkgutil.iter_modules(lakestep.__path__, "lakestep.")]
    for name in ("lakestep", *modules):
        for test in finder.find(importlib.import_module(name)):
            examples = [e for e in test.examples if not any(x in e.source for x in ELSEWHERE)]
            if examples:
                found[test.name] = examples
    return found


EXAMPLES = documented()


@pytest.fixture
def tables(spark):
    for name, query in TABLES.items():
        spark.sql(f"CREATE OR REPLACE TABLE {name} USING delta AS {query}")
    yield
    for name in TABLES:
        spark.sql(f"DROP TABLE {name}")


def counts(spark):
    """The rows of each table, by one query."""
    queries = [f"SELECT '{table}', count(*) FROM {table}" for table in TABLES]
    return dict(map(tuple, spark.sql(" UNION ALL ".join(queries)).collect()))


def test_every_public_function_with_an_example_is_found():
    assert {
        "lakestep",
        "lakestep._run.run",
        "lakestep._run.foreach_batch",
        "lakestep._transaction.transaction",
        "lakestep._transaction.Transaction.check",
        "lakestep._transaction.Transaction.savepoint",
        "lakestep._undo.revert",
        "lakestep._undo.restore",
    } <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(spark, tables, tmp_path, name):
    with ExitStack() as opened:
        txn = None
        if name.startswith("lakestep._writer."):
            txn = opened.enter_context(lakestep.transaction(spark))
        names = {
            "lakestep": lakestep,
            "spark": spark,
            "txn": txn,
            "path": str(tmp_path / "files"),
            "log": logging.getLogger("docstrings"),
            "AnalysisException": AnalysisException,
            "df": spark.sql("SELECT 1 AS id"),
            "orders": spark.sql("SELECT 3 AS id"),
            "late_orders": spark.sql("SELECT 4 AS id"),
            "stream": spark.readStream.table("raw"),
        }
        committed = None
        if name == "lakestep._undo.revert":
            committed = spark.sql("BEGIN").collect()[0]["transaction_id"]
            spark.sql("DELETE FROM orders")
            spark.sql("COMMIT")
        if name == "lakestep._undo.restore":
            spark.sql("CREATE SNAPSHOT monday")
            write(spark, "DELETE FROM orders", "DELETE FROM stock")
        before = counts(spark)
        for example in EXAMPLES[name]:
            source = example.source.replace(SOME_ID, committed or SOME_ID)
            told = _run(source, names)
            if example.want and LINE == "4.2":
                # The file of the checkout is elsewhere.
                assert told.endswith(example.want.strip().rpartition("/")[2])
    for row in spark.sql("SHOW SNAPSHOTS").collect():
        spark.sql(f"DROP SNAPSHOT `{row['snapshot']}`")
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
    after = counts(spark)
    changed = {table: after[table] - before[table] for table in TABLES}
    assert {table: by for table, by in changed.items() if by} == CHANGED.get(name, {})


# How many rows the tables have more than before the example.
CHANGED = {
    "lakestep": {"orders": 1, "lineitems": 1},
    "lakestep._run.run": {"sales": 1},
    "lakestep._run.foreach_batch": {"events": 1, "days": 1},
    "lakestep._transaction.transaction": {"orders": 1, "staging": -1},
    "lakestep._transaction.Transaction.savepoint": {"orders": 2},
    "lakestep._undo.revert": {"orders": 1},
    "lakestep._undo.restore": {"orders": 1, "stock": 1},
}


def _run(source, names):
    """Run one example; what a console would show of it."""
    try:
        value = eval(compile(source, "<example>", "eval"), names)
    except SyntaxError:
        exec(compile(source, "<example>", "exec"), names)
        return ""
    return "" if value is None else repr(value)
