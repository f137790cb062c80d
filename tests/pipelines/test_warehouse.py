"""The warehouse script of the docs, as `lakestep run` runs it: all of it, or nothing."""

import threading
from datetime import date
from decimal import Decimal

import pytest

from built import TOP
from lakestep import _run_file
from lakestep._statements import split
from name_steps import names
from transactions import flush

pytestmark = [pytest.mark.classic, pytest.mark.sliced(2)]

SCRIPT = (TOP / "docs" / "examples" / "warehouse.sql").read_text()

SETUP = """
CREATE TABLE customers (id INT, name STRING, city STRING) USING delta;
INSERT INTO customers VALUES (1, 'Ada', 'London'), (2, 'Grace', 'Boston');
CREATE TABLE sales (id INT, customer INT, day DATE, amount INT) USING delta;
INSERT INTO sales VALUES (10, 1, DATE'2026-01-01', 5), (11, 2, DATE'2026-01-01', 7);
CREATE TABLE prices (item STRING, price DECIMAL(9, 2)) USING delta;
INSERT INTO prices VALUES ('apple', 1.00);
CREATE TABLE rejected (reason STRING, rows BIGINT) USING delta;
CREATE VIEW sales_by_city AS SELECT 'nowhere' AS city, 0 AS amount;
CREATE TABLE landing_customers (id INT, name STRING, city STRING) USING delta;
INSERT INTO landing_customers VALUES (2, 'Grace', 'Paris'), (3, 'Edsger', 'Austin');
CREATE TABLE landing_sales (id INT, customer INT, day DATE, amount INT, loaded_at TIMESTAMP)
USING delta;
INSERT INTO landing_sales VALUES
  (11, 2, DATE'2026-01-01', 8, TIMESTAMP'2026-01-02 09:00:00'),
  (12, 3, DATE'2026-01-02', 1, TIMESTAMP'2026-01-02 09:00:00'),
  (12, 3, DATE'2026-01-02', 2, TIMESTAMP'2026-01-02 10:00:00'),
  (13, 9, DATE'2026-01-02', 4, TIMESTAMP'2026-01-02 09:00:00');
CREATE TABLE landing_prices (item STRING, price DECIMAL(9, 2)) USING delta;
INSERT INTO landing_prices VALUES ('apple', 1.10), ('apple', 1.05), ('pear', 2.00);
CREATE TABLE corrections (id INT, delta INT) USING delta;
INSERT INTO corrections VALUES (10, 1), (11, -1);
"""

DAY, NEXT = date(2026, 1, 1), date(2026, 1, 2)

BEFORE = {
    "corrections": [(10, 1), (11, -1)],
    "customers": [(1, "Ada", "London"), (2, "Grace", "Boston")],
    "prices": [("apple", Decimal("1.00"))],
    "rejected": [],
    "sales": [(10, 1, DAY, 5), (11, 2, DAY, 7)],
    "sales_by_city": [("nowhere", 0)],
}

AFTER = {
    "corrections": [(10, 1), (11, -1)],
    "customers": [(1, "Ada", "London"), (2, "Grace", "Paris"), (3, "Edsger", "Austin")],
    "landing_customers": [],
    "landing_prices": [],
    "landing_sales": [],
    "loads": [(1, 2, 1)],
    "prices": [("apple", Decimal("1.10")), ("pear", Decimal("2.00"))],
    "rejected": [("no such customer", 1)],
    "sales": [(10, 1, DAY, 6), (11, 2, DAY, 7), (12, 3, NEXT, 2)],
    "sales_by_city": [("Austin", 2), ("London", 6), ("Paris", 7)],
}

# The corrections are taken back, and nothing else is.
UNCORRECTED = {
    **AFTER,
    "corrections": [(10, -9), (11, -1)],
    "rejected": [("corrections", 2), ("no such customer", 1)],
    "sales": [(10, 1, DAY, 5), (11, 2, DAY, 8), (12, 3, NEXT, 2)],
    "sales_by_city": [("Austin", 2), ("London", 5), ("Paris", 8)],
}


def seen(spark):
    return {
        name: sorted(tuple(row) for row in spark.table(name).collect()) for name in names(spark)
    }


@pytest.fixture
def shop(spark, schema):
    for statement in split(SETUP):
        spark.sql(statement.text)
    yield schema
    spark.catalog.dropTempView("last_sales")


def run(spark):
    code = _run_file.run_job(spark, _run_file.Job("warehouse.sql", split(SCRIPT), quiet=True))
    flush(spark)
    return code


def test_script_is_as_long_as_it_is_said_to_be():
    lines = [line.strip() for line in SCRIPT.splitlines()]
    assert len([line for line in lines if line and not line.startswith("--")]) >= 60
    assert len(split(SCRIPT)) == 1


def test_script_changes_all_tables_and_names_at_one_instant(spark, other, shop):
    before = seen(other)
    # One query, as each looks at all names at one point.
    query = """
        SELECT (SELECT count(*) FROM customers), (SELECT count(*) FROM sales),
          (SELECT max(price) FROM prices), (SELECT max(city) FROM sales_by_city),
          (SELECT count(*) FROM landing_sales)
    """
    old, new = (2, 2, Decimal("1.00"), "nowhere", 4), (3, 3, Decimal("2.00"), "Paris", 0)
    looks = [tuple(other.sql(query).collect()[0])]
    ended = threading.Event()

    def look():
        while not ended.is_set():
            looks.append(tuple(other.sql(query).collect()[0]))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        assert run(spark) == 0
    finally:
        ended.set()
        watcher.join()
    assert looks[0] == old
    assert set(looks) <= {old, new}
    assert tuple(other.sql(query).collect()[0]) == new
    assert before.keys() == AFTER.keys() - {"loads"}
    assert seen(spark) == AFTER
    assert seen(other) == AFTER


def test_script_goes_back_to_its_savepoint_where_a_sale_would_be_negative(spark, other, shop):
    spark.sql("UPDATE corrections SET delta = -9 WHERE id = 10")
    assert run(spark) == 0
    assert seen(other) == UNCORRECTED


def test_script_whose_last_check_fails_leaves_nothing(spark, other, shop, capsys):
    spark.sql("INSERT INTO landing_prices VALUES ('plum', NULL)")
    before = seen(other)
    assert {name: before[name] for name in BEFORE} == BEFORE
    assert run(spark) == 1
    assert "an item without a price" in capsys.readouterr().err
    assert seen(spark) == before
    assert seen(other) == before
    assert spark.sql("SHOW TRANSACTIONS").collect() == []
