"""Tables and timeline on HDFS: a small cluster, real drivers."""

from concurrent.futures import wait
from urllib.parse import urlsplit

import pytest

from driver import DriverError
from fast_start import FAST_START
from hdfs import Hdfs
from lake import Lake
from process import Died

pytestmark = pytest.mark.sliced

UPDATE = "UPDATE {} SET v = 'new' WHERE id = 1"
OLD, NEW, OTHER = (1, "old"), (1, "new"), (2, "old")


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


def place(hdfs, name):
    return {"spark.lakestep.root": f"{hdfs.uri}/{name}/timeline"}


def each(statement, tables):
    return [statement.format(f"delta.`{path}`") for path in tables]


def rows(session, tables):
    return [session.sql(*each("SELECT id, v FROM {} ORDER BY id", [path])) for path in tables]


def condition(call):
    with pytest.raises(DriverError) as raised:
        call()
    return raised.value.condition


def test_transaction_over_tables_on_hdfs_and_on_a_local_disk(hdfs, drivers, tmp_path):
    session, other = (driver.session(**place(hdfs, "both")) for driver in drivers(2))
    local = Lake(tmp_path)
    remote = [hdfs.table(session, f"both/{name}") for name in ("t0", "odd tä=1+2%20")]
    tables = [*remote, local.table("t2")]
    session.sql("BEGIN", *each(UPDATE, tables))
    assert rows(session, tables) == [[NEW, OTHER]] * 3
    assert rows(other, tables) == [[OLD, OTHER]] * 3
    # What is seen before COMMIT is the base table's; only we create its log files.
    assert condition(lambda: session.call("hdfs:history", path=tables[0])) == (
        "LAKESTEP_BASE_TABLE_IN_TRANSACTION"
    )
    session.sql("COMMIT")
    assert rows(other, tables) == [[NEW, OTHER]] * 3
    found = [hdfs.rows(session, path) for path in tables[:2]] + [local.rows(tables[2])]
    assert found == [[NEW, OTHER]] * 3

    # Of two that change one row the second to commit is refused, and a statement is such a one.
    other.sql("BEGIN", *each("DELETE FROM {} WHERE id = 2", tables))
    session.sql(*each("UPDATE {} SET v = 'mine' WHERE id = 2", tables[:1]))
    assert condition(lambda: other.sql("COMMIT")) == "LAKESTEP_CONFLICT.SAME_FILE"
    other.sql("ROLLBACK")
    assert rows(session, tables) == [[NEW, (2, "mine")], [NEW, OTHER], [NEW, OTHER]]


def test_what_is_staged_by_one_path_is_seen_by_another_one_to_the_same_log(hdfs, drivers):
    session = drivers(1)[0].session(**place(hdfs, "alias"))
    path = hdfs.table(session, "alias/t")
    host = urlsplit(path).hostname
    [other] = {"localhost", "127.0.0.1"} - {host}
    alias = path.replace(host, other, 1)
    insert = "INSERT INTO {} VALUES (3, 'new')"
    session.sql("BEGIN", *each(insert, [path]))
    assert rows(session, [alias, path]) == [[OLD, OTHER, (3, "new")]] * 2
    session.sql(*each(insert, [alias]))
    assert rows(session, [alias, path]) == [[OLD, OTHER, *[(3, "new")] * 2]] * 2
    assert condition(lambda: session.sql("COMMIT")) == "LAKESTEP_TABLE_TWICE"
    session.sql("ROLLBACK")
    assert rows(session, [alias, path]) == [[OLD, OTHER]] * 2


@pytest.mark.long
def test_two_drivers_race_for_every_entry_on_hdfs_and_nothing_is_lost(hdfs, drivers):
    clients = [driver.session(**place(hdfs, "race")) for driver in drivers(2)]
    tables = [hdfs.table(clients[0], f"race/t{i}") for i in range(2)]
    commits = [
        client.start("test_hdfs:append_often", tables=tables, first=100 * number, times=4)
        for number, client in enumerate(clients, start=1)
    ]
    wait(commits)
    assert [commit.result() for commit in commits] == [4, 4]
    ids = [1, 2, *range(100, 104), *range(200, 204)]
    assert [[row[0] for row in found] for found in rows(clients[0], tables)] == [ids] * 2


def append_often(spark, tables, first, times):
    """Runs in a driver: transactions that add one row to every table; how many committed."""
    done = 0
    for row in range(first, first + times):
        spark.sql("BEGIN").collect()
        for path in tables:
            spark.sql(f"INSERT INTO delta.`{path}` VALUES ({row}, 'race')").collect()
        spark.sql("COMMIT").collect()
        done += 1
    return done


@pytest.mark.parametrize(
    "step",
    [
        "published:1",
        *(
            pytest.param(step, marks=pytest.mark.long)
            for step in ("flattened:1", "beforeOrder:1", "ordered:1", "decided:1")
        ),
    ],
)
def test_what_a_dead_driver_left_on_hdfs_is_finished_by_another(hdfs, drivers, pool, step):
    name = f"dead/{step.replace(':', '')}"
    dying, alive = drivers(2)
    session = alive.session(**place(hdfs, name))
    tables = [hdfs.table(session, f"{name}/t{i}") for i in range(2)]
    with dying.halts(step) as halts:
        commit = halts.during(
            dying.session(**place(hdfs, name)).start_sql("BEGIN", *each(UPDATE, tables), "COMMIT")
        )
        assert halts.reached() == step
        dying.kill()
    with pytest.raises(Died):
        commit.result()
    session.sql("RECOVER")
    lost = step.split(":")[0] in ("flattened", "beforeOrder")
    expected = [[OLD if lost else NEW, OTHER]] * 2
    assert rows(session, tables) == expected
    session.sql("BEGIN", *each("DELETE FROM {} WHERE id = 2", tables), "COMMIT")
    assert rows(session, tables) == [table[:1] for table in expected]


@pytest.mark.long
def test_who_may_only_read_on_hdfs_reads_and_changes_nothing(hdfs, drivers, pool):
    """Also behind a dead driver: its entry stays for the next client who may write."""
    dying, writer = drivers(2)
    options = f"{FAST_START} -DHADOOP_USER_NAME=reader"
    reader = pool.start({"spark.driver.extraJavaOptions": options})
    owner = writer.session(**place(hdfs, "rights"))
    tables = [hdfs.table(owner, f"rights/t{i}") for i in range(2)]
    owner.sql("BEGIN", *each("DELETE FROM {} WHERE id = 2", tables), "COMMIT")
    with dying.halts("published:1") as halts:
        halts.during(
            dying.session(**place(hdfs, "rights")).start_sql(
                "BEGIN", *each(UPDATE, tables), "COMMIT"
            )
        )
        assert halts.reached() == "published:1"
        dying.kill()
    owner.call("hdfs:allow", path=f"{hdfs.uri}/rights", mode="755")
    session = reader.session(**place(hdfs, "rights"))
    assert rows(session, tables) == [[OLD]] * 2
    session.sql("BEGIN READ ONLY")
    assert rows(session, tables) == [[OLD]] * 2
    session.sql("COMMIT")
    assert condition(lambda: session.sql("BEGIN")) == "LAKESTEP_STORE_ACCESS_DENIED"
    owner.sql("RECOVER")
    assert rows(session, tables) == [[NEW]] * 2
    assert condition(lambda: session.sql("BEGIN")) == "LAKESTEP_STORE_ACCESS_DENIED"
    # Outside a transaction, too.
    with pytest.raises(DriverError):
        session.sql(*each(UPDATE, tables[:1]))
    assert rows(owner, tables) == [[NEW]] * 2
