"""Tables that are fenced while a transaction is published (`lakestep.foreignWriters` = reserve)."""

from pathlib import Path

import deltalake
import pytest
from delta.tables import DeltaTable

from driver import TIMEOUT_S, DriverError
from kills import AFTER, BEFORE, kill_at, start_transaction
from lake import FEATURE, Lake, append, header, is_fenced, rewrite
from process import CallFailed

pytestmark = pytest.mark.sliced

MODE = "ALTER TABLE {} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'reserve')"

# The third put into one of the two tables: both fences are in, nothing is published.
FENCED = "beforePublish:3"


class HeadersKept(Lake):
    headers: list


@pytest.fixture
def lake(drivers, tmp_path):
    """Two tables in this mode, and what their headers were before anybody wrote them."""
    [driver] = drivers(1)
    made = HeadersKept(tmp_path, 2)
    driver.session(made.root).sql(*made.sql(MODE))
    made.headers = [header(path) for path in made.tables]
    return made


def check_committed(lake):
    for path, before in zip(lake.tables, lake.headers, strict=True):
        assert lake.own_commits(path)[1:3] == ["reserve", "publish"]
        assert header(path) == before
    lake.check_timeline()


def test_while_it_is_published_others_read_and_cannot_write(drivers, plain, lake):
    owner, _ = drivers(2)
    with owner.halts(FENCED) as halts:
        commit = halts.during(start_transaction(owner, lake)[1])
        assert halts.reached() == FENCED
        for path in lake.tables:
            assert is_fenced(path)
            for write in (lambda p=path: append(p, (9, "foreign")), lambda p=path: rewrite(p, 1)):
                with pytest.raises(deltalake.exceptions.DeltaError, match=FEATURE):
                    write()
            with pytest.raises(CallFailed, match=f"UNSUPPORTED_FEATURES_FOR_WRITE.*{FEATURE}"):
                plain.ask("sql", text=f"DELETE FROM delta.`{path}` WHERE id = 1")
            assert lake.rows(path) == BEFORE
            assert len(plain.ask("sql", text=f"SELECT * FROM delta.`{path}`")) == len(BEFORE)
        halts.go()
        commit.result(TIMEOUT_S)
    check_committed(lake)
    for path in lake.tables:
        append(path, (9, "foreign"))
        assert lake.rows(path) == [*AFTER, (9, "foreign")]


def test_a_statement_outside_a_transaction_finishes_what_fences_its_table(drivers, lake):
    owner, other = drivers(2)
    with owner.halts(FENCED) as halts:
        commit = halts.during(start_transaction(owner, lake)[1])
        assert halts.reached() == FENCED
        session = other.session(lake.root)
        session.sql(f"INSERT INTO delta.`{lake.tables[0]}` VALUES (9, 'ours')")
        halts.go()
        commit.result(TIMEOUT_S)
    check_committed(lake)
    assert lake.rows(lake.tables[0]) == [*AFTER, (9, "ours")]
    assert lake.rows(lake.tables[1]) == AFTER


def test_the_version_of_a_fence_counts_for_checkpoints(drivers, lake):
    [driver] = drivers(1)
    session = driver.session(lake.root)
    every = lake.version(lake.tables[0]) + 3
    interval = f"ALTER TABLE {{}} SET TBLPROPERTIES ('delta.checkpointInterval' = '{every}')"
    session.sql("BEGIN", *lake.sql(interval), "COMMIT")
    session.sql("BEGIN", *lake.sql("DELETE FROM {} WHERE id = 1"), "COMMIT")
    for path in lake.tables:
        assert lake.mark(path, every)["kind"] == "reserve"
        assert list(Path(path, "_delta_log").glob("*.checkpoint*"))


def test_going_back_to_the_version_of_a_fence_brings_no_fence_back(drivers, plain, lake):
    [driver] = drivers(1)
    session = driver.session(lake.root)
    session.sql("BEGIN", *lake.sql("DELETE FROM {} WHERE id = 1"), "COMMIT")
    inside, outside = lake.tables
    fence = next(v for v in range(9) if (lake.mark(inside, v) or {}).get("kind") == "reserve")
    restore = f"RESTORE TABLE delta.`{{}}` TO VERSION AS OF {fence}"
    downgrades = {"spark.databricks.delta.restore.protocolDowngradeAllowed": "true"}
    other = driver.session(lake.root, **downgrades)
    for statements in (["BEGIN", restore.format(inside)], [restore.format(outside)]):
        with pytest.raises(DriverError, match=f"UNSUPPORTED_FEATURES_FOR_WRITE.*{FEATURE}"):
            other.sql(*statements)
    other.sql("ROLLBACK")
    session.sql("BEGIN", restore.format(inside), "COMMIT")
    session.sql(restore.format(outside))
    session.sql("BEGIN", *lake.sql("INSERT INTO {} VALUES (8, 'ours')"), "COMMIT")
    for path, before in zip(lake.tables, lake.headers, strict=True):
        assert header(path) == before
        append(path, (9, "foreign"))
        plain.ask("sql", text=f"DELETE FROM delta.`{path}` WHERE id = 9")
        assert lake.rows(path) == [*BEFORE, (8, "ours")]


def delete_by_merge(spark, table):
    """A merge that Delta runs past every plan."""
    target, source = DeltaTable.forPath(spark, table), spark.sql("SELECT 2 AS id")
    target.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedDelete().execute()


def append_by_stream(spark, source, table, checkpoint):
    stream = spark.readStream.format("delta").load(source).writeStream.format("delta")
    stream = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    stream.start(table).awaitTermination()


def test_writes_that_are_no_statement_finish_what_a_dead_client_fenced(drivers, lake, tmp_path):
    _, victim = drivers(2, spare=True)
    kill_at(victim, lake, FENCED)
    [driver] = drivers(1)
    session, source = driver.session(lake.root), lake.table("source", [(9, "streamed")])
    session.call("test_reserve:delete_by_merge", table=lake.tables[0])
    session.call(
        "test_reserve:append_by_stream",
        source=source,
        table=lake.tables[1],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    check_committed(lake)
    assert lake.rows(lake.tables[0]) == AFTER[:1]
    assert lake.rows(lake.tables[1]) == [*AFTER, (9, "streamed")]


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("published:1", marks=pytest.mark.long),
        "published:2",
        pytest.param("published:3", marks=pytest.mark.long),
        pytest.param("published:4", marks=pytest.mark.long),
    ],
)
def test_after_a_kill_the_next_client_finishes_and_takes_the_fences_away(drivers, lake, step):
    _, victim = drivers(2, spare=True)
    kill_at(victim, lake, step)
    assert any(is_fenced(path) for path in lake.tables) or step == "published:4"
    [survivor] = drivers(1)
    survivor.session(lake.root).sql("BEGIN", "ROLLBACK")
    check_committed(lake)
    assert [lake.rows(path) for path in lake.tables] == [AFTER, AFTER]


def test_a_writer_that_is_faster_than_its_fence_makes_nothing_be_taken_back(drivers, lake):
    [owner] = drivers(1)
    with owner.halts("ordered:1") as halts:
        commit = halts.during(start_transaction(owner, lake)[1])
        assert halts.reached() == "ordered:1"
        rewrite(lake.tables[0], 1)
        halts.go()
        with pytest.raises(DriverError) as conflict:
            commit.result(TIMEOUT_S)
    assert conflict.value.main_condition == "LAKESTEP_CONFLICT"
    assert lake.own_commits(lake.tables[0])[1:] == ["close"]
    assert lake.own_commits(lake.tables[1])[1:] == ["reserve", "close"]
    assert [header(path) for path in lake.tables] == lake.headers
    assert [lake.rows(path) for path in lake.tables] == [BEFORE[1:], BEFORE]
    lake.check_timeline()
