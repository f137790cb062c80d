"""The statements of the matrix, each with one of the same kind that fails while it runs.

They run here in a transaction, and in a process without Lakestep on a copy of the table.
"""

from collections.abc import Callable
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from settings import setting

COLUMNS = "id, part, v, n"
NEW = "VALUES (21, 'a', 'new', 21), (22, 'ü =', 'new', 22)"
SOURCE = (
    "(SELECT * FROM VALUES (1, 'a', 'merged', 101), (3, 'b b', 'merged', 103), "
    "(31, 'new part', 'merged', 131) AS s(id, part, v, n))"
)


@dataclass(frozen=True)
class Target:
    """One table, as SQL names it and where it lies."""

    sql: str
    path: str


@dataclass(frozen=True)
class StatementKind:
    name: str
    run: Callable
    fail: Callable
    # The feature without which plain Delta refuses it.
    table: str = "plain"
    # Whether a query tells what it has done; if not, it is run on tables with that feature alone.
    is_seen: bool = True


def sql(text):
    return lambda session, t: session.sql(text.format(t=t.sql, path=t.path, **TEXTS)).collect()


TEXTS = {"columns": COLUMNS, "new": NEW, "source": SOURCE}
STOP = "IF(id >= 5, raise_error('stop'), v)"


def dynamic(run):
    def with_setting(session, t):
        with setting(session, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
            run(session, t)

    return with_setting


def rows(session, v="new"):
    """Two rows, one in a new partition; with `v` None the second one cannot be computed."""
    frame = session.createDataFrame(
        [(41, "a", "new", 41), (42, "p q", "new", 42)], "id INT, part STRING, v STRING, n INT"
    )
    return frame if v else frame.withColumn("v", F.expr("IF(id = 42, raise_error('stop'), v)"))


def all_columns(session, t, v="new"):
    """The rows by the position of the table's columns, with nulls for those of its feature."""
    names = session.table(t.sql).columns
    frame = rows(session, v)
    return frame.select(*[F.col(c) if c in frame.columns else F.lit(None).alias(c) for c in names])


def frame(write) -> tuple[Callable, Callable]:
    """A kind that writes a DataFrame: `write(session, target, frame)`."""
    return (
        lambda session, t: write(session, t, rows(session)),
        lambda session, t: write(session, t, rows(session, None)),
    )


def positional(write) -> tuple[Callable, Callable]:
    return (
        lambda session, t: write(session, t, all_columns(session, t)),
        lambda session, t: write(session, t, all_columns(session, t, None)),
    )


def by_name(use):
    return lambda session, t: use(DeltaTable.forName(session, t.sql), session)


def by_path(use):
    return lambda session, t: use(DeltaTable.forPath(session, t.path), session)


def api_update(table, session):
    table.update("id <= 3", {"v": "concat(v, '!')"})


def api_update_fails(table, session):
    table.update("id >= 2", {"v": STOP})


def api_delete(table, session):
    table.delete("id IN (3, 7)")


def api_delete_fails(table, session):
    table.delete("IF(id = 5, raise_error('stop'), id = 3)")


def api_merge(table, session, value="s.v"):
    (
        table.alias("t")
        .merge(rows(session).alias("s"), "t.id = s.id - 40")
        .whenMatchedUpdate("s.id = 41", {"v": value})
        .whenMatchedDelete()
        .execute()
    )


def api_merge_fails(table, session):
    api_merge(table, session, "IF(t.id = 1, raise_error('stop'), s.v)")


def api_merge_all_clauses(table, session, value="'orphan'"):
    (
        table.alias("t")
        .merge(rows(session).alias("s"), "t.id = s.id - 40")
        .withSchemaEvolution()
        .whenMatchedUpdate("s.id = 41", {"v": "s.v"})
        .whenNotMatchedInsert(values={c: f"s.{c}" for c in ("id", "part", "v", "n")})
        .whenNotMatchedBySourceUpdate("t.id = 5", {"v": value})
        .whenNotMatchedBySourceDelete("t.id > 6")
        .execute()
    )


def api_merge_evolves(table, session, value="s.more"):
    (
        table.alias("t")
        .merge(rows(session).withColumn("more", F.col("id") * 2).alias("s"), "t.id = s.id - 40")
        .withSchemaEvolution()
        .whenMatchedUpdate(set={"more": value})
        .execute()
    )


ALL_CLAUSES = (
    "MERGE INTO {t} t USING {source} s ON t.id = s.id "
    "WHEN MATCHED AND s.id = 1 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET v = s.v, n = s.n "
    "WHEN NOT MATCHED THEN INSERT ({columns}) VALUES (s.id, s.part, s.v, s.n) "
    "WHEN NOT MATCHED BY SOURCE AND t.id = 7 THEN DELETE "
    "WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN UPDATE SET v = "
)


def by_view(rows):
    """Inserts into a temporary view of the path, which Spark does by a command of its own."""

    def insert(session, t):
        session.sql(f"CREATE TEMP VIEW by_view USING delta OPTIONS (path '{t.path}')")
        try:
            session.sql(f"INSERT INTO by_view {rows}")
        finally:
            session.sql("DROP VIEW by_view")

    return insert


KINDS = {
    kind.name: kind
    for kind in (
        StatementKind(
            "insert_values",
            sql("INSERT INTO {t} ({columns}) {new}"),
            sql("INSERT INTO {t} ({columns}) SELECT id, part, " + STOP + ", n FROM {t}"),
        ),
        StatementKind(
            "insert_select",
            sql("INSERT INTO {t} ({columns}) SELECT id + 100, part, v, n FROM {t} WHERE id < 6"),
            sql("INSERT INTO {t} ({columns}) SELECT id, part, v, CAST(v AS INT) FROM {t}"),
        ),
        StatementKind(
            "insert_by_name",
            sql("INSERT INTO {t} BY NAME SELECT 23 AS id, 3 AS n, 'named' AS v, 'a' AS part"),
            sql("INSERT INTO {t} BY NAME SELECT id, part, n, " + STOP + " AS v FROM {t}"),
        ),
        StatementKind(
            "insert_into_view",
            by_view(NEW),
            by_view(f"SELECT id, part, {STOP}, n FROM by_view"),
        ),
        StatementKind(
            "insert_overwrite",
            sql("INSERT OVERWRITE {t} ({columns}) {new}"),
            sql("INSERT OVERWRITE {t} ({columns}) SELECT id, part, " + STOP + ", n FROM {t}"),
        ),
        StatementKind(
            "insert_overwrite_partition",
            sql("INSERT OVERWRITE {t} PARTITION (part = 'a') (id, v, n) VALUES (24, 'new', 24)"),
            sql(
                "INSERT OVERWRITE {t} PARTITION (part = 'a') (id, v, n) "
                "SELECT id, " + STOP + ", n FROM {t}"
            ),
            table="partitioned",
        ),
        StatementKind(
            "insert_overwrite_dynamic",
            dynamic(sql("INSERT OVERWRITE {t} ({columns}) {new}")),
            dynamic(
                sql("INSERT OVERWRITE {t} ({columns}) SELECT id, part, " + STOP + ", n FROM {t}")
            ),
            table="partitioned",
        ),
        StatementKind(
            "replace_where",
            sql("INSERT INTO {t} REPLACE WHERE id <= 2 VALUES (2, 'a', 'replaced', 2)"),
            sql("INSERT INTO {t} REPLACE WHERE id <= 2 VALUES (99, 'a', 'outside', 2)"),
        ),
        StatementKind(
            "update",
            sql("UPDATE {t} SET v = concat(v, '!'), n = n + 10 WHERE id IN (1, 4, 8)"),
            sql("UPDATE {t} SET v = " + STOP + " WHERE id > 1"),
        ),
        StatementKind(
            "update_all",
            sql("UPDATE {t} SET n = n * id"),
            sql("UPDATE {t} SET v = " + STOP),
        ),
        StatementKind(
            "delete",
            sql("DELETE FROM {t} WHERE id IN (1, 4, 8)"),
            sql("DELETE FROM {t} WHERE IF(id = 5, raise_error('stop'), id = 4)"),
        ),
        StatementKind(
            "delete_partition",
            sql("DELETE FROM {t} WHERE part = 'ç%+'"),
            sql("DELETE FROM {t} WHERE IF(n = 5, raise_error('stop'), part = 'a')"),
        ),
        StatementKind(
            "delete_all",
            sql("DELETE FROM {t}"),
            sql("DELETE FROM {t} WHERE nothing = 1"),
        ),
        StatementKind(
            "merge",
            sql(ALL_CLAUSES + "'orphan'"),
            sql(ALL_CLAUSES + "raise_error('stop')"),
        ),
        StatementKind(
            "merge_schema_evolution",
            sql(
                "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING "
                "(SELECT *, id * 2 AS extra FROM {source}) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET v = s.v, extra = s.extra "
                "WHEN NOT MATCHED THEN INSERT (id, part, v, n, extra) "
                "VALUES (s.id, s.part, s.v, s.n, s.extra)"
            ),
            sql(
                "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING "
                "(SELECT *, id * 2 AS extra FROM {source} UNION ALL SELECT *, 0 FROM {source}) s "
                "ON t.id = s.id WHEN MATCHED THEN UPDATE SET extra = s.extra"
            ),
        ),
        StatementKind(
            "add_column",
            sql("ALTER TABLE {t} ADD COLUMN (w STRING COMMENT 'späť', x STRUCT<y: INT>)"),
            sql("ALTER TABLE {t} ADD COLUMN (w STRING, v STRING)"),
        ),
        StatementKind(
            "rename_column",
            sql("ALTER TABLE {t} RENAME COLUMN n TO `n new`"),
            sql("ALTER TABLE {t} RENAME COLUMN n TO v"),
            table="column_mapping",
        ),
        StatementKind(
            "drop_column",
            sql("ALTER TABLE {t} DROP COLUMN n"),
            sql("ALTER TABLE {t} DROP COLUMNS (n, nothing)"),
            table="column_mapping",
        ),
        StatementKind(
            "set_properties",
            sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'false', 'my.key' = 'é')"),
            sql("ALTER TABLE {t} SET TBLPROPERTIES ('my.key' = 'x', 'delta.nothing' = 'x')"),
        ),
        StatementKind(
            "unset_properties",
            sql("ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('my.note', 'nothing')"),
            sql("ALTER TABLE {t} UNSET TBLPROPERTIES ('owner')"),
        ),
        StatementKind(
            "add_constraint",
            sql("ALTER TABLE {t} ADD CONSTRAINT `posi tive` CHECK (n > 0)"),
            sql("ALTER TABLE {t} ADD CONSTRAINT violated CHECK (id < 5)"),
        ),
        StatementKind(
            "drop_constraint",
            sql("ALTER TABLE {t} DROP CONSTRAINT small"),
            sql("ALTER TABLE {t} DROP CONSTRAINT nothing"),
            table="check_constraint",
        ),
        StatementKind(
            "optimize",
            sql("OPTIMIZE {t}"),
            sql("OPTIMIZE {t} WHERE nothing = 1"),
        ),
        StatementKind(
            "merge_of_a_join",
            sql(
                "MERGE INTO {t} t USING (SELECT s.id, s.part, s.v, x.n + y.n AS n FROM {source} s "
                "JOIN {t} x ON s.id = x.id LEFT JOIN delta.`{path}` y ON y.id = x.id + 1) s "
                "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v, n = s.n "
                "WHEN NOT MATCHED THEN INSERT ({columns}) VALUES (s.id, s.part, s.v, s.n)"
            ),
            sql(
                "MERGE INTO {t} t USING (SELECT x.id FROM {t} x JOIN {source} y) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET v = 'twice'"
            ),
        ),
        StatementKind(
            "replace_columns",
            sql(
                "ALTER TABLE {t} REPLACE COLUMNS "
                "(id INT, w DOUBLE, part STRING COMMENT 'é', v STRING, n INT)"
            ),
            sql("ALTER TABLE {t} REPLACE COLUMNS (id INT, part STRING, v INT, n INT)"),
        ),
        StatementKind(
            "column_comment",
            sql("ALTER TABLE {t} ALTER COLUMN v COMMENT 'späť'"),
            sql("ALTER TABLE {t} ALTER COLUMN nothing COMMENT 'x'"),
        ),
        StatementKind(
            "column_position",
            sql("ALTER TABLE {t} ALTER COLUMN n FIRST"),
            sql("ALTER TABLE {t} ALTER COLUMN n AFTER nothing"),
        ),
        StatementKind(
            "column_default",
            sql("ALTER TABLE {t} ALTER COLUMN d SET DEFAULT 4"),
            sql("ALTER TABLE {t} ALTER COLUMN d SET DEFAULT 'four'"),
            table="column_defaults",
        ),
        StatementKind(
            "column_drop_default",
            sql("ALTER TABLE {t} ALTER COLUMN d DROP DEFAULT"),
            sql("ALTER TABLE {t} ALTER COLUMN nothing DROP DEFAULT"),
            table="column_defaults",
        ),
        StatementKind(
            "column_drop_not_null",
            sql("ALTER TABLE {t} ALTER COLUMN d DROP NOT NULL"),
            sql("ALTER TABLE {t} ALTER COLUMN v SET NOT NULL"),
            table="column_defaults",
        ),
        StatementKind(
            "optimize_zorder",
            sql("OPTIMIZE {t} ZORDER BY (id, n)"),
            sql("OPTIMIZE {t} ZORDER BY (nothing)"),
        ),
        StatementKind(
            "truncate",
            sql("TRUNCATE TABLE {t}"),
            sql("TRUNCATE TABLE {t} PARTITION (nothing = 1)"),
        ),
        StatementKind(
            "comment",
            sql("COMMENT ON TABLE {t} IS 'é'"),
            sql("COMMENT ON COLUMN {t}.nothing IS 'é'"),
            is_seen=False,
        ),
        StatementKind(
            "cluster_by",
            sql("ALTER TABLE {t} CLUSTER BY (id, n)"),
            sql("ALTER TABLE {t} CLUSTER BY (nothing)"),
            is_seen=False,
        ),
        StatementKind(
            "restore",
            sql("RESTORE TABLE {t} TO VERSION AS OF 1"),
            sql("RESTORE TABLE {t} TO VERSION AS OF 999"),
        ),
        StatementKind(
            "reorg_purge",
            sql("REORG TABLE {t} APPLY (PURGE)"),
            sql("REORG TABLE {t} WHERE nothing = 1 APPLY (PURGE)"),
            table="deletion_vectors",
            is_seen=False,
        ),
        StatementKind(
            "sync_identity",
            sql("ALTER TABLE {t} ALTER COLUMN k SYNC IDENTITY"),
            sql("ALTER TABLE {t} ALTER COLUMN v SYNC IDENTITY"),
            table="column_defaults",
            is_seen=False,
        ),
        StatementKind(
            "write_replace_on",
            *frame(
                lambda s, t, f: (
                    f.alias("s")
                    .write.format("delta")
                    .mode("overwrite")
                    .option("replaceOn", "t.id = s.id - 40")
                    .option("targetAlias", "t")
                    .save(t.path)
                )
            ),
            # Without them Delta 4.4 looks for its files by a wrong name.
            table="deletion_vectors",
        ),
        StatementKind(
            "write_replace_using",
            *frame(
                lambda s, t, f: (
                    f.write.format("delta")
                    .mode("overwrite")
                    .option("replaceUsing", "part")
                    .save(t.path)
                )
            ),
            # Without them Delta 4.4 looks for its files by a wrong name.
            table="deletion_vectors",
        ),
        StatementKind(
            "write_append",
            *frame(lambda s, t, f: f.write.format("delta").mode("append").save(t.path)),
        ),
        StatementKind(
            "write_append_merge_schema",
            *frame(
                lambda s, t, f: (
                    f.withColumn("more", F.col("id") * 2)
                    .write.format("delta")
                    .mode("append")
                    .option("mergeSchema", "true")
                    .save(t.path)
                )
            ),
        ),
        StatementKind(
            "write_overwrite",
            *frame(lambda s, t, f: f.write.format("delta").mode("overwrite").save(t.path)),
        ),
        StatementKind(
            "write_replace_where",
            lambda s, t: (
                rows(s)
                .write.format("delta")
                .mode("overwrite")
                .option("replaceWhere", "id >= 5")
                .save(t.path)
            ),
            lambda s, t: (
                rows(s)
                .write.format("delta")
                .mode("overwrite")
                .option("replaceWhere", "id = 5")
                .save(t.path)
            ),
        ),
        StatementKind(
            "write_overwrite_schema",
            *frame(
                lambda s, t, f: (
                    f.select("v", F.col("id").cast("long").alias("key"))
                    .write.format("delta")
                    .mode("overwrite")
                    .option("overwriteSchema", "true")
                    .save(t.path)
                )
            ),
        ),
        StatementKind(
            "write_overwrite_partitions",
            *frame(
                lambda s, t, f: (
                    f.write.format("delta")
                    .mode("overwrite")
                    .option("partitionOverwriteMode", "dynamic")
                    .save(t.path)
                )
            ),
            table="partitioned",
        ),
        StatementKind(
            "write_once",
            *frame(
                lambda s, t, f: (
                    f.write.format("delta")
                    .mode("append")
                    .option("txnAppId", "loader")
                    .option("txnVersion", 7)
                    .option("userMetadata", "load 7")
                    .save(t.path)
                )
            ),
        ),
        StatementKind(
            "save_as_table",
            *frame(lambda s, t, f: f.write.format("delta").mode("append").saveAsTable(t.sql)),
        ),
        StatementKind(
            "save_as_table_overwrite",
            *frame(lambda s, t, f: f.write.format("delta").mode("overwrite").saveAsTable(t.sql)),
        ),
        StatementKind(
            "insert_into",
            *positional(lambda s, t, f: f.write.insertInto(t.sql)),
        ),
        StatementKind(
            "insert_into_overwrite",
            *positional(lambda s, t, f: f.write.insertInto(t.sql, overwrite=True)),
        ),
        StatementKind(
            "merge_into",
            *frame(
                lambda s, t, f: (
                    f.select(F.col("id").alias("key"), "part", F.col("v").alias("w"))
                    .mergeInto(t.sql, F.expr("id = key - 40"))
                    .whenMatched(F.expr("key = 41"))
                    .update({"v": F.expr("w")})
                    .whenMatched()
                    .delete()
                    .merge()
                )
            ),
        ),
        StatementKind(
            "write_to_append",
            *frame(lambda s, t, f: f.writeTo(t.sql).append()),
        ),
        StatementKind(
            "write_to_overwrite",
            *frame(lambda s, t, f: f.writeTo(t.sql).overwrite(F.col("id") > 4)),
        ),
        StatementKind(
            "write_to_overwrite_partitions",
            *frame(lambda s, t, f: f.writeTo(t.sql).overwritePartitions()),
            table="partitioned",
        ),
        StatementKind("for_name_update", by_name(api_update), by_name(api_update_fails)),
        StatementKind("for_name_delete", by_name(api_delete), by_name(api_delete_fails)),
        StatementKind("for_name_merge", by_name(api_merge), by_name(api_merge_fails)),
        StatementKind("for_path_update", by_path(api_update), by_path(api_update_fails)),
        StatementKind("for_path_delete", by_path(api_delete), by_path(api_delete_fails)),
        StatementKind("for_path_merge", by_path(api_merge), by_path(api_merge_fails)),
        StatementKind(
            "for_name_merge_all_clauses",
            by_name(api_merge_all_clauses),
            by_name(lambda table, s: api_merge_all_clauses(table, s, "raise_error('stop')")),
        ),
        StatementKind(
            "for_path_merge_evolves",
            by_path(api_merge_evolves),
            by_path(lambda table, s: api_merge_evolves(table, s, "raise_error('stop')")),
        ),
        StatementKind(
            "for_name_compaction",
            by_name(lambda table, s: table.optimize().executeCompaction()),
            by_name(lambda table, s: table.optimize().where("nothing = 1").executeCompaction()),
        ),
        StatementKind(
            "for_path_zorder",
            by_path(lambda table, s: table.optimize().executeZOrderBy("id", "n")),
            by_path(lambda table, s: table.optimize().executeZOrderBy("nothing")),
        ),
        StatementKind(
            "for_name_restore",
            by_name(lambda table, s: table.restoreToVersion(1)),
            by_name(lambda table, s: table.restoreToVersion(999)),
        ),
        StatementKind(
            "for_path_restore",
            by_path(lambda table, s: table.restoreToVersion(1)),
            by_path(lambda table, s: table.restoreToVersion(999)),
        ),
        StatementKind(
            "for_name_add_feature",
            by_name(lambda table, s: table.addFeatureSupport("domainMetadata")),
            by_name(lambda table, s: table.addFeatureSupport("nothing")),
            is_seen=False,
        ),
        StatementKind(
            "for_path_upgrade_protocol",
            by_path(lambda table, s: table.upgradeTableProtocol(1, 4)),
            by_path(lambda table, s: table.upgradeTableProtocol(1, 99)),
            is_seen=False,
        ),
    )
}

# What a transaction does before a statement of the matrix fails: kept when that is cut off.
BEFORE = {
    "data": sql("INSERT INTO {t} ({columns}) VALUES (11, 'a', 'before', 11)"),
    "metadata": sql("ALTER TABLE {t} SET TBLPROPERTIES ('before' = 'yes')"),
}


def run(session, statement, target):
    """Runs a statement given by its name here, or as SQL text with `{t}` for the table."""
    if statement in KINDS:
        KINDS[statement].run(session, target)
    else:
        BEFORE.get(statement, sql(statement))(session, target)
