"""What cannot be part of a transaction is refused before it does anything."""

import json
from pathlib import Path

import pytest
from delta.tables import DeltaTable

import files_on_disk
import statement_kinds
from arena import head
from transactions import begin, commit, condition_of, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]


def test_delta_s_second_connector_is_refused_before_it_acts(spark, arena):
    target = arena.table("plain")
    files = files_on_disk.prints(target.path)
    with statement_kinds.setting(spark, "spark.databricks.delta.v2.enableMode", "STRICT"):
        begin(spark)
        for statement in ("SELECT * FROM {t}", statement_kinds.BEFORE["data"], "DELETE FROM {t}"):
            with refused("LAKESTEP_UNSUPPORTED_IN_TRANSACTION.KERNEL_CONNECTOR", "0A000"):
                if callable(statement):
                    statement(spark, target)
                else:
                    spark.sql(statement.format(t=target.sql)).collect()
        assert commit(spark)["entry"] is None
    assert files_on_disk.prints(target.path) == files


def test_a_view_through_which_plain_delta_loses_rows_takes_none(spark, arena):
    target = arena.table("partitioned")
    rows = spark.sql(f"SELECT * FROM {target.sql}").count()
    begin(spark)
    with refused("LAKESTEP_UNSUPPORTED_IN_TRANSACTION.NOT_DELTA", "0A000"):
        statement_kinds.run(spark, "insert_into_view", target)
    assert commit(spark)["entry"] is None
    statement_kinds.run(spark, "insert_into_view", target)
    assert spark.sql(f"SELECT * FROM {target.sql}").count() == rows


def with_property(path, key, value):
    """The next version of a table, written by hand: a client with other JARs than ours."""
    log = Path(path, "_delta_log")
    lines = [
        json.loads(line)
        for version in range(head(path) + 1)
        for line in (log / f"{version:020d}.json").read_text().splitlines()
    ]
    metadata = [line["metaData"] for line in lines if "metaData" in line][-1]
    metadata["configuration"][key] = value
    (log / f"{head(path) + 1:020d}.json").write_text(json.dumps({"metaData": metadata}) + "\n")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("delta.universalFormat.enabledFormats", "hudi", "UNIFORM"),
        ("delta.universalFormat.enabledFormats", "iceberg", "UNIFORM"),
        ("delta.compatibility.symlinkFormatManifest.enabled", "true", "SYMLINK_MANIFEST"),
    ],
)
@pytest.mark.parametrize("statement", ["insert_values", "for_path_update", "set_properties"])
def test_tables_that_show_changes_elsewhere_are_read_but_not_written(
    spark, arena, key, value, reason, statement
):
    target = arena.table("plain")
    with_property(target.path, key, value)
    files = files_on_disk.prints(target.path)
    begin(spark)
    assert spark.table(target.sql).count() == 8
    with refused(f"LAKESTEP_UNSUPPORTED_TABLE.{reason}", "0A000"):
        statement_kinds.run(spark, statement, target)
    assert files_on_disk.prints(target.path) == files
    rollback(spark)


@pytest.mark.parametrize(
    "setting",
    [
        "'delta.compatibility.symlinkFormatManifest.enabled' = 'true'",
        "'delta.universalFormat.enabledFormats' = 'hudi'",
        "'delta.universalFormat.enabledFormats' = 'iceberg'",
    ],
)
def test_property_that_would_show_changes_elsewhere_is_refused(spark, arena, setting):
    target = arena.table("plain")
    files = files_on_disk.prints(target.path)
    begin(spark)
    with refused("LAKESTEP_UNSUPPORTED_IN_TRANSACTION.TABLE_FEATURE", "0A000"):
        spark.sql(f"ALTER TABLE {target.sql} SET TBLPROPERTIES ({setting})")
    assert files_on_disk.prints(target.path) == files


OVERLAY = "lakestep://3.t0123456789abcdef0123456789abcdef/file/_{path}"


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
def test_path_with_our_scheme_typed_by_a_user_is_refused(spark, arena, inside):
    target = arena.table("plain")
    if inside:
        begin(spark)
    overlay = OVERLAY.format(path=target.path)
    frame = spark.range(1).selectExpr("CAST(id AS INT) AS id", "'a' AS part", "'v' AS v", "1 AS n")
    actions = {
        "select": lambda: spark.sql(f"SELECT * FROM delta.`{overlay}`").collect(),
        "upper case": lambda: spark.sql(
            f"SELECT * FROM delta.`{overlay.replace('lakestep', 'LakeStep')}`"
        ).collect(),
        "insert": lambda: spark.sql(f"INSERT INTO delta.`{overlay}` VALUES (1, 'a', 'v', 1)"),
        "delete": lambda: spark.sql(f"DELETE FROM delta.`{overlay}`"),
        "alter": lambda: spark.sql(f"ALTER TABLE delta.`{overlay}` ADD COLUMN w INT"),
        "optimize": lambda: spark.sql(f"OPTIMIZE delta.`{overlay}`"),
        "detail": lambda: spark.sql(f"DESCRIBE DETAIL delta.`{overlay}`").collect(),
        "history": lambda: spark.sql(f"DESCRIBE HISTORY '{overlay}'").collect(),
        "load": lambda: spark.read.format("delta").load(overlay).collect(),
        "path option": lambda: spark.read.format("delta").option("path", overlay).load().collect(),
        "parquet": lambda: spark.read.parquet(overlay).collect(),
        "files": lambda: spark.sql(f"SELECT * FROM json.`{overlay}/_delta_log/*.json`").collect(),
        "save": lambda: frame.write.format("delta").mode("append").save(overlay),
        "save parquet": lambda: frame.write.mode("append").parquet(overlay),
        "for path": lambda: DeltaTable.forPath(spark, overlay).toDF().collect(),
    }
    accepted = {}
    for name, action in actions.items():
        try:
            action()
            accepted[name] = "done"
        except Exception as failure:
            condition = condition_of(failure)
            if condition not in ("LAKESTEP_OVERLAY_PATH", "LAKESTEP_OVERLAY_PATH_INVALID"):
                accepted[name] = f"{condition}: {failure}"[:300]
    assert accepted == {}
    if inside:
        rollback(spark)
    assert spark.table(target.sql).count() == 8


def test_commit_and_rollback_without_begin_and_begin_twice_are_refused(spark):
    for statement in ("COMMIT", "ROLLBACK"):
        with refused("LAKESTEP_NO_ACTIVE_TRANSACTION", "25P01"):
            spark.sql(statement)
    begin(spark)
    with refused("LAKESTEP_TRANSACTION_ALREADY_ACTIVE", "25001"):
        spark.sql("BEGIN")
    rollback(spark)


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("SELECT * FROM missing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("INSERT INTO missing VALUES (1)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("UPDATE missing SET x = 1", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM delta.`/missing/table`", "PATH_NOT_FOUND"),
        ("ALTER TABLE missing ADD COLUMN x INT", "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)
def test_unknown_table_is_spark_s_error_and_the_transaction_goes_on(
    spark, arena, statement, condition
):
    target = arena.table("plain")
    begin(spark)
    spark.sql(f"DELETE FROM {target.sql} WHERE id = 1")
    with refused(condition):
        spark.sql(statement).collect()
    commit(spark)
    assert spark.table(target.sql).count() == 7


def test_other_formats_and_vacuum_are_refused_before_they_act(spark, arena, tmp_path):
    target = arena.table("plain")
    spark.sql("CREATE TABLE in_parquet (id INT) USING parquet")
    frame = spark.table(target.sql)
    begin(spark)
    inside = spark.table(target.sql)
    unsupported = "LAKESTEP_UNSUPPORTED_IN_TRANSACTION."
    attempts = {
        "CREATE_TABLE": [lambda: spark.sql("CREATE TABLE fresh LIKE in_parquet")],
        "RENAME": [lambda: spark.sql("ALTER TABLE in_parquet RENAME TO elsewhere")],
        "CLONE": [lambda: spark.sql("CREATE TABLE fresh SHALLOW CLONE in_parquet")],
        "NOT_DELTA": [
            lambda: spark.sql("INSERT INTO in_parquet VALUES (1)"),
            lambda: inside.write.parquet(str(tmp_path / "files")),
            lambda: spark.sql("CREATE TABLE fresh (id INT) USING parquet"),
            lambda: spark.sql(f"CREATE TABLE fresh USING parquet AS SELECT * FROM {target.sql}"),
            lambda: inside.write.format("parquet").saveAsTable("fresh"),
            lambda: spark.sql("DROP TABLE in_parquet"),
            lambda: spark.sql("ALTER TABLE in_parquet SET TBLPROPERTIES ('a' = 'b')"),
        ],
        "VACUUM": [
            lambda: spark.sql(f"VACUUM {target.sql}"),
            lambda: DeltaTable.forPath(spark, target.path).vacuum(),
        ],
    }
    wrong: list[tuple] = []
    files = files_on_disk.prints(target.path)
    for reason, actions in attempts.items():
        for number, action in enumerate(actions):
            try:
                action()
                wrong.append((reason, number, "done"))
            except Exception as failure:
                if not (condition_of(failure) or "").startswith(unsupported + reason):
                    wrong.append((reason, number, condition_of(failure), str(failure)[:200]))
    assert wrong == []
    assert files_on_disk.prints(target.path) == files
    assert list(tmp_path.iterdir()) == []
    rollback(spark)
    assert not spark.catalog.tableExists("fresh")
    assert frame.count() == 8


def test_calls_of_the_catalog_itself_are_the_transaction_s(spark, table):
    name = table("called")
    names = spark._jvm.org.apache.spark.sql.connector.catalog.Identifier
    default = spark._sc._gateway.new_array(spark._jvm.String, 1)
    default[0] = "default"
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog("spark_catalog")
    begin(spark)
    catalog.dropTable(names.of(default, name))
    assert not spark.catalog.tableExists(name)
    rollback(spark)
    assert spark.table(name).count() == 2


def test_delta_transaction_on_an_overlay_that_is_no_statement_is_refused(spark, table):
    name = table("overlaid")
    begin(spark)
    scan = spark.table(name)._jdf.queryExecution().analyzed().collectLeaves().head()
    overlay = scan.relation().location().path().toString()
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, overlay)
    nothing = spark._jvm.scala.Option.empty()
    with refused("LAKESTEP_OVERLAY_PATH"):
        log.startTransaction(nothing, nothing)
    rollback(spark)
