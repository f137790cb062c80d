"""What Delta does after each commit, a transaction does once, after its COMMIT."""

import pytest

import lakestep
from arena import head
from transactions import begin, commit

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced,
]

AUTO_COMPACT = "delta.autoOptimize.autoCompact"


@pytest.fixture
def few_files(spark):
    """Auto compaction of three files already."""
    key = "spark.databricks.delta.autoCompact.minNumFiles"
    spark.conf.set(key, "3")
    yield
    spark.conf.unset(key)


def operations(session, name):
    history = session.sql(f"DESCRIBE HISTORY {name}").orderBy("version").collect()
    return [row["operation"] for row in history]


def make(session, name, **properties):
    told = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    clause = f"TBLPROPERTIES ({told})" if told else ""
    session.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta {clause}")


def insert(session, name, number):
    session.sql(f"INSERT INTO {name} VALUES ({number}, 'x')")


@pytest.mark.usefixtures("few_files")
def test_tables_are_compacted_as_their_property_asks(spark, other_session):
    make(spark, "compacted", **{AUTO_COMPACT: "true"})
    make(spark, "left_alone")
    for number in range(4):
        begin(spark)
        for name in ("compacted", "left_alone"):
            insert(spark, name, number)
        commit(spark)
        # A read of the session sees its own COMMIT, and the compaction after it.
        assert spark.table("compacted").count() == number + 1
    assert "OPTIMIZE" in operations(spark, "compacted")
    assert "OPTIMIZE" not in operations(spark, "left_alone")
    assert spark.sql("DESCRIBE DETAIL compacted").collect()[0]["numFiles"] < 4
    rows = sorted(row["id"] for row in other_session.table("compacted").collect())
    assert rows == [0, 1, 2, 3]
    # It is a transaction of its own, which is finished.
    assert spark.sql("SHOW TRANSACTIONS").collect() == []


@pytest.mark.usefixtures("few_files")
def test_setting_of_the_session_asks_as_well_and_closed_tables_are_compacted(spark):
    make(spark, "closed_one")
    spark.sql("ALTER TABLE closed_one SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')")
    spark.conf.set("spark.databricks.delta.autoCompact.enabled", "true")
    try:
        for number in range(4):
            insert(spark, "closed_one", number)
    finally:
        spark.conf.unset("spark.databricks.delta.autoCompact.enabled")
    assert "OPTIMIZE" in operations(spark, "closed_one")
    assert spark.table("closed_one").count() == 4


@pytest.mark.usefixtures("few_files")
def test_rolled_back_writes_compact_nothing(spark):
    make(spark, "rolled_back", **{AUTO_COMPACT: "true"})
    for number in range(4):
        with lakestep.transaction(spark) as txn:
            insert(spark, "rolled_back", number)
            txn.rollback()
    assert operations(spark, "rolled_back") == ["CREATE TABLE"]


def test_value_that_delta_refuses_ends_no_transaction(spark):
    make(spark, "odd")
    spark.conf.set("spark.databricks.delta.autoCompact.enabled", "true")
    path = spark.sql("DESCRIBE DETAIL odd").collect()[0]["location"]
    since = head(path.removeprefix("file:"))
    begin(spark)
    insert(spark, "odd", 1)
    spark.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "1")
    spark.conf.set("spark.databricks.delta.autoCompact.maxFileSize", "1")
    try:
        commit(spark)
    finally:
        for key in ("enabled", "minNumFiles", "maxFileSize"):
            spark.conf.unset(f"spark.databricks.delta.autoCompact.{key}")
    assert head(path.removeprefix("file:")) == since + 1
    assert spark.table("odd").count() == 1


def test_metastore_is_told_of_a_new_schema_where_delta_would_tell_it(spark):
    make(spark, "in_metastore")
    begin(spark)
    spark.sql("ALTER TABLE in_metastore SET TBLPROPERTIES ('told' = 'no')")
    commit(spark)
    assert "told" not in in_metastore(spark, "in_metastore")
    key = "spark.databricks.delta.catalog.update.enabled"
    spark.conf.set(key, "true")
    try:
        begin(spark)
        spark.sql("ALTER TABLE in_metastore SET TBLPROPERTIES ('told' = 'yes')")
        spark.sql("ALTER TABLE in_metastore ADD COLUMN w INT")
        assert "told" not in in_metastore(spark, "in_metastore")
        commit(spark)
        updates = spark._jvm.org.apache.spark.sql.delta.hooks.UpdateCatalog
        assert updates.awaitCompletion(60000)
    finally:
        spark.conf.unset(key)
    found = in_metastore(spark, "in_metastore")
    assert (found["told"], found["delta.lastUpdateVersion"]) == ("yes", "2")


def in_metastore(session, name):
    """The properties of a table that the metastore itself has."""
    catalog = session._jsparkSession.sessionState().catalog()
    properties = catalog.externalCatalog().getTable("default", name).properties()
    return dict(session._jvm.scala.jdk.javaapi.CollectionConverters.asJava(properties))
