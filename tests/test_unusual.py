"""What few users do, and must not go wrong: odd places, settings and tables that are replaced."""

import shutil

import pytest

import files_on_disk
from transactions import begin, commit, refused, rollback

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]


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
