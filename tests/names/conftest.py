"""Two sessions in a schema of their own."""

import pytest

from transactions import abandon


@pytest.fixture
def schema(spark, other, request):
    name = f"names_{abs(hash(request.node.name)) % 10**8}"
    spark.sql(f"CREATE SCHEMA {name}")
    for session in (spark, other):
        session.sql(f"USE {name}")
    yield name
    for session in (spark, other):
        abandon(session)
        session.sql("USE default")
    spark.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture(scope="module")
def other(spark):
    return spark.newSession()
