"""Tables that only transactions write (`lakestep.foreignWriters` = forbid)."""

import threading
from pathlib import Path

import deltalake
import duckdb
import duckdb_extension_delta
import pytest
from delta.tables import DeltaTable

import lakestep
import statement_kinds
import table_kinds
import table_state
from arena import head, read_by_delta_rs
from lake import FEATURE, Lake, append, header, is_fenced, rewrite
from process import CallFailed
from settings import setting
from transactions import begin, commit, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced,
]

CLOSE = "ALTER TABLE {} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')"
OPEN = "ALTER TABLE {} UNSET TBLPROPERTIES ('lakestep.foreignWriters')"


def closed(spark, arena, kind="plain"):
    table = arena.table(kind)
    spark.sql(CLOSE.format(table.sql))
    return table


def is_closed(path):
    """The property and the writer feature: always both, or none of them."""
    found = header(path)
    fenced = is_fenced(path)
    assert fenced == (found["properties"].get("lakestep.foreignWriters") == "forbid")
    return fenced


def duckdb_delta():
    folder = Path(duckdb_extension_delta.__file__).parent
    return next(folder.rglob("delta.duckdb_extension"))


def rows(spark, table):
    return table_state.shown(spark.sql(f"SELECT id, v FROM {table.sql}"))


def test_writers_without_lakestep_are_refused_and_readers_go_on(spark, plain, arena):
    table = closed(spark, arena)
    before = rows(spark, table)
    version = head(table.path)
    for write in (
        lambda: append(table.path, (100, "foreign")),
        lambda: deltalake.DeltaTable(table.path).delete("id = 1"),
        lambda: deltalake.DeltaTable(table.path).optimize.compact(),
        lambda: rewrite(table.path, 1),
    ):
        with pytest.raises(deltalake.exceptions.DeltaError, match=FEATURE):
            write()
    for statement in (
        "INSERT INTO {} VALUES (100, 'a', 'foreign', 1)",
        "UPDATE {} SET v = 'foreign'",
        "OPTIMIZE {}",
        "VACUUM {}",
        "RESTORE TABLE {} TO VERSION AS OF 0",
        "ALTER TABLE {} ADD COLUMN x INT",
        OPEN,
    ):
        with pytest.raises(CallFailed, match=f"UNSUPPORTED_FEATURES_FOR_WRITE.*{FEATURE}"):
            plain.ask("sql", text=statement.format(f"delta.`{table.path}`"))
    assert head(table.path) == version
    assert plain.ask("sql", text=f"SELECT id, v FROM delta.`{table.path}`") == before
    assert len(read_by_delta_rs(table.path)) == len(before)
    with duckdb.connect(config={"allow_unsigned_extensions": True}) as reader:
        reader.load_extension(str(duckdb_delta()))
        [[count]] = reader.execute(f"SELECT count(*) FROM delta_scan('{table.path}')").fetchall()
    assert count == len(before)


SHORT = {"insert_values", "merge", "write_append", "optimize", "add_column"}
# They begin their Delta transaction by themselves, where no plan of Spark can be run anew.
REFUSED_OUTSIDE = {"for_name_merge", "for_path_merge"}
STATEMENTS = [
    pytest.param(s, id=s.name, marks=() if s.name in SHORT else pytest.mark.long)
    for s in statement_kinds.KINDS.values()
]


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_does_on_a_closed_table_what_it_does_on_an_open_one(
    spark, arena, statement, inside
):
    expected = arena.expected(statement.table, statement.name)
    table = closed(spark, arena, statement.table)
    if inside:
        begin(spark)
    elif statement.name in REFUSED_OUTSIDE:
        before = rows(spark, table)
        with pytest.raises(lakestep.ConfigurationError, match="TABLE_FORBIDS_FOREIGN_WRITERS"):
            statement_kinds.run(spark, statement.name, table)
        assert rows(spark, table) == before
        return
    statement_kinds.run(spark, statement.name, table)
    if inside:
        commit(spark)
    assert is_closed(table.path)
    found = table_state.shown(spark.sql(f"SELECT * FROM {table.sql}"))
    assert found == expected.result()["view"]["rows"]
    later = {"id": "500", "part": "'a'", "v": "'later'", "n": "5"}
    columns = [name for name in later if name in spark.table(table.sql).columns]
    values = ", ".join(later[name] for name in columns)
    spark.sql(f"INSERT INTO {table.sql} ({', '.join(columns)}) VALUES ({values})")
    spark.sql(OPEN.format(table.sql))
    assert not is_closed(table.path)


@pytest.mark.parametrize(
    "kind",
    [
        "plain",
        "many_features",
        *(
            pytest.param(kind, marks=pytest.mark.long)
            for kind in table_kinds.KINDS
            if kind not in ("plain", "many_features")
        ),
    ],
)
def test_protocol_and_properties_are_as_before_once_the_table_is_open_again(spark, arena, kind):
    table = arena.table(kind)
    before = header(table.path)
    spark.sql(CLOSE.format(table.sql))
    assert is_closed(table.path)
    with lakestep.transaction(spark):
        spark.sql(f"UPDATE {table.sql} SET v = 'ours' WHERE id = 1")
    with lakestep.transaction(spark):
        spark.sql(f"DELETE FROM {table.sql} WHERE id = 3")
    assert is_closed(table.path)
    spark.sql(OPEN.format(table.sql))
    assert header(table.path) == before
    if table_kinds.KINDS[kind].delta_rs_reads:
        assert len(read_by_delta_rs(table.path)) == len(rows(spark, table))


def test_no_statement_but_the_property_opens_a_table(spark, arena):
    table = closed(spark, arena)
    with lakestep.transaction(spark):
        spark.sql(f"ALTER TABLE {table.sql} ADD COLUMN x INT")
        spark.sql(
            f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        spark.sql(f"DELETE FROM {table.sql} WHERE id = 1")
    assert is_closed(table.path)
    spark.sql(f"RESTORE TABLE {table.sql} TO VERSION AS OF 1")
    assert is_closed(table.path)
    spark.sql(f"ALTER TABLE {table.sql} UNSET TBLPROPERTIES ('lakestep.protocolBefore')")
    assert is_closed(table.path)
    restore_and_change(spark, table, 1)
    assert is_closed(table.path)
    spark.sql(OPEN.format(table.sql))
    assert not is_closed(table.path)
    restore_and_change(spark, table, head(table.path) - 1)
    assert not is_closed(table.path)


def restore_and_change(spark, table, version):
    """Bring back the properties of a version, and change others in the same transaction."""
    with lakestep.transaction(spark):
        spark.sql(f"RESTORE TABLE {table.sql} TO VERSION AS OF {version}")
        spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('my.note' = 'v{version}')")


def test_statement_outside_names_variables_as_on_an_open_table(spark, arena):
    table, source = closed(spark, arena), arena.table("plain")
    for name, value in {
        "whole": "named_struct('part', 1)",
        "one": "1",
        "target": f"'{table.sql}'",
    }.items():
        spark.sql(f"DECLARE OR REPLACE VARIABLE {name} = {value}")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW ones AS SELECT * FROM {source.sql} WHERE id = one")
    spark.sql(f"UPDATE {table.sql} SET v = 'by field' WHERE id = whole.part")
    spark.sql(f"INSERT INTO {table.sql} SELECT id + 100, part, 'by view', n FROM ones")
    spark.sql("INSERT INTO IDENTIFIER(target) VALUES (102, 'a', 'by name', 2)")
    found = {(row.id, row.v) for row in spark.sql(f"SELECT id, v FROM {table.sql}").collect()}
    assert {(1, "by field"), (101, "by view"), (102, "by name")} <= found


def test_statement_that_only_reads_a_closed_table_is_no_transaction(spark, arena):
    source, target = closed(spark, arena), arena.table("plain")
    spark.sql(f"INSERT INTO {target.sql} SELECT id + 100, part, v, n FROM {source.sql}")
    spark.sql(
        f"MERGE INTO {target.sql} t USING {source.sql} s ON t.id = s.id WHEN MATCHED THEN DELETE"
    )
    spark.table(source.sql).write.format("delta").mode("append").save(target.path)
    spark.table(source.sql).write.insertInto(target.sql)
    assert len(rows(spark, target)) == 3 * len(rows(spark, source))
    assert not Path(target.path, "_delta_log", "_lakestep", "timeline.json").exists()


def test_transaction_that_runs_while_a_table_is_closed_or_opened_conflicts(spark, arena):
    table, other = arena.table("plain"), spark.newSession()
    for change in (CLOSE, OPEN):
        begin(spark)
        spark.sql(f"INSERT INTO {table.sql} VALUES (100, 'a', 'during', 1)")
        other.sql(change.format(table.sql))
        with refused("LAKESTEP_CONFLICT", "40001"):
            commit(spark)
        rollback(spark)
        assert is_closed(table.path) == (change == CLOSE)
    assert not any("during" in row for row in rows(spark, table))


def test_closing_is_part_of_its_transaction(spark, arena):
    tables = [arena.table("plain") for _ in range(2)]
    begin(spark)
    for table in tables:
        spark.sql(CLOSE.format(table.sql))
        spark.sql(f"DELETE FROM {table.sql} WHERE id = 1")
    rollback(spark)
    assert not any(is_closed(table.path) for table in tables)
    with lakestep.transaction(spark):
        for table in tables:
            spark.sql(CLOSE.format(table.sql))
            spark.sql(f"DELETE FROM {table.sql} WHERE id = 1")
    assert all(is_closed(table.path) for table in tables)


def test_vacuum_deletes_what_no_version_within_the_retention_needs(spark, arena):
    table = closed(spark, arena)
    spark.sql(f"UPDATE {table.sql} SET v = 'new'")
    before = rows(spark, table)
    files = set(Path(table.path).glob("*.parquet"))
    vacuum = f"VACUUM {table.sql} RETAIN 0 HOURS"
    spark.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")
    with setting(spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        named = {row.path for row in spark.sql(f"{vacuum} DRY RUN").collect()}
        assert {Path(path.removeprefix("file:")) for path in named} <= files
        assert set(Path(table.path).glob("*.parquet")) == files
        spark.sql(vacuum)
    left = set(Path(table.path).glob("*.parquet"))
    assert len(files - left) == len(named) > 0
    assert rows(spark, table) == before
    begin(spark)
    with refused("LAKESTEP_UNSUPPORTED_IN_TRANSACTION.VACUUM", "0A000"):
        spark.sql(vacuum)
    rollback(spark)


def test_programs_write_a_closed_table_like_any_other(spark, arena):
    table = closed(spark, arena)
    frame = spark.sql("SELECT 200 AS id, 'a' AS part, 'frame' AS v, 1 AS n")
    frame.write.format("delta").mode("append").save(table.path)
    frame.write.format("delta").mode("append").saveAsTable(table.sql)
    frame.writeTo(table.sql).append()
    target = DeltaTable.forPath(spark, table.path)
    target.update("id = 200", {"v": "'updated'"})
    target.optimize().executeCompaction()
    spark.sql(f"CREATE TEMPORARY VIEW by_view USING delta OPTIONS (path '{table.path}')")
    spark.sql("INSERT INTO by_view VALUES (201, 'a', 'view', 1)")
    assert any("201" in row for row in rows(spark, table))
    spark.catalog.dropTempView("by_view")
    target.addFeatureSupport("domainMetadata")
    assert "domainMetadata" in spark.sql(f"DESCRIBE DETAIL {table.sql}").first()["tableFeatures"]
    # Delta runs it past every plan, so it can be no statement by itself.
    with refused("LAKESTEP_TABLE_FORBIDS_FOREIGN_WRITERS", "55000"):
        merge(target, frame)
    with lakestep.transaction(spark):
        merge(DeltaTable.forPath(spark, table.path), frame)
    assert is_closed(table.path)
    assert not any("200" in row for row in rows(spark, table))


def test_frame_of_another_table_is_written_into_a_closed_one(spark, arena):
    table, source = closed(spark, arena), arena.table("plain")
    frame = spark.table(source.sql)
    before = len(rows(spark, table))
    frame.write.format("delta").mode("append").save(table.path)
    frame.write.format("delta").mode("append").saveAsTable(table.sql)
    frame.writeTo(table.sql).append()
    frame.write.insertInto(table.sql)
    assert len(rows(spark, table)) == before + 4 * frame.count()
    frame.where("id = 1").write.format("delta").mode("overwrite").save(table.path)
    assert rows(spark, table) == table_state.shown(frame.where("id = 1").select("id", "v"))


def merge(target, source):
    target.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedDelete().execute()


def insert_aside(spark, table):
    """Insert on a thread of its own; `joined` waits for it."""
    spark.aside = threading.Thread(target=spark.sql, args=[f"INSERT INTO {table} VALUES (3, 'x')"])
    spark.aside.start()


def joined(spark):
    spark.aside.join()


def test_other_threads_of_the_session_are_not_part_of_the_transaction(drivers, tmp_path):
    lake = Lake(tmp_path, 2)
    shut, other = (f"delta.`{path}`" for path in lake.tables)
    [driver] = drivers(1)
    session = driver.session(lake.root)
    session.sql(CLOSE.format(shut), "DECLARE VARIABLE three = 3")
    with driver.halts("beforeOrder:1") as halts:
        session.call("test_closed_tables:insert_aside", table=shut)
        assert halts.reached() == "beforeOrder:1"
        session.sql(f"INSERT INTO {other} VALUES (3, 'at once')")
        assert (3, "at once") in lake.rows(lake.tables[1])
        assert len(lake.rows(lake.tables[0])) == 2
        halts.go()
        session.call("test_closed_tables:joined")
    assert (3, "x") in lake.rows(lake.tables[0])
    session.sql(f"UPDATE {shut} SET v = 'variable' WHERE id = three")
    assert (3, "variable") in lake.rows(lake.tables[0])


def test_stream_into_a_closed_table_is_refused(spark, arena, tmp_path):
    source, table = arena.table("plain"), closed(spark, arena)
    version = head(table.path)
    query = (
        spark.readStream.table(source.sql)
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start(table.path)
    )
    with pytest.raises(Exception, match="LAKESTEP_TABLE_FORBIDS_FOREIGN_WRITERS"):
        query.awaitTermination()
    assert head(table.path) == version


def test_new_table_cannot_be_closed_and_a_mode_that_there_is_not_is_refused(spark, arena, tmp_path):
    with refused("LAKESTEP_FOREIGN_WRITERS_OF_NEW_TABLE", "0A000"):
        spark.sql(
            f"CREATE TABLE delta.`{tmp_path}/new` (id INT) USING delta "
            "TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')"
        )
    with refused("LAKESTEP_FOREIGN_WRITERS_INVALID", "22023"):
        spark.sql(
            f"CREATE TABLE delta.`{tmp_path}/other` (id INT) USING delta "
            "TBLPROPERTIES ('lakestep.foreignWriters' = 'reserved')"
        )
    table = arena.table("plain")
    with refused("LAKESTEP_FOREIGN_WRITERS_INVALID", "22023"):
        spark.sql(CLOSE.format(table.sql).replace("forbid", "forbidden"))
    assert not is_closed(table.path)
