"""Steps of a transaction, and what a refusal of one says."""

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lakestep


def new_session(spark, root=None, **settings):
    """Another session, also on Connect; with a timeline in a folder of its own, if one is named.

    `settings` are those below ``spark.lakestep.timeline``.
    """
    session = spark.newSession() if hasattr(spark, "newSession") else spark.cloneSession()
    if root is not None:
        session.conf.set("spark.lakestep.root", f"file:{root}")
    for key, value in settings.items():
        session.conf.set(f"spark.lakestep.timeline.{key}", value)
    return session


def begin(spark):
    return spark.sql("BEGIN").collect()[0]["transaction_id"]


def write(spark, *statements):
    """Run statements as one transaction, and wait for what follows; its entry."""
    with lakestep.transaction(spark) as txn:
        for statement in statements:
            spark.sql(statement)
    flush(spark)
    return txn.entry


def folder(session, name):
    """The folder of a table on the local disk."""
    location = session.sql(f"DESCRIBE DETAIL {name}").first()["location"]
    return Path(location.removeprefix("file:"))


def commit(spark):
    """Commit, and wait for what follows, so that a test may look at files."""
    report = spark.sql("COMMIT").collect()[0]
    flush(spark)
    return report


def rollback(spark):
    """Roll back, and wait for what follows."""
    spark.sql("ROLLBACK").collect()
    flush(spark)


def flush(spark):
    """Wait for what follows each COMMIT and ROLLBACK: cleaning up, and checksums."""
    # A client of Connect has no way to the JVM.
    if hasattr(spark, "_jvm"):
        assert spark._jvm.io.lakestep.transaction.Databases.flush(60_000)


def abandon(spark):
    """Leaves no transaction to the next test, whatever state a failed one is in."""
    if any(row["state"] != "INFLIGHT" for row in spark.sql("SHOW TRANSACTIONS").collect()):
        rollback(spark)


def condition_of(failure):
    """The error condition, also of a JVM exception that PySpark hands on as it is."""
    failure = getattr(failure, "java_exception", failure)
    return failure.getCondition() if hasattr(failure, "getCondition") else None


def is_one_of(found, condition):
    """Whether a condition is this one, or one of its subclasses."""
    return found is not None and (found == condition or found.startswith(condition + "."))


@contextmanager
def refused(condition, sql_state=None):
    with pytest.raises(Exception) as raised:
        yield raised
    failure: Any = raised.value
    if not is_one_of(condition_of(failure), condition):
        raise failure
    if sql_state is not None:
        assert failure.getSqlState() == sql_state
