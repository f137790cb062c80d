"""Names of a transaction by `spark.catalog`: changed there, and shown."""

import pytest

from name_steps import make, value
from settings import setting
from transactions import begin, commit, rollback

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]


@pytest.fixture(autouse=True)
def compiled(spark, other):
    """Spark lists tables by compiled programs alone, which tests do without."""
    key = "spark.sql.codegen.factoryMode"
    with setting(spark, key, "FALLBACK"), setting(other, key, "FALLBACK"):
        yield


def shown(session):
    """What the catalog shows of tables, columns, schemas and a definition."""
    catalog = session.catalog
    tables = {t.name: t.tableType for t in catalog.listTables() if not t.isTemporary}
    return {
        "tables": tables,
        "columns": {t: [(c.name, c.dataType) for c in catalog.listColumns(t)] for t in tables},
        "databases": {d.name for d in catalog.listDatabases()},
        "exist": {t: catalog.tableExists(t) for t in ("old", "made", "placed", "w", "gone")},
    }


@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK", "ROLLBACK TO"])
def test_the_catalog_changes_and_shows_names_of_the_transaction(
    spark, other, schema, tmp_path, ends
):
    make(spark, "old", 1)
    make(spark, "gone", 2)
    place = str(tmp_path / "placed")
    spark.range(2).write.format("delta").save(place)
    before = shown(other)
    begin(spark)
    spark.sql("SAVEPOINT s")
    frame = spark.createDataFrame([(1, "x")], "id INT, v STRING")
    spark.catalog.createTable("made", source="delta", schema=frame.schema, description="of mine")
    spark.catalog.createExternalTable("placed", path=place, source="delta")
    spark.sql("CREATE VIEW w AS SELECT id AS v FROM made")
    spark.sql(f"CREATE SCHEMA {schema}_in")
    spark.sql("DROP TABLE gone")
    frame.writeTo("made").append()
    after = {
        "tables": {"old": "MANAGED", "made": "MANAGED", "placed": "EXTERNAL", "w": "VIEW"},
        "columns": {
            "old": before["columns"]["old"],
            "made": [("id", "int"), ("v", "string")],
            "placed": [("id", "bigint")],
            "w": [("v", "int")],
        },
        "databases": before["databases"] | {f"{schema}_in"},
        "exist": {"old": True, "made": True, "placed": True, "w": True, "gone": False},
    }
    assert shown(spark) == after
    assert spark.catalog.getTable("made").description == "of mine"
    assert spark.catalog.databaseExists(f"{schema}_in")
    assert shown(other) == before
    if ends == "COMMIT":
        commit(spark)
    elif ends == "ROLLBACK":
        rollback(spark)
    else:
        spark.sql("ROLLBACK TO s")
        assert shown(spark) == before
        commit(spark)
    for session in (spark, other):
        assert shown(session) == (after if ends == "COMMIT" else before)
    if ends == "COMMIT":
        assert value(other, "w") == [1]
        spark.sql(f"DROP SCHEMA {schema}_in")
