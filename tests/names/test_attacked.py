"""What somebody found who tried to lose data, or names, by transactions that change them."""

import pytest

from name_steps import conflicting, make, names, value
from transactions import abandon, begin, commit, folder, refused, rollback

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]


def refused_in_the_folder(session, whose):
    """Nothing outside a transaction makes a table `stage`, whose folder is that of another one."""
    for attempt in (
        "CREATE OR REPLACE TABLE stage USING delta AS SELECT 2 AS v",
        "CREATE TABLE stage USING delta AS SELECT 2 AS v",
        "CREATE TABLE stage (v INT) USING delta",
        "CREATE OR REPLACE TABLE stage SHALLOW CLONE beside",
        "CREATE TABLE stage LIKE beside",
    ):
        with refused("LAKESTEP_FOLDER_OF_ANOTHER_TABLE", "42710") as raised:
            session.sql(attempt)
        assert whose in str(raised.value)
    with refused("LAKESTEP_FOLDER_OF_ANOTHER_TABLE"):
        session.range(2).write.format("delta").mode("overwrite").saveAsTable("stage")


def test_no_new_table_takes_the_folder_of_one_that_was_renamed(spark, other, schema):
    make(spark, "stage", 1)
    make(spark, "beside", 2)
    begin(spark)
    spark.sql("ALTER TABLE stage RENAME TO prod")
    commit(spark)
    refused_in_the_folder(other, f"{schema}.prod")
    begin(other)
    make(other, "stage", 3)
    commit(other)
    other.sql("DROP TABLE stage")
    assert value(spark, "prod") == [1]


def test_no_new_table_takes_the_folder_of_one_that_was_dropped(spark, other, schema):
    make(spark, "stage", 1)
    make(spark, "beside", 2)
    begin(spark)
    spark.sql("DROP TABLE stage")
    commit(spark)
    refused_in_the_folder(other, f"the dropped table `{schema}`.`stage`")
    spark.sql("UNDROP TABLE stage")
    assert value(other, "stage") == [1]


@pytest.mark.parametrize("cascade", [False, True])
def test_a_schema_dropped_outside_leaves_what_undrop_brings_back(spark, other, schema, cascade):
    within = f"{schema}_s"
    spark.sql(f"CREATE SCHEMA {within}")
    make(spark, f"{within}.gone", 1)
    make(spark, f"{within}.live", 2)
    spark.sql(f"CREATE VIEW {within}.w AS SELECT 3 AS v")
    live = folder(spark, f"{within}.live")
    begin(spark)
    spark.sql(f"DROP TABLE {within}.gone")
    commit(spark)
    with refused("SCHEMA_NOT_EMPTY"):
        other.sql(f"DROP SCHEMA {within}")
    assert value(spark, f"{within}.live") == [2] and live.exists()
    if not cascade:
        other.sql(f"DROP TABLE {within}.live")
        other.sql(f"DROP VIEW {within}.w")
    other.sql(f"DROP SCHEMA {within}" + " CASCADE" * cascade)
    assert not live.exists()
    spark.sql(f"CREATE SCHEMA {within}")
    assert names(spark, within) == []
    spark.sql(f"UNDROP TABLE {within}.gone")
    assert value(other, f"{within}.gone") == [1]
    other.sql(f"DROP SCHEMA {within} CASCADE")


def test_a_schema_in_which_others_make_something_is_not_dropped_by_half(spark, other, schema):
    spark.sql(f"CREATE SCHEMA {schema}_s")
    make(spark, f"{schema}_s.a", 1)
    begin(spark)
    spark.sql(f"DROP SCHEMA {schema}_s CASCADE")
    # Of the same name, and in another schema.
    make(spark, "extra", 3)
    make(other, f"{schema}_s.extra", 2)
    conflicting(spark)
    assert value(spark, f"{schema}_s.a") == [1]
    spark.sql(f"DROP SCHEMA {schema}_s CASCADE")


def test_nothing_is_made_in_a_schema_that_others_have_dropped(spark, other, schema):
    within = f"{schema}_s"
    spark.sql(f"CREATE SCHEMA {within}")
    begin(spark)
    spark.sql(f"CREATE VIEW {within}.w AS SELECT 1 AS v")
    other.sql(f"DROP SCHEMA {within}")
    conflicting(spark)
    # Nothing is owed that could never be made.
    other.sql(f"CREATE SCHEMA {within}")
    assert names(spark, within) == []
    spark.sql(f"DROP SCHEMA {within}")


def test_another_table_at_the_same_place_is_another_table(spark, other, schema):
    make(spark, "a", 1)
    begin(spark)
    spark.sql("DROP TABLE a")
    # A metastore may tell when a table was made in seconds alone.
    spark._jvm.java.lang.Thread.sleep(1100)
    other.sql("ALTER TABLE a RENAME TO a9")
    make(other, "a", 2)
    conflicting(spark)
    assert (value(spark, "a"), value(spark, "a9")) == ([2], [1])


def test_a_commit_that_fails_leaves_nothing_where_it_would_have_made_a_table(
    spark,
    other,
    schema,
    tmp_path,
):
    make(spark, "t", 1)
    place = f"delta.`{tmp_path}/new`"
    for last in (False, True):
        begin(spark)
        spark.sql(f"CREATE TABLE {place} (v INT) USING delta")
        make(spark, "n", 5)
        spark.sql("UPDATE t SET v = v + 1")
        if not last:
            other.sql("UPDATE t SET v = v + 10")
            with refused("LAKESTEP_CONFLICT"):
                spark.sql("COMMIT")
            rollback(spark)
            assert list(tmp_path.rglob("*")) == []
        else:
            commit(spark)
    assert (value(other, "t"), value(other, "n")) == ([12], [5])


def test_views_and_missing_names_count_where_reads_do(spark, other, schema):
    make(spark, "a", 0)
    spark.sql("CREATE VIEW w AS SELECT 1 AS v")
    for change in ("ALTER VIEW w AS SELECT 5 AS v", "CREATE VIEW nothing AS SELECT 1 AS v"):
        for isolation, counts in (("SNAPSHOT", False), ("SERIALIZABLE", True)):
            spark.sql(f"BEGIN ISOLATION LEVEL {isolation}")
            spark.sql("INSERT INTO a SELECT v FROM w")
            assert not spark.catalog.tableExists("nothing")
            begin(other)
            other.sql(change)
            commit(other)
            if counts:
                conflicting(spark)
            else:
                commit(spark)
            other.sql("CREATE OR REPLACE VIEW w AS SELECT 1 AS v")
            other.sql("DROP VIEW IF EXISTS nothing")


def test_a_name_that_is_no_folder_is_refused_and_the_transaction_goes_on(spark, schema):
    begin(spark)
    make(spark, "t", 1)
    with refused("LAKESTEP_NAME_IS_NO_FOLDER", "42602"):
        spark.sql(f"CREATE TABLE {'x' * 300} (v INT) USING delta")
    commit(spark)
    assert names(spark) == ["t"]


def test_a_table_may_lie_inside_the_folder_of_another(spark, schema, tmp_path):
    spark.sql(f"CREATE TABLE outer_t USING delta LOCATION '{tmp_path}/t' AS SELECT 1 AS v")
    begin(spark)
    spark.sql(f"CREATE TABLE inner_t (v INT) USING delta LOCATION '{tmp_path}/t/inner'")
    spark.sql("INSERT INTO inner_t VALUES (2)")
    assert (value(spark, "outer_t"), value(spark, "inner_t")) == ([1], [2])
    commit(spark)
    assert (value(spark, "outer_t"), value(spark, "inner_t")) == ([1], [2])


def test_properties_of_a_schema_are_not_lost(spark, other, schema):
    begin(spark)
    spark.sql(f"ALTER SCHEMA {schema} SET DBPROPERTIES ('mine' = '1')")
    other.sql(f"ALTER SCHEMA {schema} SET DBPROPERTIES ('theirs' = '2')")
    conflicting(spark)
    begin(spark)
    spark.sql(f"ALTER SCHEMA {schema} SET DBPROPERTIES ('mine' = '1')")
    spark.sql("ALTER SCHEMA default SET DBPROPERTIES ('mine' = '1')")
    commit(spark)
    told = str(spark.sql(f"DESCRIBE SCHEMA EXTENDED {schema}").collect())
    assert "mine" in told and "theirs" in told
    begin(spark)
    make(spark, "t", 1)
    commit(spark)
    assert value(other, "t") == [1]


def test_redo_keeps_what_names_meant(spark, other, schema):
    spark.sql("CREATE TABLE x USING delta AS SELECT 1 AS id, 1 AS v")
    spark.sql("CREATE TABLE r USING delta AS SELECT 1 AS id, 100 AS v")
    spark.conf.set("spark.lakestep.commit.redoStatements", "true")
    try:
        spark.sql("BEGIN")
        spark.sql(
            "MERGE INTO x USING r ON x.id = r.id WHEN MATCHED THEN UPDATE SET x.v = x.v + r.v"
        )
        begin(other)
        other.sql("UPDATE x SET v = v * 2 + 7")
        other.sql("ALTER TABLE r RENAME TO r_old")
        other.sql("CREATE TABLE r USING delta AS SELECT 1 AS id, 5000 AS v")
        other.sql("UPDATE r_old SET v = 777")
        commit(other)
        with refused("LAKESTEP_CONFLICT"):
            spark.sql("COMMIT")
        abandon(spark)
    finally:
        spark.conf.set("spark.lakestep.commit.redoStatements", "false")
    assert value(spark, "x") == [9]


def test_places_are_those_of_the_tables(spark, schema):
    begin(spark)
    make(spark, "t", 1)
    told = {row[0]: row[1] for row in spark.sql("DESCRIBE EXTENDED t").collect()}
    assert told["Location"].startswith("file:")
    rollback(spark)


def test_a_place_that_the_metastore_spells_otherwise_is_that_place(spark, other, schema, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    spark.sql(f"CREATE TABLE t (v INT) USING delta LOCATION '{tmp_path}/link/t'")
    begin(spark)
    spark.sql("INSERT INTO t VALUES (1)")
    begin(other)
    other.sql(f"DROP TABLE {schema}.t")
    commit(other)
    conflicting(spark, "DROP TABLE")
    # Another spelling gives the dropped table a name again.
    begin(spark)
    spark.sql(f"CREATE TABLE u USING delta LOCATION '{tmp_path}/real/t'")
    commit(spark)
    assert names(spark) == ["u"] and spark.table("u").count() == 0
