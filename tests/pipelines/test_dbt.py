"""The dbt project of the docs: a run is one transaction, committed if all of it passed."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lakestep
from built import TOP
from fast_start import FAST_START, FEW_TABLES, FEW_TASKS, INTERPRETED
from lakestep import _dbt
from lakestep._transaction import OPEN
from name_steps import names
from process import Program
from transactions import abandon, flush, refused

pytestmark = [pytest.mark.classic, pytest.mark.sliced(4)]

PROJECT = TOP / "docs" / "examples" / "dbt"
FIRST_DAY = {"until": "2026-01-01"}


@pytest.fixture
def project(tmp_path):
    """A copy, in which a test may change something."""
    return shutil.copytree(PROJECT, tmp_path / "shop")


@pytest.fixture
def lake(spark, other_session):
    yield other_session
    abandon(spark)
    spark.sql("DROP SCHEMA IF EXISTS shop CASCADE")


def arguments(project, *more, **variables):
    place = ["--project-dir", str(project), "--profiles-dir", str(project)]
    return ["build", *place, "--vars", json.dumps(variables), *more]


def build(spark, project, *more, **variables):
    result = lakestep.run_dbt(spark, arguments(project, *more, **variables), name="dbt")
    flush(spark)
    return result


def statuses(result):
    return {one.node.name: str(one.status) for one in result.result}


def seen(spark):
    """Every schema, name and row that a session sees, and its settings."""
    schemas = [row[0] for row in spark.sql("SHOW SCHEMAS").collect()]
    tables = {
        (schema, name): sorted(map(str, spark.table(f"{schema}.{name}").collect()))
        for schema in schemas
        for name in names(spark, schema)
    }
    described = {
        name: sorted(map(str, spark.sql(f"DESCRIBE EXTENDED {'.'.join(name)}").collect()))
        for name in tables
    }
    views = spark.sql("SHOW VIEWS IN global_temp").collect()
    return schemas, tables, described, views, settings_of(spark)


def settings_of(spark):
    # Delta sets these whenever it reads a table that has columns with ids.
    found = dict(spark.conf.getAll)
    return {key: found[key] for key in found if ".parquet.fieldId." not in key}


def rows(spark, table, columns):
    return sorted(tuple(row) for row in spark.sql(f"SELECT {columns} FROM shop.{table}").collect())


def temporary_views(spark):
    return {row["viewName"] for row in spark.sql("SHOW VIEWS").collect() if row["isTemporary"]}


def test_runs_that_pass_are_committed_each_at_one_instant(spark, lake, project):
    settings = settings_of(spark)
    views = temporary_views(spark)
    first = build(spark, project, **FIRST_DAY)
    assert first.success
    assert len(first.result) == 12
    assert {"pass", "success"} == set(statuses(first).values())
    assert rows(lake, "orders", "id, status") == [(1, "open"), (2, "open")]
    assert rows(lake, "customers_history", "id, spent, dbt_valid_to IS NULL") == [
        *((1, 20, True), (2, 35, True), (3, 0, True)),
    ]
    assert lake.catalog.getTable("shop.daily_orders").tableType == "VIEW"

    query = """
        SELECT (SELECT count(*) FROM shop.orders), (SELECT sum(spent) FROM shop.customers),
        (SELECT count(*) FROM shop.customers_history), (SELECT count(*) FROM shop.daily_orders)
    """
    before, after = (2, 55, 3, 2), (3, 70, 4, 4)
    looks = []
    ended = threading.Event()

    def look():
        while not ended.is_set():
            looks.append(tuple(lake.sql(query).collect()[0]))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        second = build(spark, project)
    finally:
        ended.set()
        watcher.join()
    assert second.success
    assert set(looks) <= {before, after}
    assert looks[0] == before
    assert tuple(lake.sql(query).collect()[0]) == after
    assert rows(lake, "orders", "id, status") == [(1, "paid"), (2, "open"), (3, "open")]
    assert rows(lake, "customers_history", "id, spent, dbt_valid_to IS NULL") == [
        *((1, 20, False), (1, 35, True), (2, 35, True), (3, 0, True)),
    ]
    assert settings_of(spark) == settings
    assert temporary_views(spark) == views
    history = lake.sql("DESCRIBE HISTORY shop.orders").collect()
    assert [row["version"] for row in history] == [1, 0]


BROKEN = """
{{ config(materialized='table') }}
select id from {{ ref('orders') }} where assert_true(id < 3) is null
"""


def test_test_that_fails_leaves_nothing_in_a_new_lake(spark, lake, project):
    mine, theirs = seen(spark), seen(lake)
    result = build(spark, project, limit=10)
    found = statuses(result)
    assert (found["no_order_is_too_dear"], result.success) == ("fail", False)
    assert (found["orders"], found["customers"]) == ("success", "skipped")
    assert seen(spark) == mine
    assert seen(lake) == theirs


@pytest.mark.parametrize("more", [[], pytest.param(["--fail-fast"], marks=pytest.mark.long)])
def test_model_that_fails_midway_leaves_nothing_in_the_lake_of_yesterday(
    spark, lake, project, more
):
    assert build(spark, project, **FIRST_DAY).success
    mine, theirs = seen(spark), seen(lake)
    (project / "models" / "broken.sql").write_text(BROKEN)
    result = build(spark, project, *more)
    found = statuses(result)
    assert (found["orders"], found["broken"], result.success) == ("success", "error", False)
    assert seen(spark) == mine
    assert seen(lake) == theirs


def test_run_that_passed_and_meets_a_conflict_leaves_nothing(spark, lake, project):
    assert build(spark, project, **FIRST_DAY).success
    mine = seen(spark)

    def change():
        while not spark.conf.get(OPEN, ""):
            pass
        lake.sql("DELETE FROM shop.orders WHERE id = 2").collect()

    other = threading.Thread(target=change, daemon=True)
    other.start()
    with pytest.raises(lakestep.ConflictError) as conflict:
        build(spark, project)
    other.join()
    assert conflict.value.getSqlState() == "40001"
    lake.sql("INSERT INTO shop.orders VALUES (2, 2, DATE'2026-01-01', 35, 'open')")
    assert seen(spark) == mine


def test_what_cannot_be_one_transaction_is_refused_before_it_does_anything(spark, lake, project):
    before = seen(spark)
    place = ["--project-dir", str(project), "--profiles-dir", str(project)]
    for wrong, kind in [
        (["--no-use-colors", "retry", *place], ValueError),
        (["build", *place, "--no-such-option"], Exception),
        (["build", "--project-dir", str(project / "nowhere")], Exception),
    ]:
        result = lakestep.run_dbt(spark, wrong)
        assert not result.success
        assert isinstance(result.exception, kind)
        assert _dbt.exit_code(result) in (1, 2)
        assert seen(spark) == before
    with pytest.raises(ValueError, match="first Classic session"):
        lakestep.run_dbt(lake, arguments(project))
    with lakestep.transaction(spark), refused("LAKESTEP_TRANSACTION_ALREADY_ACTIVE", "25001"):
        lakestep.run_dbt(spark, arguments(project))
    assert lakestep.run_dbt(spark, ["parse", *place]).success

    from dbt.adapters.factory import get_adapter_by_type
    from dbt.adapters.spark.connections import SparkConnectionMethod

    get_adapter_by_type("spark").config.credentials.method = SparkConnectionMethod.THRIFT
    with pytest.raises(ValueError, match="thrift"):
        _dbt._refuse_other_methods("spark")


# The command, over a Hive metastore.

SETTINGS = {
    **FEW_TABLES,
    **FEW_TASKS,
    **INTERPRETED,
    "spark.driver.extraJavaOptions": FAST_START,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def command(folder, name, *more):
    settings = {
        **SETTINGS,
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"file:{folder}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder}/metastore;create=true"
        ),
    }
    conf = [f"--conf={key}={value}" for key, value in settings.items()]
    return [
        str(Path(sys.executable).parent / "lakestep"),
        name,
        "--master",
        "local[2]",
        *conf,
        *more,
    ]


def asked(folder, query):
    """Rows that a process of its own sees."""
    done = subprocess.run(
        command(folder, "run", "-", "--json", "--quiet"),
        input=query,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line).values()) for line in done.stdout.splitlines()]


def until(program, text):
    for line in program.lines():
        if text in line:
            return
    raise AssertionError(program.log.read_text())


def test_process_that_dies_leaves_nothing(tmp_path, project):
    run = command(tmp_path, "dbt", *arguments(project))
    with Program(*run, log=tmp_path / "killed.log", folder=tmp_path) as killed:
        until(killed, "START sql incremental model")
        killed.kill()
    assert asked(tmp_path, "SHOW SCHEMAS") == [("default",)]


@pytest.mark.long
def test_interrupted_command_leaves_nothing_and_the_next_one_is_committed(tmp_path, project):
    run = command(tmp_path, "dbt", *arguments(project))
    with Program(*run, log=tmp_path / "interrupted.log", folder=tmp_path) as interrupted:
        until(interrupted, "START sql incremental model")
        interrupted.interrupt()
        assert interrupted.wait() == 130
    assert "The run was rolled back." in interrupted.log.read_text()
    assert asked(tmp_path, "SHOW SCHEMAS") == [("default",)]

    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    query = "SELECT count(*) AS n, sum(amount) AS amount FROM shop.orders"
    assert asked(tmp_path, query) == [(3, 70)]
