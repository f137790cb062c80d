"""What a session reads inside a transaction, and what DataFrames made elsewhere do there."""

import json
from datetime import datetime
from pathlib import Path

import pyarrow
import pytest
from delta.tables import DeltaTable
from deltalake import DeltaTable as DeltaRsTable
from deltalake import write_deltalake
from pyspark.sql import functions as F

import lakestep
import statement_kinds
import table_state
from arena import head, read_by_delta_rs
from settings import setting
from transactions import begin, commit, condition_of, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("compiled", "no_transaction_left"),
    pytest.mark.sliced,
]

CHANGES = {"f": ("insert_values", "update"), "d": ("delete", "add_column")}

QUERIES = {
    "join": "SELECT f.id, d.v FROM {f} f JOIN {d} d ON f.id = d.id",
    "outer_join": "SELECT f.id, d.id FROM {f} f FULL OUTER JOIN {d} d ON f.id = d.id + 1",
    "anti_join": "SELECT * FROM {f} f ANTI JOIN {d} d USING (id)",
    "self_join": "SELECT a.id, b.n FROM {f} a, {f} b WHERE a.n = b.n AND a.part = 'a'",
    "in_subquery": "SELECT id FROM {f} WHERE id IN (SELECT id FROM {d})",
    "exists_correlated": "SELECT id FROM {f} f WHERE EXISTS (SELECT 1 FROM {d} d WHERE d.n = f.n)",
    "scalar_subquery": "SELECT id, (SELECT max(n) FROM {d}) FROM {f}",
    "subquery_in_from": "SELECT sum(n) FROM (SELECT n FROM {f} WHERE id > 3)",
    "common_table_expression": "WITH c AS (SELECT id, n FROM {f}) "
    "SELECT c.id, d.v FROM c JOIN {d} d USING (id)",
    "recursive": "WITH RECURSIVE r(id) AS (SELECT min(id) FROM {f} UNION ALL "
    "SELECT id + 1 FROM r WHERE id < (SELECT max(n) FROM {d})) SELECT * FROM r",
    "group_by": "SELECT part, count(*), sum(n) FROM {f} GROUP BY part HAVING count(*) > 1",
    "rollup": "SELECT part, v, count(*) FROM {f} GROUP BY ROLLUP (part, v)",
    "count_from_the_log": "SELECT count(*), min(id), max(id) FROM {f}",
    "window": "SELECT id, row_number() OVER (PARTITION BY part ORDER BY n) FROM {f}",
    "union": "SELECT id, v FROM {f} UNION SELECT id, v FROM {d}",
    "except": "SELECT id FROM {f} EXCEPT SELECT id FROM {d}",
    "partition_filter": "SELECT id FROM {d} WHERE part = 'a'",
    "order_and_limit": "SELECT id FROM {f} ORDER BY id DESC LIMIT 2",
    "lateral": "SELECT f.id, x FROM {f} f, LATERAL (SELECT f.n * 2 AS x)",
    "pivot": "SELECT * FROM (SELECT part, n FROM {f}) PIVOT (sum(n) FOR part IN ('a', 'b b'))",
    "explode": "SELECT id, e FROM {f} LATERAL VIEW explode(array(n, n + 1)) AS e",
    "distinct": "SELECT DISTINCT part FROM {f}",
    "pipe": "FROM {f} |> WHERE id > 2 |> SELECT id, n",
    "version_as_of": "SELECT * FROM {f} VERSION AS OF 1",
    "version_of_path": "SELECT * FROM delta.`{f_path}` VERSION AS OF 1",
    "at_version": "SELECT * FROM delta.`{f_path}@v1`",
    "path": "SELECT * FROM delta.`{d_path}`",
    "values": "SELECT * FROM VALUES (1), (21) AS s(id) JOIN {f} USING (id)",
    "columns": "DESCRIBE TABLE {d}",
    "column_names": "SHOW COLUMNS IN {d}",
}


def test_transaction_reads_what_its_session_has_written_whatever_the_clocks_say(spark, rows):
    """Another client's clock is ten minutes ahead, and in-commit timestamps never go back."""
    spark.sql(
        "CREATE TABLE ahead (id INT) USING delta "
        "TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"
    )
    try:
        place = spark.sql("DESCRIBE DETAIL ahead").collect()[0]["location"].removeprefix("file:")
        time = int(1000 * datetime.now().timestamp()) + 600_000
        info = {
            "timestamp": time,
            "inCommitTimestamp": time,
            "operation": "WRITE",
            "operationParameters": {},
            "isBlindAppend": True,
        }
        foreign = Path(place, "_delta_log", f"{1:020}.json")
        foreign.write_text(json.dumps({"commitInfo": info}) + "\n")
        spark.sql("INSERT INTO ahead VALUES (1)")
        begin(spark)
        assert rows(spark, "ahead") == [(1,)]
        spark.sql("INSERT INTO ahead SELECT max(id) + 1 FROM ahead")
        commit(spark)
        assert rows(spark, "ahead") == [(1,), (2,)]
    finally:
        spark.sql("DROP TABLE ahead")


def test_script_sets_a_variable_to_what_a_query_of_a_table_gives(spark, table):
    one = table("scripted")
    # Off in Spark 4.0.
    spark.conf.set("spark.sql.scripting.enabled", "true")
    script = f"BEGIN DECLARE x INT; SET x = (SELECT max(id) FROM {one}); SELECT x; END"
    assert spark.sql(script).collect() == [(2,)]
    begin(spark)
    spark.sql(f"INSERT INTO {one} VALUES (7, 'g')")
    assert spark.sql(script).collect() == [(7,)]
    rollback(spark)


@pytest.fixture(scope="module")
def changed(spark, plain, arena):
    """Two tables changed in an open transaction, and their committed twins for plain Delta."""
    texts, twin_texts = {}, {}
    targets = {"f": arena.table("plain"), "d": arena.table("partitioned")}
    for name, kind in (("f", "plain"), ("d", "partitioned")):
        twin = arena.copy(kind)
        plain.ask("after", statements=CHANGES[name], path=str(twin), since=0)
        texts |= {name: targets[name].sql, f"{name}_path": targets[name].path}
        twin_texts |= {name: f"delta.`{twin}`", f"{name}_path": str(twin)}
    return targets, texts, twin_texts


def make_changes(spark, targets):
    begin(spark)
    for name, target in targets.items():
        for statement in CHANGES[name]:
            statement_kinds.run(spark, statement, target)


def test_every_kind_of_query_reads_what_the_transaction_wrote(spark, plain, other_session, changed):
    targets, texts, twin_texts = changed
    outside = {}
    for name in ("join", "count_from_the_log", "group_by"):
        outside[name] = table_state.shown(other_session.sql(QUERIES[name].format(**texts)))
    make_changes(spark, targets)
    wrong = {}
    for name, query in QUERIES.items():
        expected = plain.start("sql", text=query.format(**twin_texts))
        try:
            found = table_state.shown(spark.sql(query.format(**texts)))
        except Exception as failure:
            found = str(failure)
        if found != expected.result():
            wrong[name] = (found, expected.result())
    assert wrong == {}
    for name, rows in outside.items():
        assert table_state.shown(other_session.sql(QUERIES[name].format(**texts))) == rows


def test_views_and_data_frame_readers_see_what_the_transaction_wrote(spark, changed):
    targets, _, _ = changed
    f, path = targets["f"].sql, targets["f"].path
    spark.sql(f"CREATE OR REPLACE VIEW stored AS SELECT id, n FROM {f} WHERE id > 1")
    make_changes(spark, targets)
    wanted = table_state.shown(spark.sql(f"SELECT * FROM {f}"))
    spark.sql(f"CREATE OR REPLACE TEMP VIEW passing AS SELECT * FROM {f}")
    assert table_state.shown(spark.table("passing")) == wanted
    assert spark.table("stored").count() == len(wanted) - 1
    assert table_state.shown(spark.read.table(f)) == wanted
    assert table_state.shown(spark.read.format("delta").load(path)) == wanted
    assert table_state.shown(spark.read.format("delta").option("path", path).load()) == wanted
    assert table_state.shown(DeltaTable.forName(spark, f).toDF()) == wanted
    assert table_state.shown(DeltaTable.forPath(spark, path).toDF()) == wanted
    old = spark.read.format("delta").option("versionAsOf", 1).load(path)
    assert old.count() == 6
    frame = spark.table(f).where("id > 20")
    assert [row["id"] for row in frame.orderBy("id").collect()] == [21, 22]
    assert frame.cache().count() == 2
    frame.unpersist()


def test_history_and_detail_show_the_transaction(spark, changed):
    targets, _, _ = changed
    target = targets["f"]
    since = head(target.path)
    make_changes(spark, targets)
    names = ["UPDATE", "WRITE"]
    by_name, by_path = (
        DeltaTable.forName(spark, target.sql),
        DeltaTable.forPath(spark, target.path),
    )
    rows = by_name.history().select("version", "operation").collect()
    assert [row["version"] for row in rows] == list(range(since + 2, -1, -1))
    assert [row["operation"] for row in rows[:2]] == names
    assert [row["operation"] for row in by_name.history(2).collect()] == names
    # Delta reads the log of the path itself there, past every plan.
    with refused("LAKESTEP_BASE_TABLE_IN_TRANSACTION", "0A000"):
        by_path.history()
    files = spark.table(target.sql).select(F.input_file_name()).distinct().count()
    described = spark.sql(f"DESCRIBE DETAIL {target.sql}")
    for detail in (by_name.detail(), by_path.detail(), described):
        row = detail.collect()[0]
        assert row["numFiles"] == files
        assert row["location"] == f"file:{target.path}"
    operations = spark.sql(f"DESCRIBE HISTORY delta.`{target.path}` LIMIT 2").collect()
    assert [row["operation"] for row in operations] == names


def foreign_append(path, identifier):
    """A row by a client that never heard of Lakestep."""
    write_deltalake(
        path,
        pyarrow.table(
            {
                "id": pyarrow.array([identifier], pyarrow.int32()),
                "part": ["a"],
                "v": ["foreign"],
                "n": pyarrow.array([1], pyarrow.int32()),
            }
        ),
        mode="append",
    )


def ids(spark, name):
    return [row["id"] for row in spark.sql(f"SELECT id FROM {name} ORDER BY id").collect()]


def test_reads_repeat_under_a_foreign_commit_which_survives_the_commit(spark, arena):
    target, other = arena.table("plain"), arena.table("plain")
    begin(spark)
    before = ids(spark, target.sql)
    foreign_append(target.path, 500)
    assert ids(spark, target.sql) == before
    assert ids(spark, f"delta.`{target.path}`") == before
    statement_kinds.run(spark, "insert_values", target)
    assert ids(spark, target.sql) == [*before, 21, 22]
    foreign_append(target.path, 501)
    assert ids(spark, target.sql) == [*before, 21, 22]
    statement_kinds.run(spark, "insert_values", other)
    commit(spark)
    assert ids(spark, target.sql) == [*before, 21, 22, 500, 501]
    assert len(read_by_delta_rs(target.path)) == len(before) + 4


def test_tables_read_first_after_a_foreign_commit_are_of_one_moment(spark, arena):
    first, second = arena.table("plain"), arena.table("plain")
    # A timeline orders only what is bound to it.
    for target in (first, second):
        begin(spark)
        statement_kinds.run(spark, "insert_values", target)
        commit(spark)
    begin(spark)
    seen = ids(spark, first.sql)
    other = spark.newSession()
    begin(other)
    for target in (first, second):
        statement_kinds.run(other, "update", target)
        other.sql(f"INSERT INTO {target.sql} VALUES (600, 'a', 'late', 1)")
    commit(other)
    assert ids(spark, second.sql) == seen
    assert ids(other, second.sql) == [*seen, 600]


def read_or_refused(read):
    try:
        return read()
    except Exception as failure:
        assert condition_of(failure) == "LAKESTEP_DATAFRAME_FROM_OUTSIDE"
        return None


def test_frames_views_and_cached_tables_made_before_begin_read_the_snapshot_or_are_refused(
    spark, arena
):
    target = arena.table("plain")
    frame = spark.table(target.sql).orderBy("id")
    planned = spark.table(target.sql).select("id").orderBy("id")
    before = [row["id"] for row in planned.collect()]
    by_path = spark.read.format("delta").load(target.path).orderBy("id")
    frame.createOrReplaceTempView("made_before")
    cached = spark.table(target.sql).select("id", "n").cache()
    assert cached.count() == len(before)
    begin(spark)
    assert ids(spark, target.sql) == before
    foreign_append(target.path, 500)
    statement_kinds.run(spark, "insert_values", target)
    inside = [*before, 21, 22]
    reads = {
        "frame": lambda: [row["id"] for row in frame.collect()],
        "planned": lambda: [row["id"] for row in planned.collect()],
        "derived": lambda: [row["id"] for row in frame.where("id > 0").collect()],
        "by path": lambda: [row["id"] for row in by_path.collect()],
        "view": lambda: [row["id"] for row in spark.table("made_before").collect()],
        "cached": lambda: sorted(row["id"] for row in cached.collect()),
        "count": lambda: inside if frame.count() == len(inside) else [frame.count()],
        "written": lambda: written(frame),
    }

    def written(source):
        source.where("id = 22").withColumn("id", F.lit(700)).write.insertInto(target.sql)
        found = ids(spark, target.sql)
        spark.sql(f"DELETE FROM {target.sql} WHERE id = 700")
        return [i for i in found if i != 700] if 700 in found else found

    found = {name: read_or_refused(read) for name, read in reads.items()}
    assert {name: rows for name, rows in found.items() if rows not in (None, inside)} == {}
    rollback(spark)
    cached.unpersist()
    assert ids(spark, target.sql) == [*before, 500]


@pytest.mark.parametrize("end", [commit, rollback])
def test_cached_table_is_not_served_inside_nor_staged_rows_after(spark, arena, end):
    target = arena.table("plain")
    spark.sql(f"CACHE TABLE {target.sql}")
    before = ids(spark, target.sql)
    other = spark.newSession()
    begin(spark)
    statement_kinds.run(spark, "insert_values", target)
    inside = [*before, 21, 22]
    assert ids(spark, target.sql) == inside
    assert ids(other, target.sql) == before
    spark.sql(f"CACHE TABLE {target.sql}")
    assert ids(spark, target.sql) == inside
    spark.sql(f"DELETE FROM {target.sql} WHERE id = 21")
    inside.remove(21)
    assert ids(spark, target.sql) == inside
    assert ids(other, target.sql) == before
    end(spark)
    after = inside if end is commit else before
    assert ids(spark, target.sql) == after
    assert ids(other, target.sql) == after
    spark.sql(f"UNCACHE TABLE {target.sql}")


def test_commit_refreshes_what_other_sessions_cached(spark, arena):
    target = arena.table("plain")
    other = spark.newSession()
    cached = other.table(target.sql).select("id").cache()
    before = sorted(row["id"] for row in cached.collect())
    begin(spark)
    statement_kinds.run(spark, "insert_values", target)
    assert sorted(row["id"] for row in cached.collect()) == before
    commit(spark)
    again = other.table(target.sql).select("id")
    assert sorted(row["id"] for row in again.collect()) == [*before, 21, 22]
    cached.unpersist()


def test_frame_cached_in_a_transaction_does_not_hinder_writes_of_others_nor_later_ones(
    spark, arena
):
    target = arena.table("plain")
    other = spark.newSession()
    begin(other)
    statement_kinds.run(other, "delete", target)
    cached = other.table(target.sql).cache()
    expected = sorted(row["id"] for row in cached.collect())
    statement_kinds.run(spark, "insert_values", target)
    assert sorted(row["id"] for row in cached.collect()) == expected
    rollback(other)
    statement_kinds.run(spark, "insert_values", target)
    statement_kinds.run(other, "insert_values", target)
    assert len(ids(other, target.sql)) == 8 + 3 * 2


def test_count_planned_before_begin_is_refused_inside(spark, arena):
    target = arena.table("plain")
    # Answered from the log: no scan of the table is left in the plan.
    count = spark.sql(f"SELECT count(*) FROM {target.sql}")
    assert count.collect()[0][0] == 8
    begin(spark)
    spark.sql(f"DELETE FROM {target.sql} WHERE id = 1")
    with refused("LAKESTEP_DATAFRAME_FROM_OUTSIDE", "0A000"):
        count.collect()
    inside = spark.sql(f"SELECT count(*) FROM {target.sql}")
    assert inside.collect()[0][0] == 7
    rollback(spark)
    with refused("LAKESTEP_DATAFRAME_OF_ENDED_TRANSACTION", "25000"):
        inside.collect()
    assert count.collect()[0][0] == 8


def test_cached_data_built_anew_inside_is_that_of_all_sessions(spark, other_session, arena):
    target = arena.table("plain")
    spark.sql(f"CACHE TABLE {target.sql}")
    try:
        begin(spark)
        spark.sql(f"DELETE FROM {target.sql} WHERE id = 1")
        spark.catalog.refreshByPath(target.path)
        assert spark.table(target.sql).count() == 7
        assert other_session.table(target.sql).count() == 8
        rollback(spark)
        for session in (spark, other_session):
            assert session.table(target.sql).count() == 8
    finally:
        spark.sql(f"UNCACHE TABLE IF EXISTS {target.sql}")


@pytest.mark.parametrize("end", [commit, rollback])
def test_frame_of_a_transaction_reads_the_table_as_it_is_after_it(spark, arena, end):
    target = arena.table("plain")
    begin(spark)
    statement_kinds.run(spark, "insert_values", target)
    frame = spark.table(target.sql)
    frame.createOrReplaceTempView("made_inside")
    assert frame.count() > 0
    ran = frame.where("id = 21")
    assert len(ran.collect()) == 1
    cached = frame.where("id = 21").cache()
    assert cached.count() == 1
    end(spark)
    now = ids(spark, target.sql)
    assert (21 in now) == (end is commit)
    assert sorted(row["id"] for row in frame.collect()) == now
    assert ids(spark, "made_inside") == now
    assert frame.where("id = 21").count() == (1 if end is commit else 0)
    # Spark does not plan again what has run.
    for frame_that_ran in (ran, cached):
        with refused("LAKESTEP_DATAFRAME_OF_ENDED_TRANSACTION", "25000"):
            frame_that_ran.collect()
    cached.unpersist()
    frame.write.format("delta").mode("append").save(target.path)
    assert len(ids(spark, target.sql)) == 2 * len(now)
    spark.sql(f"UPDATE {target.sql} SET n = 0")
    begin(spark)
    spark.sql(f"DELETE FROM {target.sql} WHERE id < 4")
    seen = ids(spark, target.sql)
    assert ids(spark, "made_inside") == seen
    assert sorted(row["id"] for row in frame.where("true").collect()) == seen
    rollback(spark)


def test_frame_of_a_transaction_is_refused_after_it_where_the_table_is_another(spark, arena):
    target = arena.table("plain")
    begin(spark)
    statement_kinds.run(spark, "add_column", target)
    wider = spark.table(target.sql)
    old = spark.sql(f"SELECT * FROM {target.sql} VERSION AS OF 1")
    rollback(spark)
    for frame in (wider, old):
        with refused("LAKESTEP_DATAFRAME_OF_ENDED_TRANSACTION", "25000"):
            frame.collect()


def test_delta_table_of_a_transaction_shows_no_old_history_after_it(spark, arena):
    target = arena.table("plain")
    begin(spark)
    statement_kinds.run(spark, "insert_values", target)
    made_inside = DeltaTable.forName(spark, target.sql)
    before = made_inside.history().count()
    commit(spark)
    spark.sql(f"DELETE FROM {target.sql} WHERE id = 1")
    with refused("LAKESTEP_DATAFRAME_OF_ENDED_TRANSACTION", "25000"):
        made_inside.history()
    assert DeltaTable.forName(spark, target.sql).history().count() == before + 1
    assert made_inside.toDF().count() == len(ids(spark, target.sql))


def test_insert_into_a_view_that_was_made_before_begin(spark, other_session, arena):
    target = arena.table("plain")
    before = ids(spark, target.sql)
    spark.table(target.sql).createOrReplaceTempView("v_before")
    begin(spark)
    spark.sql("INSERT INTO v_before VALUES (61, 'a', 'x', 61)")
    spark.createDataFrame([(62, "a", "x", 62)], spark.table(target.sql).schema).write.insertInto(
        "v_before"
    )
    spark.sql("UPDATE v_before SET n = 0 WHERE id = 61")
    assert ids(spark, target.sql) == ids(spark, "v_before") == [*before, 61, 62]
    assert ids(other_session, target.sql) == before
    commit(spark)
    assert ids(spark, "v_before") == ids(other_session, target.sql) == [*before, 61, 62]


def test_conflict_says_who_was_first_and_where_by_the_names_of_the_user(
    spark, other_session, arena
):
    target = arena.table("plain")
    begin(spark)
    statement_kinds.run(spark, "update", target)
    other = other_session.sql("BEGIN").collect()[0]["transaction_id"]
    other_session.sql(f"DELETE FROM {target.sql} WHERE id = 1")
    other_session.sql("COMMIT")
    with pytest.raises(lakestep.ConflictError) as raised:
        commit(spark)
    told = raised.value.getMessageParameters()
    user = spark.sparkContext.sparkUser()
    assert (told["user"], told["other"], told["operation"]) == (user, other, "DELETE")
    assert told["table"] == f"spark_catalog.default.{target.sql}"
    assert f"DELETE by {user} in version" in str(raised.value)
    rollback(spark)


def test_conflict_can_be_looked_at_before_rollback(spark, arena):
    target = arena.table("plain")
    transaction = begin(spark)
    statement_kinds.run(spark, "update", target)
    DeltaRsTable(target.path).delete("id = 1")
    with refused("LAKESTEP_CONFLICT.SAME_FILE", "40001"):
        commit(spark)
    looks = ("EXPLAIN CONFLICT", "SHOW TRANSACTIONS", f"DESCRIBE TRANSACTION '{transaction}'")
    for look in looks:
        frame = spark.sql(look)
        frame.show()
        assert (
            frame.where(f"transaction_id = '{transaction}'").select("transaction_id").count() == 1
        )
        assert frame.orderBy("transaction_id").limit(1).collect() == frame.collect()
        with refused("LAKESTEP_TRANSACTION_FAILED", "25P02"):
            frame.crossJoin(spark.table(target.sql)).collect()
    with refused("LAKESTEP_TRANSACTION_FAILED", "25P02"):
        spark.sql("SELECT 1").show()
    rollback(spark)


def test_conflict_fails_commit_and_every_statement_until_rollback(spark, arena):
    target, other = arena.table("plain"), arena.table("plain")
    untouched = ids(spark, other.sql)
    begin(spark)
    statement_kinds.run(spark, "update", target)
    statement_kinds.run(spark, "insert_values", other)
    DeltaRsTable(target.path).delete("id = 1")
    with refused("LAKESTEP_CONFLICT", "40001"):
        commit(spark)
    for text in (f"SELECT * FROM {target.sql}", "SELECT 1", "BEGIN", "COMMIT"):
        with refused("LAKESTEP_TRANSACTION_FAILED", "25P02"):
            spark.sql(text).collect()
    rollback(spark)
    assert 1 not in ids(spark, target.sql)
    assert ids(spark, other.sql) == untouched


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("inside", [False, True])
def test_adaptive_execution_plans_queries_subqueries_and_cached_data(spark, tmp_path, inside):
    path = f"{tmp_path}/adaptive"
    spark.range(100).selectExpr("id", "id % 4 AS k").write.format("delta").save(path)
    table = f"delta.`{path}`"
    nested = f"SELECT k, sum(id) FROM {table} WHERE id > (SELECT avg(id) FROM {table}) GROUP BY k"
    with setting(spark, "spark.sql.adaptive.enabled", "true"):
        if inside:
            begin(spark)
            spark.sql(f"INSERT INTO {table} SELECT id, id % 4 FROM range(100, 200)")
        found = spark.sql(nested)
        plan = plan_of(found)
        assert plan.startswith("Statement\n+- AdaptiveSparkPlan"), plan
        # The subquery, too.
        assert plan.count("AdaptiveSparkPlan") > 1, plan
        rows = range(100, 200) if inside else range(50, 100)
        expected = [(k, sum(i for i in rows if i % 4 == k)) for k in range(4)]
        assert sorted(tuple(row) for row in found.collect()) == expected
        cached = spark.table(table).repartition(3, "k").cache()
        assert cached.count() == (200 if inside else 100)
        grouped = cached.groupBy("k").count()
        # It is partitioned by the key already.
        above = plan_of(grouped).split("InMemoryRelation")[0]
        assert "Exchange" not in above, above
        counts = [(k, 50 if inside else 25) for k in range(4)]
        assert sorted(tuple(row) for row in grouped.collect()) == counts
        cached.unpersist()
        if inside:
            rollback(spark)
