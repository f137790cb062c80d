"""The Python package against a real session, Classic or Connect."""

import os

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import lakestep
from built import LINE

pytestmark = pytest.mark.sliced(6)

ROWS = [(1, "a"), (2, "b")]


def refusal(raised):
    return raised.value.getCondition(), raised.value.getSqlState()


def test_clean_exit_commits_all_tables(spark, other_session, table, rows):
    left, right = table("exit_left"), table("exit_right")
    with lakestep.transaction(spark, "two tables") as txn:
        assert txn.is_open
        assert txn.name == "two tables"
        assert txn.entry is None
        spark.sql(f"INSERT INTO {left} VALUES (3, 'c')")
        spark.sql(f"DELETE FROM {right} WHERE id = 1")
        assert rows(spark, left) == [*ROWS, (3, "c")]
        assert rows(other_session, left) == ROWS
        assert rows(other_session, right) == ROWS
    assert not txn.is_open
    assert txn.entry is not None
    assert rows(other_session, left) == [*ROWS, (3, "c")]
    assert rows(other_session, right) == [(2, "b")]


def test_level_and_read_only_are_said_in_begin(spark, table, rows):
    name = table("said_in_begin")
    with lakestep.transaction(spark) as txn:
        assert (txn.isolation, txn.read_only) == ("SNAPSHOT", False)
    with lakestep.transaction(spark, "a `name`", isolation="serializable", read_only=True) as txn:
        assert (txn.name, txn.isolation, txn.read_only) == ("a `name`", "SERIALIZABLE", True)
        assert rows(spark, name) == ROWS
        with pytest.raises(lakestep.TransactionStateError) as raised:
            spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    assert refusal(raised) == ("LAKESTEP_READ_ONLY_TRANSACTION", "25006")
    with pytest.raises(ValueError), lakestep.transaction(spark, isolation="CHAOS"):
        pass
    with lakestep.transaction(spark):
        pass


def test_function_is_run_again_after_a_conflict(spark, other_session, table, rows):
    name, seen = table("run_again"), []

    def add(txn):
        seen.append(txn.id)
        spark.sql(f"UPDATE {name} SET v = concat(v, 'x') WHERE id = 1")
        if len(seen) < 3:
            other_session.sql(f"UPDATE {name} SET v = concat(v, 'y') WHERE id = 1")
        return len(seen)

    assert lakestep.run(spark, add) == 3
    assert len(set(seen)) == 3
    assert rows(spark, name) == [(1, "ayyx"), (2, "b")]


def test_function_that_never_wins_raises_its_conflict(spark, other_session, table, rows):
    name, seen = table("never_wins"), []

    def lose(txn):
        seen.append(txn.id)
        spark.sql(f"DELETE FROM {name} WHERE id = 1")
        other_session.sql(f"UPDATE {name} SET v = concat(v, 'y') WHERE id = 1")

    with pytest.raises(lakestep.ConflictError):
        lakestep.run(spark, lose, attempts=2)
    assert len(seen) == 2
    with pytest.raises(lakestep.ConflictError):
        lakestep.run(spark, lose, timeout_s=0)
    assert len(seen) == 3
    with pytest.raises(ValueError):
        lakestep.run(spark, lose, attempts=0)
    assert rows(spark, name) == [(1, "ayyy"), (2, "b")]


def test_function_that_has_committed_is_not_run_again(spark, other_session, table, rows):
    name, other = table("committed_inside"), table("conflict_later")

    def add(txn):
        spark.sql(f"INSERT INTO {name} VALUES (3, 'once')")
        txn.commit()
        with lakestep.transaction(spark):
            spark.sql(f"UPDATE {other} SET v = concat(v, 'x') WHERE id = 1")
            other_session.sql(f"UPDATE {other} SET v = concat(v, 'y') WHERE id = 1")

    with pytest.raises(lakestep.ConflictError):
        lakestep.run(spark, add)
    assert rows(spark, name) == [(1, "a"), (2, "b"), (3, "once")]


def test_function_that_fails_by_itself_is_not_run_again(spark, table, rows):
    name, seen = table("fails_alone"), []

    def fail(txn):
        seen.append(txn.id)
        spark.sql(f"DELETE FROM {name}")
        raise KeyError("mine")

    with pytest.raises(KeyError):
        lakestep.run(spark, fail)
    assert len(seen) == 1
    assert rows(spark, name) == ROWS


def test_conflict_and_transaction_tell_what_happened(spark, other_session, table):
    name = table("told")
    with pytest.raises(lakestep.ConflictError), lakestep.transaction(spark) as txn:
        spark.sql(f"UPDATE {name} SET v = 'x' WHERE id = 1")
        open_one = spark.sql(f"DESCRIBE TRANSACTION '{txn.id}'").collect()[0]
        with lakestep.transaction(other_session, "first") as first:
            other_session.sql(f"DELETE FROM {name} WHERE id = 1")
    conflict = spark.sql("EXPLAIN CONFLICT").collect()[0]
    assert conflict["transaction_id"] == txn.id
    assert conflict["rule"] == "same-file"
    assert conflict["table"].endswith(name)
    assert conflict["operation"] == "DELETE"
    assert conflict["other_transaction"] == first.id
    assert len(conflict["files"]) == 1
    assert conflict["version"] == 2
    assert "again" in conflict["next_step"]
    assert spark.sql(f"EXPLAIN CONFLICT '{txn.id}'").collect() == [conflict]
    with pytest.raises(lakestep.LakestepError) as raised:
        other_session.sql("EXPLAIN CONFLICT")
    assert refusal(raised) == ("LAKESTEP_CONFLICT_NOT_KNOWN", "42704")

    assert (open_one["state"], open_one["isolation"]) == ("REQUESTED", "SNAPSHOT")
    ended = spark.sql(f"DESCRIBE TRANSACTION '{txn.id}'").collect()[0]
    assert (ended["state"], ended["entry"]) == ("NOT_FOUND", None)
    committed = spark.sql(f"DESCRIBE TRANSACTION '{first.id}'").collect()[0]
    assert (committed["state"], committed["name"]) == ("COMPLETED", "first")
    assert committed["entry"] == first.entry


def test_vacuum_ends_old_transactions_and_tells_their_owners(spark, other_session, table, rows):
    name = table("vacuumed")
    with lakestep.transaction(spark):
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    with pytest.raises(lakestep.ConflictError) as conflict, lakestep.transaction(spark) as txn:
        spark.sql(f"DELETE FROM {name}")
        assert other_session.sql("VACUUM TRANSACTIONS").collect()[0]["aborted"] == []
        done = other_session.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS").collect()[0]
        assert txn.id in done["aborted"]
        assert done["removed_folders"] >= 1
        assert done["failed"] == []
    assert conflict.value.getCondition() == "LAKESTEP_CONFLICT.ABORTED_BY_ANOTHER_CLIENT"
    assert spark.sql(f"DESCRIBE TRANSACTION '{txn.id}'").collect()[0]["state"] == "ABORTED"
    assert rows(spark, name) == [*ROWS, (3, "c")]
    with pytest.raises(lakestep.LakestepError) as raised:
        spark.sql("VACUUM TRANSACTIONS RETAIN many HOURS")
    assert refusal(raised) == ("LAKESTEP_RETENTION_INVALID", "42601")


def test_vacuum_leaves_a_young_one_whose_statements_were_taken_back(
    spark, other_session, table, rows
):
    name = table("vacuumed_not")
    with lakestep.transaction(spark):
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    with lakestep.transaction(spark) as txn:
        with pytest.raises(ZeroDivisionError), txn.savepoint():
            spark.sql(f"DELETE FROM {name}")
            raise ZeroDivisionError
        # Of what was staged the folder is left.
        assert other_session.sql("VACUUM TRANSACTIONS").collect()[0]["aborted"] == []
        spark.sql(f"INSERT INTO {name} VALUES (4, 'd')")
    assert rows(spark, name) == [*ROWS, (3, "c"), (4, "d")]


def test_transaction_that_writes_nothing_has_no_entry(spark, table, rows):
    name = table("reads_only")
    with lakestep.transaction(spark) as txn:
        assert rows(spark, name) == ROWS
    assert txn.name is None
    assert txn.entry is None


def test_exception_rolls_back_and_is_raised_as_it_was(spark, table, rows):
    name = table("broken_off")
    failure = KeyError("mine")
    with pytest.raises(KeyError) as raised, lakestep.transaction(spark) as txn:
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
        raise failure
    assert raised.value is failure
    assert not hasattr(failure, "__notes__")
    assert not txn.is_open
    assert rows(spark, name) == ROWS


def test_writer_of_another_transaction_is_refused(spark, table, rows):
    name = table("stated")
    frame = spark.range(1).select(F.col("id").cast("int"), F.lit("z").alias("v"))
    with lakestep.transaction(spark), pytest.raises(PySparkException) as raised:
        frame.writeTo(name).option("lakestep.transaction", "t0").append()
    assert refusal(raised) == ("LAKESTEP_OTHER_TRANSACTION", "25000")
    assert rows(spark, name) == ROWS


def test_commit_and_rollback_inside_the_block_end_it(spark, table, rows):
    name = table("ended_inside")
    with lakestep.transaction(spark) as txn:
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
        txn.rollback()
        assert rows(spark, name) == ROWS
    with lakestep.transaction(spark) as txn:
        spark.sql(f"INSERT INTO {name} VALUES (4, 'd')")
        txn.commit()
    for again in (txn.commit, txn.rollback):
        with pytest.raises(lakestep.TransactionStateError) as raised:
            again()
        assert refusal(raised) == ("LAKESTEP_TRANSACTION_NOT_OPEN", "25000")
    assert rows(spark, name) == [*ROWS, (4, "d")]


def test_exception_after_commit_is_raised_and_undoes_nothing(spark, table, rows):
    name = table("after_commit")
    with pytest.raises(ValueError, match="late"), lakestep.transaction(spark) as txn:
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
        txn.commit()
        raise ValueError("late")
    assert rows(spark, name) == [*ROWS, (3, "c")]


def test_transaction_ended_by_sql_leaves_the_original_exception_without_a_note(spark):
    with pytest.raises(ValueError, match="mine") as raised, lakestep.transaction(spark):
        spark.sql("ROLLBACK")
        raise ValueError("mine")
    assert not hasattr(raised.value, "__notes__")


def test_commit_never_ends_another_transaction_of_the_session(spark, table, rows):
    name = table("another_one")
    with pytest.raises(lakestep.TransactionStateError) as raised, lakestep.transaction(spark):
        spark.sql("ROLLBACK")
        spark.sql("BEGIN")
        spark.sql(f"DELETE FROM {name}")
    assert refusal(raised) == ("LAKESTEP_TRANSACTION_NOT_OPEN", "25000")
    assert rows(spark, name) == []
    spark.sql("ROLLBACK")
    assert rows(spark, name) == ROWS


@pytest.mark.connect
def test_session_of_connect_that_ends_commits_nothing(spark, other_session, table, rows):
    name = table("released")
    other_session.sql("BEGIN")
    other_session.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    other_session.client.release_session()
    assert rows(spark, name) == [(1, "a"), (2, "b")]
    with lakestep.transaction(spark):
        spark.sql(f"INSERT INTO {name} VALUES (4, 'd')")
    assert rows(spark, name) == [(1, "a"), (2, "b"), (4, "d")]


def test_nested_transaction_is_refused_and_the_outer_one_goes_on(spark, table, rows):
    name = table("nested")
    with lakestep.transaction(spark) as outer:
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
        with pytest.raises(lakestep.TransactionStateError) as raised, lakestep.transaction(spark):
            pass
        assert refusal(raised) == ("LAKESTEP_TRANSACTION_ALREADY_ACTIVE", "25001")
        assert raised.value.getMessageParameters() == {"transaction": outer.id}
    assert rows(spark, name) == [*ROWS, (3, "c")]


def test_conflict_is_raised_and_the_session_goes_on(spark, other_session, table, rows):
    name = table("contested")
    with pytest.raises(lakestep.ConflictError) as raised, lakestep.transaction(spark) as txn:
        spark.sql(f"UPDATE {name} SET v = 'mine' WHERE id = 1")
        other_session.sql(f"UPDATE {name} SET v = 'theirs' WHERE id = 1")
    assert raised.value.getSqlState() == "40001"
    assert not txn.is_open
    assert rows(spark, name) == [(1, "theirs"), (2, "b")]
    with lakestep.transaction(spark):
        spark.sql(f"DELETE FROM {name}")
    assert rows(spark, name) == []


@pytest.mark.parametrize("name", ["load", "Daily load", "a`b", "ünïcode"])
def test_name_is_kept_whatever_it_is(spark, name):
    with lakestep.transaction(spark, name) as txn:
        assert txn.name == name
        shown = spark.sql("SHOW TRANSACTIONS").collect()
        assert (txn.id, name) in [(row["transaction_id"], row["name"]) for row in shown]


def test_plain_sql_raises_the_same_exceptions(spark):
    with pytest.raises(lakestep.TransactionStateError) as raised:
        spark.sql("COMMIT").collect()
    assert refusal(raised) == ("LAKESTEP_NO_ACTIVE_TRANSACTION", "25P01")
    assert raised.value.getMessageParameters() == {"statement": "COMMIT"}
    assert str(raised.value).startswith("[LAKESTEP_NO_ACTIVE_TRANSACTION] ")
    assert "\tat " not in str(raised.value)
    assert "LakestepException" in (raised.value.getStackTrace() or "")


def test_errors_of_spark_stay_those_of_spark(spark):
    from pyspark.errors import AnalysisException, ParseException

    with pytest.raises(ParseException):
        spark.sql("SELEC 1").collect()
    with pytest.raises(AnalysisException) as raised:
        spark.sql("SELECT * FROM no_such_table").collect()
    assert raised.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_writers_and_readers_state_their_transaction(spark, other_session, table, rows, tmp_path):
    name = table("stated")
    path = str(tmp_path / "by path")
    frame = spark.createDataFrame([(3, "c")], "id INT, v STRING")
    frame.write.format("delta").save(path)
    with lakestep.transaction(spark) as txn:
        frame.writeTo(name).withTransaction(txn).append()
        frame.write.format("delta").mode("append").withTransaction(txn).save(path)
        inside = spark.read.format("delta").withTransaction(txn).load(path)
        assert inside.count() == 2
        assert other_session.read.format("delta").load(path).count() == 1
    assert rows(other_session, name) == [*ROWS, (3, "c")]
    assert other_session.read.format("delta").load(path).count() == 2


def test_every_write_of_a_closed_table_is_a_transaction(spark, other_session, table, rows):
    name = table("closed_to_others")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')")
    spark.sql(f"INSERT INTO {name} VALUES (3, 'sql')")
    frame = spark.createDataFrame([(4, "frame")], "id INT, v STRING")
    frame.writeTo(name).append()
    frame.write.format("delta").mode("append").saveAsTable(name)
    other_session.sql(f"UPDATE {name} SET v = 'other' WHERE id = 3")
    with lakestep.transaction(spark):
        spark.sql(f"DELETE FROM {name} WHERE id = 1")
    spark.sql(f"OPTIMIZE {name}")
    assert rows(spark, name) == [(2, "b"), (3, "other"), (4, "frame"), (4, "frame")]
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('lakestep.foreignWriters')")
    spark.sql(f"INSERT INTO {name} VALUES (5, 'open')")
    assert rows(other_session, name)[-1] == (5, "open")


def test_merge_states_its_transaction(spark, table, rows):
    name = table("merged")
    with lakestep.transaction(spark) as txn:
        changes = spark.createDataFrame([(2, "B"), (3, "c")], "id INT, v STRING").alias("s")
        (
            changes.mergeInto(name, F.expr(f"{name}.id = s.id"))
            .withTransaction(txn)
            .whenMatched()
            .updateAll()
            .whenNotMatched()
            .insertAll()
            .merge()
        )
    assert rows(spark, name) == [(1, "a"), (2, "B"), (3, "c")]


def test_ended_transaction_cannot_be_stated(spark):
    frame = spark.range(1)
    with lakestep.transaction(spark) as txn:
        pass
    for target in (frame.write, frame.writeTo("t"), spark.read):
        with pytest.raises(lakestep.TransactionStateError) as raised:
            target.withTransaction(txn)
        assert refusal(raised) == ("LAKESTEP_TRANSACTION_NOT_OPEN", "25000")
        assert raised.value.getMessageParameters()["transaction"] == txn.id


def test_transaction_of_another_session_cannot_be_stated(spark, other_session):
    frame = other_session.range(1)
    with lakestep.transaction(spark) as txn:
        for target in (frame.write, frame.writeTo("t"), other_session.read):
            with pytest.raises(lakestep.TransactionStateError) as raised:
                target.withTransaction(txn)
            assert refusal(raised) == ("LAKESTEP_TRANSACTION_OF_OTHER_SESSION", "25000")


def test_jvm_checks_the_stated_transaction_again(spark, tmp_path):
    path = str(tmp_path / "checked")
    frame = spark.range(2)
    frame.write.format("delta").save(path)
    with lakestep.transaction(spark):
        writer = frame.write.format("delta").mode("append")
        with pytest.raises(lakestep.TransactionStateError):
            writer.option("lakestep.transaction", "t" + "0" * 32).save(path)
    for reader in (spark.read.format("delta").load, lambda p: spark.read.table(f"delta.`{p}`")):
        assert reader(path).count() == 2
    stated = spark.read.option("lakestep.transaction", "t" + "0" * 32)
    for read in (
        lambda: stated.format("delta").load(path),
        lambda: stated.table(f"delta.`{path}`"),
    ):
        with pytest.raises(lakestep.TransactionStateError):
            read().count()


@pytest.mark.classic
def test_two_python_objects_for_one_session_are_one_session(spark):
    from pyspark.sql import SparkSession

    same = SparkSession(spark.sparkContext, jsparkSession=spark._jsparkSession)
    with lakestep.transaction(spark) as txn:
        same.read.withTransaction(txn)  # type: ignore[attr-defined]


@pytest.mark.classic
def test_installing_again_keeps_the_methods_and_the_converter(spark):
    from pyspark.errors.exceptions import captured
    from pyspark.sql.readwriter import DataFrameWriter

    from lakestep import _errors, _writer

    def installed():
        return captured.convert_exception, vars(DataFrameWriter)["withTransaction"]

    before = installed()
    _errors.install()
    _writer.install()
    assert installed() == before


def test_recover_with_nothing_unfinished_returns_nothing(spark):
    assert lakestep.recover(spark) == []


STOPPED = """
from pathlib import Path
from small_session import small_session
spark = small_session(Path({folder!r}))
failure = ValueError("mine")
try:
    with lakestep.transaction(spark):
        spark.stop()
        raise failure
except ValueError as e:
    answer([e is failure, getattr(e, "__notes__", [])])
"""


@pytest.mark.classic
def test_rollback_that_fails_is_a_note_on_the_original_exception(python, tmp_path):
    same, notes = python(STOPPED.format(folder=str(tmp_path)))
    assert same
    # Before Spark 4.2 a stopped session has forgotten its transaction, and has none to roll back.
    if LINE == "4.2":
        assert len(notes) == 1
        assert notes[0].startswith("ROLLBACK failed too: ")
    else:
        assert notes == []


def test_block_with_parameters_commits_once_however_often_it_is_looked_at(spark, table, rows):
    name = table("looked_at")
    block = f"BEGIN; INSERT INTO {name} VALUES (:id, 'c'); SELECT max(id) FROM {name}; COMMIT"
    # There Spark would run it for each look.
    if LINE == "4.0" and type(spark).__module__.startswith("pyspark.sql.connect"):
        with pytest.raises(lakestep.UnsupportedInTransactionError) as raised:
            spark.sql(block, args={"id": 3}).collect()
        assert refusal(raised) == ("LAKESTEP_PARAMETERS_IN_BLOCK", "0A000")
        assert rows(spark, name) == ROWS
        return
    frame = spark.sql(block, args={"id": 3})
    assert frame.columns == ["max(id)"]
    assert [frame.collect()[0][0] for _ in range(2)] == [3, 3]
    assert rows(spark, name) == [*ROWS, (3, "c")]


def test_each_batch_of_a_stream_counts_once(spark, table, tmp_path):
    source, one, two = table("fed_from"), table("fed_first", ()), table("fed_second", ())
    checkpoint = tmp_path / "checkpoint"

    def load(batch, _):
        batch.write.format("delta").mode("append").saveAsTable(one)
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(f"INSERT INTO {two} SELECT * FROM batch")

    def run():
        query = (
            spark.readStream.table(source)
            .writeStream.foreachBatch(lakestep.foreach_batch(load, query="fed"))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.exception() is None
        return spark.table(one).count(), spark.table(two).count()

    assert run() == (2, 2)
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink()
    assert run() == (2, 2)


def test_a_batch_says_its_query_and_does_not_go_back(spark, table, tmp_path):
    source, one = table("said_from"), table("said_into", ())
    with lakestep.transaction(spark, batch=("said", 3)):
        spark.sql(f"INSERT INTO {one} VALUES (3, 'x')")

    def start(query):
        return (
            spark.readStream.table(source)
            .writeStream.foreachBatch(lakestep.foreach_batch(lambda *_: None, query=query))
            .option("checkpointLocation", str(tmp_path / f"checkpoint of {query}"))
            .trigger(availableNow=True)
            .start()
        )

    with pytest.raises(PySparkException, match="LAKESTEP_BATCH_BEHIND"):
        start("said").awaitTermination()
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        with pytest.raises(PySparkException, match="LAKESTEP_BATCH_WITHOUT_QUERY"):
            start(None).awaitTermination()
    assert [row["id"] for row in spark.table(one).collect()] == [3]


def test_every_write_is_refused_outside_where_transactions_are_required(
    spark, table, rows, tmp_path
):
    name, source = table("required"), table("required_from")

    def stream(batch, _):
        batch.write.format("delta").mode("append").saveAsTable(name)

    frame = spark.range(1).selectExpr("CAST(id AS INT) AS id", "'z' AS v")
    appends = frame.write.format("delta").mode("append")
    writes = (
        lambda: spark.sql(f"INSERT INTO {name} VALUES (9, 'z')"),
        lambda: appends.save(str(tmp_path / "new")),
        lambda: appends.saveAsTable(name),
        lambda: frame.writeTo(name).append(),
        lambda: (
            spark.readStream.table(source)
            .writeStream.foreachBatch(stream)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        ),
    )
    spark.conf.set("spark.lakestep.requireTransaction", "true")
    try:
        for write in writes:
            with pytest.raises(Exception, match="LAKESTEP_TRANSACTION_REQUIRED"):
                write()
        with lakestep.transaction(spark):
            appends.saveAsTable(name)
    finally:
        spark.conf.unset("spark.lakestep.requireTransaction")
    assert rows(spark, name) == [(0, "z"), *ROWS]
    assert not (tmp_path / "new").exists()


@pytest.mark.connect
def test_batches_of_two_streams_of_one_session_of_connect_collide(spark, table, tmp_path):
    source, one, two = table("both_from"), table("both_first", ()), table("both_second", ())
    inside, go_on = tmp_path / "inside", tmp_path / "go_on"
    os.mkfifo(inside)
    os.mkfifo(go_on)

    def waits(batch, _):
        batch.write.format("delta").mode("append").saveAsTable(one)
        # Each of them waits for the other end.
        inside.open("w").close()
        go_on.open().close()

    def writes(batch, _):
        batch.write.format("delta").mode("append").saveAsTable(two)

    def start(function, name):
        return (
            spark.readStream.table(source)
            .writeStream.foreachBatch(lakestep.foreach_batch(function, query=name))
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )

    first = start(waits, "first of both")
    inside.open().close()
    second = start(writes, "second of both")
    with pytest.raises(PySparkException, match="LAKESTEP_TRANSACTION_ALREADY_ACTIVE"):
        second.awaitTermination()
    go_on.open("w").close()
    first.awaitTermination()
    assert (spark.table(one).count(), spark.table(two).count()) == (2, 0)
