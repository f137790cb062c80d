"""Steps of tests in which several sessions change names."""

from transactions import abandon, flush, refused

CONFLICT = "LAKESTEP_CONFLICT.NAME_CHANGED"


def make(spark, name, value):
    spark.sql(f"CREATE TABLE {name} USING delta AS SELECT {value} AS v")


def value(spark, name):
    return [row[0] for row in spark.sql(f"SELECT v FROM {name}").collect()]


def names(spark, schema=None):
    """The tables and views of a schema; temporary views, which SHOW TABLES lists too, are none."""
    rows = spark.sql(f"SHOW TABLES IN {schema}" if schema else "SHOW TABLES").collect()
    return [row["tableName"] for row in rows if not row["isTemporary"]]


def conflicting(spark, *parts):
    with refused(CONFLICT, "40001") as raised:
        spark.sql("COMMIT")
    for part in parts:
        assert part in str(raised.value)
    abandon(spark)
    flush(spark)
