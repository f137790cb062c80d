"""A transaction around each batch of a stream."""

import pytest
from pyspark.errors import StreamingQueryException

import lakestep

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]


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
