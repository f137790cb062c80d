"""Named tables of three rows."""

from contextlib import contextmanager

from transactions import abandon


@contextmanager
def three_rows(spark, folder):
    """Yield a function that makes a table with the ids 1 to 3; all are dropped afterwards."""
    names = []

    def made(name):
        names.append(name)
        path = folder / name
        spark.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta LOCATION '{path}'")
        spark.sql(f"INSERT INTO {name} (id) VALUES (1), (2), (3)")
        return name

    yield made
    abandon(spark)
    for name in names:
        spark.sql(f"DROP TABLE {name}")


def ids(session, query):
    return sorted(row[0] for row in session.sql(f"SELECT id FROM {query}").collect())
