"""A transaction around each batch of a stream."""

import shutil
from types import SimpleNamespace

import pytest
from delta.tables import DeltaTable
from pyspark.errors import StreamingQueryException

import lakestep
from driver import TIMEOUT_S
from lake import Lake
from process import Died
from transactions import refused

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]


def run(spark, source, function, folder):
    query = (
        spark.readStream.table(source)
        .writeStream.foreachBatch(function)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_batch_goes_into_two_tables_or_into_none(spark, table, tmp_path):
    source, one, two = table("source"), table("one", ()), table("two", ())
    fails = [True, False]

    def into_both(batch, _):
        session = batch.sparkSession
        with lakestep.transaction(session) as txn:
            batch.write.format("delta").mode("append").withTransaction(txn).saveAsTable(one)
            batch.createOrReplaceTempView("batch")
            session.sql(f"INSERT INTO {two} SELECT * FROM batch")
            if fails.pop(0):
                raise ValueError("stop")

    with pytest.raises(StreamingQueryException, match="stop"):
        run(spark, source, into_both, tmp_path)
    assert (spark.table(one).count(), spark.table(two).count()) == (0, 0)
    run(spark, source, into_both, tmp_path)
    assert (spark.table(one).count(), spark.table(two).count()) == (2, 2)


def test_frame_and_view_of_an_ended_transaction_read_the_table_as_it_is_inside_a_batch(
    spark, table, tmp_path
):
    source, one = table("frame_source"), table("frame_target", ())
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {one} VALUES (1, 'gone')")
    spark.table(one).createOrReplaceTempView("of_ended")
    spark.sql("ROLLBACK")
    met = []

    def read(batch, _):
        session = batch.sparkSession
        with lakestep.transaction(session) as txn:
            session.sql(f"INSERT INTO {one} VALUES (2, 'gone')")
            frame = session.table(one)
            met.append(frame.count())
            txn.rollback()
        met.extend([frame.count(), session.table("of_ended").count()])

    run(spark, source, read, tmp_path)
    assert met == [1, 0, 0], met
    spark.sql("DROP VIEW of_ended")


def test_transaction_of_the_outer_session_is_refused_inside_a_batch(spark, table, tmp_path):
    source, one = table("outer_source"), table("outer_target", ())

    def in_the_outer_session(batch, _):
        with lakestep.transaction(spark):
            batch.write.format("delta").mode("append").saveAsTable(one)

    with pytest.raises(StreamingQueryException, match="LAKESTEP_SESSION_OUTSIDE_BATCH"):
        run(spark, source, in_the_outer_session, tmp_path)
    assert spark.table(one).count() == 0
    assert spark.sql("SHOW TRANSACTIONS").collect() == []
    with lakestep.transaction(spark):
        spark.sql(f"INSERT INTO {one} VALUES (1, 'a')")
    assert spark.table(one).count() == 1


def rows_of_outside(spark, one):
    spark.sql(f"INSERT INTO {one} VALUES (9, 'outside')")


def frame_of_outside(spark, one):
    spark.range(1).selectExpr("9 AS id").write.format("delta").mode("append").saveAsTable(one)


def table_of_outside(spark, one):
    DeltaTable.forName(spark, one).delete("id = 1")


def new_table_of_outside(spark, one):
    spark.sql(f"CREATE TABLE {one}_too USING delta AS SELECT 9 AS id")


@pytest.mark.parametrize(
    "write", [rows_of_outside, frame_of_outside, table_of_outside, new_table_of_outside]
)
@pytest.mark.parametrize("wrapped", [True, False])
def test_write_of_the_outer_session_is_refused_inside_a_batch_that_counts_once(
    spark, table, tmp_path, write, wrapped
):
    source, one, two = table("left_source"), table("left_one", ()), table("left_two", ())
    fails = [True, False]
    before = spark.sql("SHOW TABLES").collect()

    def load(batch, _):
        batch.write.format("delta").mode("append").saveAsTable(one)
        # To read is no harm.
        assert spark.table(two).count() == 0
        if fails.pop(0):
            write(spark, two)

    def by_hand(batch, number):
        with lakestep.transaction(batch.sparkSession, batch=("by hand", number)) as txn:
            if txn.replays is None:
                load(batch, number)

    function = lakestep.foreach_batch(load) if wrapped else by_hand
    with pytest.raises(StreamingQueryException, match="LAKESTEP_SESSION_OUTSIDE_BATCH"):
        run(spark, source, function, tmp_path)
    assert (spark.table(one).count(), spark.table(two).count()) == (0, 0)
    assert spark.sql("SHOW TABLES").collect() == before
    run(spark, source, function, tmp_path)
    assert (spark.table(one).count(), spark.table(two).count()) == (2, 0)
    spark.sql("FORGET BATCH KEYS 'by hand'")


def test_transaction_of_the_outer_session_is_not_written_by_a_batch(spark, table, tmp_path):
    source, one, two = table("joined_source"), table("joined_one", ()), table("joined_two", ())
    outer = spark.newSession()

    def load(batch, _):
        batch.write.format("delta").mode("append").saveAsTable(one)
        rows_of_outside(outer, two)

    with lakestep.transaction(outer):
        with pytest.raises(StreamingQueryException, match="LAKESTEP_SESSION_OUTSIDE_BATCH"):
            run(spark, source, lakestep.foreach_batch(load), tmp_path)
        # On this thread it is a transaction as any.
        outer.sql(f"INSERT INTO {two} VALUES (1, 'a')")
    assert (spark.table(one).count(), spark.table(two).count()) == (0, 1)


def test_plain_batch_may_write_in_the_outer_session(spark, table, tmp_path):
    source, one, two = table("plain_source"), table("plain_one", ()), table("plain_two", ())

    def load(batch, _):
        batch.write.format("delta").mode("append").saveAsTable(one)
        rows_of_outside(spark, two)

    run(spark, source, load, tmp_path)
    assert (spark.table(one).count(), spark.table(two).count()) == (2, 1)


def test_statement_on_a_closed_table_is_a_transaction_of_its_own_inside_a_batch(
    spark, table, tmp_path
):
    source, closed = table("source_of_closed"), table("closed_in_batch", ())
    spark.sql(f"ALTER TABLE {closed} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')")

    def insert(batch, _):
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(f"INSERT INTO {closed} SELECT * FROM batch")

    run(spark, source, insert, tmp_path)
    assert spark.table(closed).count() == 2


def begun(session, query, number, more=""):
    return session.sql(f"BEGIN{more} FOR BATCH {number} OF QUERY '{query}'").collect()[0]["replays"]


def forget_last_batch(folder):
    """As if the driver had died before it noted in the checkpoint that the last one is done."""
    done = folder / "checkpoint" / "commits"
    last = max(int(p.name) for p in done.iterdir() if p.name.isdigit())
    (done / str(last)).unlink()
    (done / f".{last}.crc").unlink()


@pytest.fixture
def loaded(spark, table):
    """A source with one batch, and two tables; what loads both, and what adds a batch."""
    source, one, two = table("feed"), table("fed_one", ()), table("fed_two", ())
    runs = []

    def load(batch, number):
        session = batch.sparkSession
        runs.append(number)
        batch.write.format("delta").mode("append").saveAsTable(one)
        batch.createOrReplaceTempView("batch")
        session.sql(
            f"MERGE INTO {two} t USING batch b ON t.id = b.id WHEN NOT MATCHED THEN INSERT *"
        )

    def add(number):
        spark.sql(f"INSERT INTO {source} VALUES ({number}, 'more')")

    def counts():
        return spark.table(one).count(), spark.table(two).count()

    return SimpleNamespace(source=source, load=load, add=add, counts=counts, runs=runs)


def test_batch_whose_checkpoint_was_lost_is_not_applied_again(spark, loaded, tmp_path):
    function = lakestep.foreach_batch(loaded.load)
    for number in (3, 4):
        run(spark, loaded.source, function, tmp_path)
        loaded.add(number)
    run(spark, loaded.source, function, tmp_path)
    assert (loaded.runs, loaded.counts()) == ([0, 1, 2], (4, 4))
    forget_last_batch(tmp_path)
    loaded.add(5)
    run(spark, loaded.source, function, tmp_path)
    assert (loaded.runs, loaded.counts()) == ([0, 1, 2, 3], (5, 5))


def test_body_of_a_replayed_batch_runs_and_changes_nothing(spark, table, tmp_path, caplog):
    source, one = table("replayed_source"), table("replayed", ())
    seen = []

    def load(batch, number):
        with lakestep.transaction(batch.sparkSession, batch=(None, number)) as txn:
            batch.write.format("delta").mode("append").saveAsTable(one)
            seen.append((txn.replays, batch.sparkSession.table(one).count()))
            if txn.replays is not None:
                raise ValueError("as the first run has changed what it needs")
        assert (txn.entry is None) == (txn.replays is not None)

    run(spark, source, load, tmp_path)
    forget_last_batch(tmp_path)
    run(spark, source, load, tmp_path)
    entry = seen[1][0]
    assert entry is not None
    assert seen == [(None, 2), (entry, 4)]
    assert spark.table(one).count() == 2
    assert f"Entry {entry} holds this batch already" in caplog.text


def test_query_that_goes_back_is_stopped_until_it_is_forgotten(spark, loaded, tmp_path):
    function = lakestep.foreach_batch(loaded.load, query="feed's \\ name")
    run(spark, loaded.source, function, tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "old")
    for number in (3, 4):
        loaded.add(number)
        run(spark, loaded.source, function, tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.move(tmp_path / "old", tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match="LAKESTEP_BATCH_BEHIND"):
        run(spark, loaded.source, function, tmp_path)
    assert loaded.counts() == (4, 4)
    [forgotten] = spark.sql("FORGET BATCH KEYS 'feed\\'s \\\\ name'").collect()
    assert (forgotten["query"], forgotten["batch"]) == ("feed's \\ name", 2)
    assert spark.sql("FORGET BATCH KEYS 'feed\\'s \\\\ name'").collect() == []
    run(spark, loaded.source, function, tmp_path)
    # The rows of the two batches once more; MERGE has found its own.
    assert loaded.counts() == (6, 4)


def test_a_batch_in_flight_is_finished_before_its_query_is_forgotten(drivers, tmp_path):
    dying, living = drivers(2)
    lake = Lake(tmp_path, 1)
    batch = ["BEGIN FOR BATCH 0 OF QUERY 'sales'", *lake.sql("INSERT INTO {} VALUES (3, 'new')")]
    with dying.halts("ordered:1") as halts:
        running = halts.during(dying.session(lake.root).start_sql(*batch, "COMMIT"))
        assert halts.reached() == "ordered:1"
        dying.kill()
    with pytest.raises(Died):
        running.result(TIMEOUT_S)
    other = living.session(lake.root)
    assert [row[:2] for row in other.sql("FORGET BATCH KEYS 'sales'")] == [("sales", 0)]
    assert other.sql("FORGET BATCH KEYS 'sales'") == []
    other.sql(*batch, "COMMIT")
    (count,) = lake.sql("SELECT count(*) FROM {} WHERE id = 3")
    assert other.sql(count) == [(2,)]


def test_new_checkpoint_is_a_new_query_and_may_not_take_the_name_of_another(
    spark, loaded, tmp_path
):
    function = lakestep.foreach_batch(loaded.load)
    for folder in ("a", "b"):
        run(spark, loaded.source, function, tmp_path / folder)
    assert loaded.counts() == (4, 2)
    named = lakestep.foreach_batch(loaded.load, query="named")
    run(spark, loaded.source, named, tmp_path / "c")
    with pytest.raises(StreamingQueryException, match="LAKESTEP_BATCH_OF_ANOTHER_QUERY"):
        run(spark, loaded.source, named, tmp_path / "d")
    assert loaded.counts() == (6, 2)


def test_several_queries_go_into_the_same_tables_at_once(spark, loaded, table, tmp_path):
    other = table("other_feed", ())
    spark.sql(f"INSERT INTO {other} VALUES (11, 'c'), (12, 'd'), (13, 'e')")
    function = lakestep.foreach_batch(loaded.load, attempts=50)
    queries = [
        spark.readStream.table(source)
        .writeStream.foreachBatch(function)
        .option("checkpointLocation", str(tmp_path / str(number)))
        .trigger(availableNow=True)
        .start()
        for number, source in enumerate((loaded.source, other))
    ]
    for query in queries:
        query.awaitTermination()
    assert loaded.counts() == (5, 5)


@pytest.mark.parametrize("isolation", ["SNAPSHOT", "SERIALIZABLE"])
def test_of_two_clients_that_apply_a_batch_at_once_one_does(spark, other, table, isolation):
    one, two = table(f"raced_{isolation}", ()), table(f"raced_too_{isolation}", ())
    key = (f"raced {isolation}", 7)
    with lakestep.transaction(spark, isolation=isolation, batch=key) as late:
        spark.sql(f"INSERT INTO {one} VALUES (1, 'late')")
        with lakestep.transaction(other, batch=key) as first:
            other.sql(f"INSERT INTO {two} VALUES (1, 'first')")
        assert late.replays is first.replays is None
    assert (late.replays, late.entry) == (first.entry, None)
    assert (spark.table(one).count(), spark.table(two).count()) == (0, 1)
    with lakestep.transaction(spark, batch=key) as txn:
        spark.sql(f"INSERT INTO {one} VALUES (1, 'again')")
        spark.sql("CREATE TABLE of_a_replay USING delta AS SELECT 1 AS v")
    assert (txn.replays, txn.entry, spark.table(one).count()) == (first.entry, None, 0)
    assert not spark.catalog.tableExists("of_a_replay")
    # A block that was first, too.
    [row] = spark.sql(f"BEGIN FOR BATCH 8 OF QUERY '{key[0]}'; SELECT 1; COMMIT").collect()
    assert row[0] == 1
    assert begun(spark, key[0], 8) is not None
    spark.sql("ROLLBACK")


def test_bad_batches(spark, table):
    one = table("bad_batches", ())
    with refused("LAKESTEP_BATCH_WITHOUT_QUERY", "42601"):
        spark.sql("BEGIN FOR BATCH 1")
    with refused("LAKESTEP_BATCH_NUMBER_INVALID", "42601"):
        spark.sql("BEGIN FOR BATCH one OF QUERY 'q'")
    with refused("LAKESTEP_BATCH_NUMBER_INVALID", "42601"):
        spark.sql(f"BEGIN FOR BATCH {10**30} OF QUERY 'q'")
    with refused("LAKESTEP_BATCH_READ_ONLY", "25006"):
        begun(spark, "q", 1, more=" READ ONLY")
    assert begun(spark, "bad", 1) is None
    with refused("LAKESTEP_TRANSACTION_ALREADY_ACTIVE", "25001"):
        spark.sql("FORGET BATCH KEYS 'bad'").collect()
    spark.sql(f"INSERT INTO {one} VALUES (1, 'a')")
    spark.sql("COMMIT")
    with refused("LAKESTEP_BATCH_BEHIND", "25000"):
        begun(spark, "bad", 0)
    assert spark.table(one).count() == 1
