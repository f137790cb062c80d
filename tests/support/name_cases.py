"""Statements that change names, and what a schema looks like; `{s}` is the schema."""

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from name_steps import names
from transactions import abandon, begin, commit, rollback


@dataclass
class Names:
    """One kind of statement.

    Attributes:
        steps: SQL, or functions of a session and a schema.
        setup: What there is before.
        drops: Schemas beside `{s}` that it makes.
        plain: What has the same effect without Lakestep, where its own statements are among the
            steps.
    """

    steps: list
    setup: list = field(default_factory=list)
    drops: tuple = ()
    plain: list | None = None

    @property
    def without(self):
        """The steps of somebody without a transaction."""
        return self.steps if self.plain is None else self.plain


T = "CREATE TABLE {s}.t (id INT, v STRING) USING delta"
ROWS = "INSERT INTO {s}.t VALUES (1, 'a'), (2, 'b')"
TABLE = [T, ROWS]
VIEW = [*TABLE, "CREATE VIEW {s}.w AS SELECT id FROM {s}.t"]


def built(make):
    """A step that a DeltaTable builder makes."""

    def step(spark, schema):
        from delta.tables import DeltaTable

        make(DeltaTable, spark).tableName(f"{schema}.t").addColumn("id", "INT").execute()

    return step


CASES = {
    "create": Names([T, ROWS]),
    "create empty": Names([T]),
    "create if not exists": Names(["CREATE TABLE IF NOT EXISTS {s}.t (x INT) USING delta"], TABLE),
    "create with all": Names(
        [
            "CREATE TABLE {s}.t (id BIGINT GENERATED ALWAYS AS IDENTITY, d DATE,"
            " y INT GENERATED ALWAYS AS (year(d)), v STRING COMMENT 'a value')"
            " USING delta PARTITIONED BY (y) COMMENT 'a table'"
            " TBLPROPERTIES ('delta.appendOnly' = 'true', 'mine' = 'yes')",
            "INSERT INTO {s}.t (d, v) VALUES (DATE'2024-01-02', 'a')",
        ]
    ),
    "create clustered": Names(
        ["CREATE TABLE {s}.t (id INT, v STRING) USING delta CLUSTER BY (id)", ROWS]
    ),
    "create external": Names(
        ["CREATE TABLE {s}.t (id INT, v STRING) USING delta LOCATION '{folder}/{s}/t'", ROWS]
    ),
    "name what is there": Names(
        [
            "CREATE TABLE {s}.u USING delta LOCATION '{folder}/{s}/t'",
            "DELETE FROM {s}.u WHERE id=1",
        ],
        [
            "CREATE TABLE {s}.t (id INT, v STRING) USING delta LOCATION '{folder}/{s}/t'",
            ROWS,
            "DROP TABLE {s}.t",
        ],
    ),
    "set location": Names(
        [
            "INSERT INTO {s}.t VALUES (3, 'c')",
            "ALTER TABLE {s}.t SET LOCATION '{folder}/{s}/u'",
            "DELETE FROM {s}.t WHERE id = 1",
        ],
        [
            "CREATE TABLE {s}.t (id INT, v STRING) USING delta LOCATION '{folder}/{s}/t'",
            ROWS,
            "CREATE TABLE {s}.u (id INT, v STRING) USING delta LOCATION '{folder}/{s}/u'",
            "INSERT INTO {s}.u VALUES (1, 'x'), (9, 'y')",
        ],
    ),
    "create as select": Names(["CREATE TABLE {s}.t USING delta AS SELECT 1 AS id, 'a' AS v"]),
    "create like": Names(
        [
            "CREATE TABLE {s}.a LIKE {s}.t",
            "INSERT INTO {s}.a SELECT * FROM {s}.t",
            "CREATE TABLE {s}.b LIKE {s}.a LOCATION '{folder}/{s}/b' TBLPROPERTIES ('more' = '1')",
            "CREATE TABLE IF NOT EXISTS {s}.b LIKE {s}.t",
            "CREATE TABLE {s}.c LIKE {s}.w USING delta",
        ],
        [
            "CREATE TABLE {s}.t (id INT COMMENT 'c', v STRING) USING delta PARTITIONED BY (v)"
            " COMMENT 'like me' TBLPROPERTIES ('mine' = 'yes')",
            ROWS,
            VIEW[2],
        ],
    ),
    "clone": Names(
        [
            "INSERT INTO {s}.t VALUES (3, 'c')",
            "CREATE TABLE {s}.a SHALLOW CLONE {s}.t",
            "DELETE FROM {s}.a WHERE id = 1",
            "INSERT INTO {s}.t VALUES (4, 'd')",
            "CREATE TABLE {s}.b SHALLOW CLONE {s}.t LOCATION '{folder}/{s}/b'",
            "CREATE TABLE IF NOT EXISTS {s}.b SHALLOW CLONE {s}.t",
            "CREATE OR REPLACE TABLE {s}.c SHALLOW CLONE {s}.t TBLPROPERTIES ('mine' = 'yes')",
            "CREATE OR REPLACE TABLE {s}.e SHALLOW CLONE {s}.t",
        ],
        [*TABLE, "DELETE FROM {s}.t WHERE id = 2", "CREATE TABLE {s}.e (n INT) USING delta"],
    ),
    "create or replace, new": Names(
        ["CREATE OR REPLACE TABLE {s}.t USING delta AS SELECT 1 AS id"]
    ),
    "create or replace as select": Names(
        ["CREATE OR REPLACE TABLE {s}.t USING delta AS SELECT 7 AS other"], TABLE
    ),
    "replace": Names(
        ["REPLACE TABLE {s}.t (z INT) USING delta", "INSERT INTO {s}.t VALUES (5)"], TABLE
    ),
    "replace as select": Names(["REPLACE TABLE {s}.t USING delta AS SELECT 'x' AS z"], TABLE),
    "drop": Names(["DROP TABLE {s}.t"], TABLE),
    "drop purge": Names(["DROP TABLE {s}.t PURGE"], TABLE),
    "drop if exists": Names(["DROP TABLE IF EXISTS {s}.t", "DROP TABLE IF EXISTS {s}.u"], TABLE),
    "drop and create": Names(
        ["DROP TABLE {s}.t", "CREATE TABLE {s}.t USING delta AS SELECT 9 AS nine"], TABLE
    ),
    "create and drop": Names(
        [T, ROWS, "CREATE TABLE {s}.u USING delta AS SELECT * FROM {s}.t", "DROP TABLE {s}.t"]
    ),
    "undrop": Names(
        ["UNDROP TABLE {s}.t", "INSERT INTO {s}.t VALUES (3, 'c')"],
        [*TABLE, "BEGIN", "DROP TABLE {s}.t", "COMMIT"],
    ),
    "drop, create and undrop": Names(
        [
            "DELETE FROM {s}.t WHERE id = 1",
            "DROP TABLE {s}.t",
            "CREATE TABLE {s}.t USING delta AS SELECT 9 AS nine",
            "ALTER TABLE {s}.t RENAME TO {s}.u",
            "UNDROP TABLE {s}.t",
        ],
        TABLE,
        plain=[
            "DELETE FROM {s}.t WHERE id = 1",
            "CREATE TABLE {s}.u USING delta AS SELECT 9 AS nine",
        ],
    ),
    "drop and undrop": Names(["DROP TABLE {s}.t", "UNDROP TABLE {s}.t"], TABLE, plain=[]),
    "rename": Names(
        ["INSERT INTO {s}.t VALUES (3, 'c')", "ALTER TABLE {s}.t RENAME TO {s}.u"], TABLE
    ),
    "swap": Names(
        [
            "ALTER TABLE {s}.t RENAME TO {s}.old",
            "ALTER TABLE {s}.u RENAME TO {s}.t",
            "ALTER TABLE {s}.old RENAME TO {s}.u",
        ],
        [*TABLE, "CREATE TABLE {s}.u USING delta AS SELECT 8 AS eight"],
    ),
    "alter": Names(
        [
            "ALTER TABLE {s}.t ADD COLUMN more DOUBLE",
            "ALTER TABLE {s}.t SET TBLPROPERTIES ('mine' = 'yes')",
            "COMMENT ON TABLE {s}.t IS 'a table'",
            "TRUNCATE TABLE {s}.t",
        ],
        TABLE,
    ),
    "create view": Names(VIEW[2:], TABLE),
    "replace view": Names(
        ["CREATE OR REPLACE VIEW {s}.w (n COMMENT 'a column') AS SELECT v FROM {s}.t"], VIEW
    ),
    "alter view": Names(
        [
            "ALTER VIEW {s}.w AS SELECT id + 1 AS next FROM {s}.t",
            "ALTER VIEW {s}.w SET TBLPROPERTIES ('a' = '1', 'b' = '2')",
            "ALTER VIEW {s}.w UNSET TBLPROPERTIES ('a')",
            "ALTER VIEW {s}.w WITH SCHEMA EVOLUTION",
            "ALTER VIEW {s}.w RENAME TO {s}.x",
        ],
        VIEW,
    ),
    "drop view": Names(["DROP VIEW {s}.w", "DROP VIEW IF EXISTS {s}.nothing"], VIEW),
    "a table becomes a view": Names(
        ["DROP TABLE {s}.t", "CREATE VIEW {s}.t AS SELECT 4 AS four"], TABLE
    ),
    "schema": Names(
        [
            "CREATE SCHEMA {s}_b COMMENT 'one more' WITH DBPROPERTIES ('a' = '1')",
            "CREATE TABLE {s}_b.t USING delta AS SELECT 1 AS id",
            "ALTER SCHEMA {s}_b SET DBPROPERTIES ('b' = '2', 'c' = '3')",
            "ALTER SCHEMA {s}_b UNSET DBPROPERTIES ('c')",
            "COMMENT ON SCHEMA {s}_b IS 'another'",
            "CREATE SCHEMA IF NOT EXISTS {s}_b",
        ],
        drops=("{s}_b",),
    ),
    "drop schema": Names(
        ["DROP SCHEMA {s}_b CASCADE", "DROP SCHEMA IF EXISTS {s}_c"],
        ["CREATE SCHEMA {s}_b", "CREATE TABLE {s}_b.t USING delta AS SELECT 1 AS id"],
        drops=("{s}_b",),
    ),
    "saveAsTable": Names(
        [
            lambda spark, s: spark.range(2).write.format("delta").saveAsTable(f"{s}.a"),
            lambda spark, s: (
                spark.range(2).write.format("delta").mode("append").saveAsTable(f"{s}.b")
            ),
            lambda spark, s: (
                spark.range(2).write.format("delta").mode("overwrite").saveAsTable(f"{s}.c")
            ),
            lambda spark, s: (
                spark.range(2).write.format("delta").mode("ignore").saveAsTable(f"{s}.d")
            ),
            lambda spark, s: (
                spark.range(3).write.format("delta").mode("append").saveAsTable(f"{s}.a")
            ),
            lambda spark, s: (
                spark.range(3).write.format("delta").mode("overwrite").saveAsTable(f"{s}.b")
            ),
        ]
    ),
    "writeTo": Names(
        [
            lambda spark, s: spark.range(2).writeTo(f"{s}.a").using("delta").create(),
            lambda spark, s: spark.range(2).writeTo(f"{s}.b").using("delta").createOrReplace(),
            lambda spark, s: (
                spark.range(4).toDF("n").writeTo(f"{s}.a").using("delta").createOrReplace()
            ),
            lambda spark, s: spark.range(5).toDF("m").writeTo(f"{s}.b").using("delta").replace(),
        ]
    ),
    "builder create": Names([built(lambda table, spark: table.create(spark))]),
    "builder create if not exists": Names(
        [built(lambda table, spark: table.createIfNotExists(spark))], TABLE
    ),
    "builder replace": Names([built(lambda table, spark: table.replace(spark))], TABLE),
    "builder create or replace": Names(
        [built(lambda table, spark: table.createOrReplace(spark))], TABLE
    ),
}


def run(spark, steps, schema, folder):
    for step in steps:
        if callable(step):
            step(spark, schema)
        else:
            spark.sql(step.format(s=schema, folder=folder)).collect()


OF_ONE_SYSTEM = re.compile(
    r"Created|Last Access|Owner|Location|Catalog|Database|Namespace|Statistics|Table$|Type$"
    r"|View Cat|View Current|View SQL|Root Location"
)


def picture(spark, schema):
    """All that users see of a schema, with its own name left out."""

    def told(value):
        # Hive notes when it has changed something.
        return re.sub(r"(transient_lastDdl|last_modified)\w+=\w+,?", "", str(value)).replace(
            schema, "SCHEMA"
        )

    def described(name):
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
        return [told(tuple(row)) for row in rows if not OF_ONE_SYSTEM.match(str(row[0]))]

    def content(name):
        return sorted(str(row) for row in spark.sql(f"SELECT * FROM {name}").collect())

    def detail(name):
        found = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]
        # Of Delta's id, places and times each table has its own.
        own = ("id", "name", "location", "createdAt", "lastModified")
        return {key: told(value) for key, value in found.asDict().items() if key not in own}

    result: dict[str, Any] = {}
    for one in sorted(row[0] for row in spark.sql("SHOW SCHEMAS").collect()):
        if not one.startswith(schema):
            continue
        about = spark.sql(f"DESCRIBE SCHEMA EXTENDED {one}").collect()
        views = {row["viewName"] for row in spark.sql(f"SHOW VIEWS IN {one}").collect()}
        tables = names(spark, one)
        result[told(one)] = [
            told(tuple(row)) for row in about if row[0] in ("Comment", "Properties")
        ]
        for table in tables:
            name = f"{one}.{table}"
            kind = spark.catalog.getTable(name).tableType
            result[told(name)] = (
                kind,
                described(name),
                content(name),
                None if table in views else detail(name),
            )
    return result


@contextmanager
def schemas(spark, case, *names, folder):
    """Make schemas, run a case's setup in each, and drop all afterwards."""
    for name in names:
        spark.sql(f"CREATE SCHEMA {name}")
        run(spark, case.setup, name, folder)
    try:
        yield
    finally:
        abandon(spark)
        for name in names:
            for one in (name, *(d.format(s=name) for d in case.drops)):
                spark.sql(f"DROP SCHEMA IF EXISTS {one} CASCADE")


__all__ = ["CASES", "begin", "commit", "picture", "rollback", "run", "schemas"]
