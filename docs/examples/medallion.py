"""A medallion pipeline, bronze to silver to gold, as one transaction."""

import lakestep
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def load(spark: SparkSession, events: DataFrame) -> None:
    """Take events (id, item, n, at) in; all layers change, or none does."""
    with lakestep.transaction(spark, "medallion") as txn:
        # Bronze: as it came.
        events.withColumn("loaded_at", F.current_timestamp()).write.format("delta").mode(
            "append"
        ).withTransaction(txn).saveAsTable("bronze.events")

        # Silver: each event once, and only what makes sense.
        spark.sql("""
            CREATE OR REPLACE TABLE silver.events USING delta AS
            SELECT id, item, n, at FROM bronze.events WHERE n > 0
            QUALIFY row_number() OVER (PARTITION BY id ORDER BY loaded_at DESC) = 1
        """)
        refused = spark.table("bronze.events").where("n <= 0 OR n IS NULL")
        refused.writeTo("silver.refused").using("delta").withTransaction(txn).createOrReplace()

        # Gold: what people read.
        spark.sql("DROP TABLE IF EXISTS gold.by_item")
        spark.sql("""
            CREATE TABLE gold.by_item USING delta AS
            SELECT item, sum(n) AS n FROM silver.events GROUP BY item
        """)
        days = spark.table("silver.events").groupBy(F.to_date("at").alias("day")).count()
        days.write.format("delta").mode("overwrite").saveAsTable("gold.by_day")

        # A rule over the layers. An exception takes all of it back.
        totals = [
            spark.table(table).agg(F.sum("n")).first()[0]
            for table in ("silver.events", "gold.by_item")
        ]
        if totals[0] != totals[1]:
            raise ValueError(f"gold is not silver: {totals}")
