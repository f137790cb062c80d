"""S3 gateways over one folder: two drivers that meet only there, and users with few permissions."""

import pytest
from test_s3 import NEW, OLD, OTHER, UPDATE, each, root, rows

from driver import DriverError
from process import Died
from s3 import BUCKET
from versitygw import Gateways

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def gateways(tmp_path_factory):
    with Gateways(tmp_path_factory.mktemp("versitygw"), 2) as started:
        yield started


@pytest.fixture(scope="module")
def clients(gateways, pool):
    """Two drivers, each with a gateway of its own."""
    return [pool.start(gateways.bucket(number).driver_settings) for number in range(2)]


def test_of_many_puts_over_two_gateways_one_creates(clients):
    sessions = [client.session() for client in clients]
    for number in range(20):
        path = f"s3a://{BUCKET}/race/{number}"
        races = [session.start("s3:race", path=path, threads=4) for session in sessions]
        told = [answer for race in races for answer in race.result()]
        assert sorted(told) == ["AlreadyExists"] * 7 + ["Created"]


def test_nothing_is_lost_when_two_drivers_change_the_same_rows(gateways, clients):
    bucket = gateways.bucket(0)
    tables = [bucket.table(f"count/t{i}", rows=[(0, "counter")]) for i in range(2)]
    running = [
        client.session(**root("count")).start("s3:count_up", tables=tables, times=4)
        for client in clients
    ]
    for counting in running:
        counting.result()
    assert [bucket.rows(path) for path in tables] == [[(8, "counter")]] * 2


@pytest.mark.parametrize("step", ["beforeOrder:1", "published:1"])
def test_what_a_driver_left_behind_one_gateway_is_finished_behind_the_other(
    gateways, clients, pool, step
):
    name = f"dead/{step[:-2]}"
    tables = [gateways.bucket(0).table(f"{name}/t{i}") for i in range(2)]
    dying = pool.start(gateways.bucket(0).driver_settings)
    with dying.halts(step) as halts:
        commit = halts.during(
            dying.session(**root(name)).start_sql("BEGIN", *each(UPDATE, tables), "COMMIT")
        )
        assert halts.reached() == step
        dying.kill()
    with pytest.raises(Died):
        commit.result()
    session = clients[1].session(**root(name))
    session.sql("RECOVER")
    expected = [[NEW if step == "published:1" else OLD, OTHER]] * 2
    assert rows(session, tables) == expected
    assert [gateways.bucket(1).rows(path) for path in tables] == expected


def test_least_privileges_of_a_writer_and_of_a_reader(gateways, clients, pool):
    """Those of README, "Permissions"; RECOVER needs what a writer needs."""
    writer, reader = (gateways.user(name) for name in ("writer", "reader"))
    below = [f"rights/t{i}/_delta_log/_lakestep/*" for i in range(2)]
    gateways.permit(
        (reader[0], ["ListBucket"], [None]),
        (reader[0], ["GetObject"], ["rights/*"]),
        (writer[0], ["ListBucket"], [None]),
        (writer[0], ["GetObject", "PutObject"], ["rights/*"]),
        (
            writer[0],
            ["DeleteObject"],
            [*below, *(f"rights/timeline/{f}/*" for f in ("transactions", "checkpoints"))],
        ),
    )
    owner = gateways.bucket(0)
    tables = [owner.table(f"rights/t{i}") for i in range(2)]
    dying, reads = (pool.start(gateways.bucket(0, key).driver_settings) for key in (writer, reader))
    session = dying.session(**root("rights"))
    session.sql("BEGIN", *each("INSERT INTO {} VALUES (3, 'writer')", tables), "COMMIT")
    with dying.halts("published:1") as halts:
        halts.during(session.start_sql("BEGIN", *each(UPDATE, tables), "COMMIT"))
        assert halts.reached() == "published:1"
        dying.kill()

    session = reads.session(**root("rights"))
    before = [[OLD, OTHER, (3, "writer")]] * 2
    assert rows(session, tables) == before
    session.sql("BEGIN READ ONLY")
    assert rows(session, tables) == before
    session.sql("COMMIT")
    session.sql("RECOVER")
    for statement in ("BEGIN", *each(UPDATE, tables[:1])):
        with pytest.raises(DriverError):
            session.sql(statement)
    assert rows(session, tables) == before

    other = pool.start(gateways.bucket(1, writer).driver_settings)
    other.session(**root("rights")).sql("RECOVER")
    after = [[NEW, OTHER, (3, "writer")]] * 2
    assert rows(session, tables) == after == [owner.rows(path) for path in tables]
