"""Lakestep behind Spark's Thrift server, asked through Hive's JDBC driver, and in `spark-sql`."""

import os
import subprocess
from contextlib import closing

import pytest
from py4j.protocol import Py4JJavaError

from jvm_server import PACKAGES
from thrift_server import ThriftServer, submit

pytestmark = [pytest.mark.classic, pytest.mark.sliced(3)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ThriftServer(tmp_path_factory.mktemp("thrift")) as running:
        yield running


@pytest.fixture
def connect(spark, server):
    """Connections by Hive's driver, which PySpark brings."""
    opened = []

    def make(**settings):
        driver = spark._jvm.org.apache.hive.jdbc.HiveDriver()
        opened.append(driver.connect(server.url(**settings), spark._jvm.java.util.Properties()))
        return opened[-1]

    yield make
    for connection in opened:
        connection.close()


def run(connection, *statements):
    with closing(connection.createStatement()) as statement:
        for text in statements:
            statement.execute(text)


def ids(connection, table):
    with closing(connection.createStatement()) as statement:
        rows = statement.executeQuery(f"SELECT id FROM {table} ORDER BY id")
        found = []
        while rows.next():
            found.append(rows.getInt(1))
        return found


def refusal(connection, statement):
    """What the server says, which is all that the driver hands on, and the state."""
    with pytest.raises(Py4JJavaError) as raised:
        run(connection, statement)
    failure = raised.value.java_exception
    return failure.getMessage(), failure.getSQLState()


def test_begin_commit_and_rollback_are_statements(connect):
    one, other = connect(), connect()
    for table in ("jdbc_a", "jdbc_b"):
        run(one, f"CREATE TABLE {table} (id INT) USING delta")
    run(one, "BEGIN", "INSERT INTO jdbc_a VALUES (1)", "INSERT INTO jdbc_b VALUES (1)")
    assert ids(one, "jdbc_a") == [1] and ids(other, "jdbc_a") == []
    run(one, "COMMIT")
    assert ids(other, "jdbc_a") == ids(other, "jdbc_b") == [1]
    run(one, "BEGIN", "DELETE FROM jdbc_a", "ROLLBACK")
    assert ids(other, "jdbc_a") == [1]
    run(one, "BEGIN; INSERT INTO jdbc_a VALUES (2); DELETE FROM jdbc_b; COMMIT")
    assert ids(other, "jdbc_a") == [1, 2] and ids(other, "jdbc_b") == []


def test_conflict_reaches_the_client_with_its_condition(connect):
    one, other = connect(), connect()
    run(one, "CREATE TABLE jdbc_contested (id INT) USING delta")
    run(one, "INSERT INTO jdbc_contested VALUES (1)")
    # What a query has shown is not run again.
    run(one, "BEGIN", "DELETE FROM jdbc_contested WHERE id = 1")
    assert ids(one, "jdbc_contested") == []
    run(other, "UPDATE jdbc_contested SET id = 7")
    message, state = refusal(one, "COMMIT")
    assert "LAKESTEP_CONFLICT" in message and state == "40001"
    run(one, "ROLLBACK")
    assert ids(one, "jdbc_contested") == [7]


def test_what_hive_s_driver_makes_of_transactions_of_jdbc(connect):
    """As docs/clients.md says: it takes `setAutoCommit(false)`, and tells no server of it."""
    one = connect()
    run(one, "CREATE TABLE jdbc_autocommit (id INT) USING delta")
    one.setAutoCommit(False)
    run(one, "INSERT INTO jdbc_autocommit VALUES (1)")
    assert ids(connect(), "jdbc_autocommit") == [1]
    for call in (one.commit, one.rollback):
        with pytest.raises(Py4JJavaError, match="Method not supported"):
            call()


def test_url_may_ask_for_transactions(connect):
    plain = connect()
    run(plain, "CREATE TABLE jdbc_required (id INT) USING delta")
    one = connect(**{"spark.lakestep.requireTransaction": "true"})
    message, state = refusal(one, "INSERT INTO jdbc_required VALUES (1)")
    assert "LAKESTEP_TRANSACTION_REQUIRED" in message and state == "25P01"
    run(one, "BEGIN", "INSERT INTO jdbc_required VALUES (1)", "COMMIT")
    run(plain, "INSERT INTO jdbc_required VALUES (2)")
    assert ids(plain, "jdbc_required") == [1, 2]


def test_connection_that_is_closed_takes_its_transaction_along(connect, server):
    one, other = connect(), connect()
    run(one, "CREATE TABLE jdbc_closed (id INT) USING delta")
    run(one, "BEGIN", "INSERT INTO jdbc_closed VALUES (1)")
    one.close()
    assert ids(other, "jdbc_closed") == []
    run(other, "BEGIN", "INSERT INTO jdbc_closed VALUES (2)", "COMMIT")
    assert ids(other, "jdbc_closed") == [2]


def spark_sql(folder, script):
    home = os.environ.get("JAVA_HOME")
    shell = "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver"
    return subprocess.run(
        [
            f"{home}/bin/java" if home else "java",
            *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in PACKAGES),
            *submit(folder, shell, "-e", script),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_spark_sql_runs_a_script(tmp_path):
    done = spark_sql(
        tmp_path,
        "CREATE TABLE a (id INT) USING delta; CREATE TABLE b (id INT) USING delta;"
        "BEGIN; INSERT INTO a VALUES (1); INSERT INTO b VALUES (2); COMMIT;"
        "BEGIN; DELETE FROM a; ROLLBACK;"
        "SELECT concat('sum ', (SELECT sum(id) FROM a), ' ', (SELECT sum(id) FROM b));",
    )
    assert done.returncode == 0 and "sum 1 2" in done.stdout, done.stderr[-3000:]


def test_spark_sql_that_stops_at_an_error_commits_nothing(tmp_path):
    made = spark_sql(
        tmp_path,
        f"CREATE TABLE delta.`{tmp_path}/a` (id INT) USING delta; BEGIN;"
        f"INSERT INTO delta.`{tmp_path}/a` VALUES (1); SELECT raise_error('stop'); COMMIT;",
    )
    assert made.returncode != 0
    done = spark_sql(tmp_path, f"SELECT concat('rows ', count(*)) FROM delta.`{tmp_path}/a`;")
    assert "rows 0" in done.stdout, done.stderr[-3000:]
