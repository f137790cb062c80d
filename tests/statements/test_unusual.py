"""What few users do, and must not go wrong: odd places, settings and tables that are replaced."""

import shutil

import pytest
from delta.tables import DeltaTable

from arena import head
from built import LINE
from transactions import abandon, begin, commit, flush, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]


def numbers(spark, name):
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {name}").collect())


def test_tables_that_lie_in_one_another_are_two_tables(spark, tmp_path):
    outer, inner = f"delta.`{tmp_path}/outer`", f"delta.`{tmp_path}/outer/inner`"
    for folder in ("outer", "outer/inner"):
        spark.range(2).write.format("delta").save(f"{tmp_path}/{folder}")
    begin(spark)
    assert numbers(spark, outer) == [0, 1]
    spark.sql(f"INSERT INTO {inner} VALUES (20)")
    spark.sql(f"INSERT INTO {outer} VALUES (10)")
    spark.sql(f"UPDATE {inner} SET id = 21 WHERE id = 20")
    assert commit(spark)["tables"] == 2
    assert numbers(spark, outer) == [0, 1, 10]
    assert numbers(spark, inner) == [0, 1, 21]


def test_reset_of_the_settings_leaves_the_transaction_as_it_is(spark, table):
    name = table("after_reset")
    begin(spark)
    spark.sql("RESET")
    spark.sql(f"INSERT INTO {name} REPLACE WHERE id = 1 VALUES (1, 'replaced')")
    assert spark.table(name).cache().count() == 2
    spark.catalog.clearCache()
    commit(spark)
    assert spark.sql(f"SELECT v FROM {name} WHERE id = 1").collect()[0]["v"] == "replaced"


def make_again(spark, name):
    path = spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:") + f"/{name}"
    spark.sql(f"DROP TABLE {name}")
    shutil.rmtree(path, ignore_errors=True)
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (100, 'again')")


def test_table_dropped_and_made_again_between_transactions_is_a_new_table(spark, table):
    name = table("made_again")
    for _ in range(2):
        for row in (3, 4):
            begin(spark)
            spark.sql(f"INSERT INTO {name} VALUES ({row}, 'x')")
            commit(spark)
        make_again(spark, name)
        begin(spark)
        assert numbers(spark, name) == [100]
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
        commit(spark)
        assert numbers(spark, name) == [3, 100]


def test_table_made_again_by_others_inside_a_transaction_is_a_conflict(spark, other_session, table):
    name, untouched = table("taken_away"), table("untouched")
    begin(spark)
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    spark.sql(f"INSERT INTO {untouched} VALUES (3, 'c')")
    make_again(other_session, name)
    with refused("LAKESTEP_CONFLICT", "40001"):
        spark.table(name).collect()
    with refused("LAKESTEP_CONFLICT", "40001"):
        spark.sql(f"INSERT INTO {name} VALUES (4, 'd')")
    with refused("LAKESTEP_CONFLICT", "40001"):
        commit(spark)
    rollback(spark)
    assert numbers(spark, name) == [100]
    assert numbers(spark, untouched) == [1, 2]


def test_session_that_changes_the_root_begins_in_the_other_database(spark, table, tmp_path):
    name, never_in_one = table("first_root"), table("never_in_a_transaction")
    begin(spark)
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    commit(spark)
    first = spark.conf.get("spark.lakestep.root")
    try:
        spark.conf.set("spark.lakestep.root", str(tmp_path / "second"))
        begin(spark)
        with refused("LAKESTEP_TABLE_OF_ANOTHER_TIMELINE", "55000"):
            spark.table(name).collect()
        rollback(spark)
        for unknown in ("nothing:///root", "s3a://bucket/root"):
            spark.conf.set("spark.lakestep.root", unknown)
            with refused("LAKESTEP_STORE_PATH_INVALID", "22023"):
                begin(spark)
            # A store that cannot hold a timeline takes no table away from those who need none.
            spark.sql(f"INSERT INTO {never_in_one} VALUES (3, 'c')")
            assert 3 in numbers(spark, never_in_one)
            with refused("LAKESTEP_STORE_PATH_INVALID", "22023"):
                spark.sql(f"INSERT INTO {name} VALUES (4, 'd')")
    finally:
        spark.conf.set("spark.lakestep.root", first)
    begin(spark)
    assert numbers(spark, name) == [1, 2, 3]
    rollback(spark)


def test_multi_insert_is_one_statement(spark, table):
    first, second = table("multi_first"), table("multi_second")
    begin(spark)
    two = "FROM (SELECT 3 AS id, 'c' AS v) s INSERT INTO {} SELECT * INSERT INTO {} SELECT {}"
    spark.sql(two.format(first, second, "*"))
    with pytest.raises(Exception, match="stop"):
        spark.sql(two.format(first, second, "id, raise_error('stop')"))
    assert numbers(spark, first) == numbers(spark, second) == [1, 2, 3]
    assert commit(spark)["tables"] == 2
    assert numbers(spark, first) == numbers(spark, second) == [1, 2, 3]


def test_files_of_rows_are_named_as_outside(spark, other_session, table):
    name, copy = table("named_files"), table("file_names", rows=())
    queries = (
        f"SELECT id, input_file_name() FROM {name}",
        f"SELECT id, _metadata.file_path FROM {name}",
        f"SELECT max(_metadata.file_path), count(*) FROM {name} GROUP BY _metadata.file_path",
        f"SELECT id, to_json(_metadata) FROM {name}",
        f"SELECT _metadata, id FROM {name} WHERE _metadata IS NOT NULL",
        f"SELECT _metadata, count(*) FROM {name} GROUP BY _metadata",
        f"SELECT m.file_path FROM (SELECT _metadata AS m, id FROM {name}) WHERE m.file_size > 0",
        f"SELECT _metadata.file_path FROM (SELECT id, _metadata FROM {name})",
        f"SELECT (SELECT first(_metadata) FROM {name}).file_name LIKE '%.parquet' AS v",
    )
    begin(spark)
    for query in queries:
        expected = sorted(map(tuple, other_session.sql(query).collect()))
        assert sorted(map(tuple, spark.sql(query).collect())) == expected
    spark.sql(f"INSERT INTO {copy} {queries[0]}")
    spark.sql(f"INSERT INTO {copy} {queries[3]}")
    spark.sql(f"DELETE FROM {name} WHERE id = 2")
    commit(spark)
    assert all("lakestep:" not in row["v"] for row in spark.table(copy).collect())
    assert numbers(spark, name) == [1]


def test_input_files_are_named_as_outside(spark, other_session, table):
    name, other = table("input_files"), table("input_files_too")
    queries = (
        f"SELECT * FROM {name}",
        f"SELECT id FROM {name} WHERE id = 2",
        f"SELECT * FROM {name} JOIN {other} USING (id)",
        f"SELECT * FROM {name} WHERE id IN (SELECT id FROM {other})",
        f"SELECT * FROM {name} VERSION AS OF 1",
    )
    begin(spark)
    for query in queries:
        files = sorted(spark.sql(query).inputFiles())
        assert files == sorted(other_session.sql(query).inputFiles()) != []
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    staged = spark.table(name).inputFiles()
    commit(spark)
    assert sorted(staged) == sorted(other_session.table(name).inputFiles())


def test_notes_of_several_statements_stand_in_the_one_commit(spark, table):
    name = table("with_notes")
    frame = spark.range(3, 4).selectExpr("CAST(id AS INT) AS id", "'c' AS v")
    begin(spark)
    for note in ("first", "second", "first"):
        writer = frame.write.format("delta").mode("append").option("userMetadata", note)
        writer.saveAsTable(name)
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    commit(spark)
    history = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]
    assert history["userMetadata"] == "first; second"


def test_rearranging_write_goes_with_a_change_of_rows(spark, table):
    name = table("rearranged")
    path = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["location"]
    before = head(path.removeprefix("file:"))
    begin(spark)
    writer = spark.table(name).write.format("delta").mode("overwrite").option("dataChange", "false")
    if LINE == "4.0":
        # There it replaces the table.
        with refused("LAKESTEP_UNSUPPORTED_IN_TRANSACTION.CREATE_TABLE", "0A000"):
            writer.saveAsTable(name)
        writer.save(path)
    else:
        writer.saveAsTable(name)
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    commit(spark)
    assert numbers(spark, name) == [1, 2, 3] and head(path.removeprefix("file:")) == before + 2


def test_block_that_a_statement_ends_early_runs_nothing_more(spark, table):
    name = table("ended_early")
    with refused("LAKESTEP_STATEMENT_IN_BLOCK", "25001"):
        spark.sql(f"BEGIN; EXECUTE IMMEDIATE 'COMMIT'; DELETE FROM {name}; COMMIT")
    assert numbers(spark, name) == [1, 2]


def test_table_that_exists_is_kept_by_whoever_makes_it_if_it_does_not(spark, table):
    name = table("kept")
    begin(spark)
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} (x DATE) USING delta")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta AS SELECT 9 AS id, 'x' AS v")
    spark.range(9).write.format("delta").mode("ignore").saveAsTable(name)
    DeltaTable.createIfNotExists(spark).tableName(name).addColumn("x", "DATE").execute()
    spark.sql("DROP TABLE IF EXISTS there_is_none")
    assert numbers(spark, name) == [1, 2, 3]
    commit(spark)
    assert spark.table(name).columns == ["id", "v"]
    assert numbers(spark, name) == [1, 2, 3]


def test_convert_and_vacuum_find_folders_that_lie_beside_files(spark, tmp_path):
    path = tmp_path / "t"
    parts = spark.range(4).selectExpr("id", "id % 2 AS p")
    parts.write.format("parquet").partitionBy("p").save(str(path))
    assert (path / "_SUCCESS").is_file()
    name = f"delta.`{path}`"
    spark.sql(f"CONVERT TO DELTA parquet.`{path}` PARTITIONED BY (p BIGINT)")
    assert numbers(spark, name) == [0, 1, 2, 3]
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(check, "false")
    try:
        for mode in ("allow", "forbid"):
            garbage = [path / f"p={p}" / "garbage.parquet" for p in (0, 1)]
            for file in garbage:
                file.write_bytes(b"garbage")
            spark.sql(
                f"ALTER TABLE {name} SET TBLPROPERTIES ('lakestep.foreignWriters' = '{mode}')"
            )
            flush(spark)
            spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
            assert [file for file in garbage if file.exists()] == [], mode
    finally:
        spark.conf.unset(check)
    assert numbers(spark, name) == [0, 1, 2, 3]


def test_every_command_of_ours_runs_while_something_is_cached(spark, table):
    """Spark compares each command with the cached plans, and copies it to do so."""
    name = table("beside_a_cached_one")
    spark.range(3).createOrReplaceTempView("cached")
    spark.sql("CACHE TABLE cached").collect()
    try:
        id = begin(spark)
        spark.sql("SET TRANSACTION READ WRITE").collect()
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
        assert spark.sql("SHOW TRANSACTIONS").collect()[0]["state"] == "REQUESTED"
        assert commit(spark)["tables"] == 1
        state = spark.sql(f"DESCRIBE TRANSACTION '{id}'").collect()[0]["state"]
        assert state == "COMPLETED"
        begin(spark)
        rollback(spark)
        with refused("LAKESTEP_CONFLICT_NOT_KNOWN"):
            spark.sql(f"EXPLAIN CONFLICT '{id}'").collect()
        assert spark.sql("RECOVER").collect() == []
        assert spark.sql("VACUUM TRANSACTIONS").collect()[0]["failed"] == []
        block = f"BEGIN; INSERT INTO {name} VALUES (4, 'd'); SELECT count(*) FROM {name}; COMMIT"
        assert spark.sql(block).collect()[0][0] == 4
        assert spark.table("cached").count() == 3
    finally:
        spark.sql("UNCACHE TABLE IF EXISTS cached")


@pytest.mark.parametrize(("made", "written"), [("delta", "parquet"), ("parquet", "delta")])
def test_overwriting_save_as_table_in_another_format_is_refused_before_the_table_is_dropped(
    spark, made, written
):
    name = f"{made}_to_{written}"
    spark.sql(f"CREATE TABLE {name} USING {made} AS SELECT id FROM range(2)")
    try:
        begin(spark)
        with pytest.raises(Exception, match=r"NOT_DELTA|CREATE_TABLE|NOT_A_DELTA_TABLE"):
            spark.range(9).write.format(written).mode("overwrite").saveAsTable(name)
        rollback(spark)
        assert numbers(spark, name) == [0, 1]
    finally:
        abandon(spark)
        spark.sql(f"DROP TABLE IF EXISTS {name}")
