"""The medallion pipeline of the docs: three layers, DataFrames and SQL, one transaction."""

import runpy
from datetime import date, datetime

import pytest

from built import TOP
from name_steps import names
from transactions import abandon, flush, refused

pytestmark = pytest.mark.classic

LAYERS = ("bronze", "silver", "gold")
load = runpy.run_path(str(TOP / "docs" / "examples" / "medallion.py"))["load"]


@pytest.fixture
def layers(spark):
    for layer in LAYERS:
        spark.sql(f"CREATE SCHEMA {layer}")
    yield
    abandon(spark)
    for layer in LAYERS:
        spark.sql(f"DROP SCHEMA {layer} CASCADE")


def seen(spark):
    return {
        f"{layer}.{name}": sorted(
            tuple(row) for row in spark.table(f"{layer}.{name}").drop("loaded_at").toLocalIterator()
        )
        for layer in LAYERS
        for name in names(spark, layer)
    }


def events(spark, *rows):
    return spark.createDataFrame(rows, "id INT, item STRING, n INT, at TIMESTAMP")


MONDAY, TUESDAY = datetime(2026, 1, 5, 9), datetime(2026, 1, 6, 9)
FIRST = ((1, "apple", 2, MONDAY), (2, "pear", 0, MONDAY))
SECOND = ((1, "apple", 3, MONDAY), (3, "pear", 4, TUESDAY))

AFTER_FIRST = {
    "bronze.events": [*FIRST],
    "silver.events": [(1, "apple", 2, MONDAY)],
    "gold.by_item": [("apple", 2)],
    "gold.by_day": [(date(2026, 1, 5), 1)],
}
AFTER_SECOND = {
    "bronze.events": sorted([*FIRST, *SECOND]),
    "silver.events": [(1, "apple", 3, MONDAY), (3, "pear", 4, TUESDAY)],
    "gold.by_item": [("apple", 3), ("pear", 4)],
    "gold.by_day": [(date(2026, 1, 5), 1), (date(2026, 1, 6), 1)],
}
REFUSED = {"silver.refused": [FIRST[1]]}


class Watched:
    """A session in whose every statement another session looks at the layers."""

    def __init__(self, session, look):
        self._session = session
        self._look = look

    def __getattr__(self, name):
        self._look()
        return getattr(self._session, name)


def test_layers_change_at_one_instant(spark, other_session, layers):
    looks = []
    watched = Watched(spark, lambda: looks.append(seen(other_session)))
    load(watched, events(spark, *FIRST))
    flush(spark)
    assert len(looks) > 5
    # The last look is at COMMIT's own statement, before it runs.
    assert [look for look in looks if look] == []
    assert seen(other_session) == AFTER_FIRST | REFUSED

    looks.clear()
    load(watched, events(spark, *SECOND))
    flush(spark)
    assert [look for look in looks if look != AFTER_FIRST | REFUSED] == []
    assert seen(other_session) == seen(spark) == AFTER_SECOND | REFUSED


def test_load_that_fails_in_the_last_layer_changes_none(spark, other_session, layers):
    spark.sql("CREATE VIEW gold.by_day AS SELECT 1 AS n")
    before = seen(other_session)
    with refused("LAKESTEP_UNSUPPORTED_IN_TRANSACTION.NOT_DELTA"):
        load(spark, events(spark, *FIRST))
    assert seen(spark) == seen(other_session) == before == {"gold.by_day": [(1,)]}

    spark.sql("DROP VIEW gold.by_day")
    load(spark, events(spark, *FIRST))
    assert seen(other_session) == AFTER_FIRST | REFUSED
