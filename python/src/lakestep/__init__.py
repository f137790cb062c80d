"""Multi-table ACID transactions over existing Delta tables.

>>> import lakestep
>>> from pyspark.sql import SparkSession
>>> spark = lakestep.configure(SparkSession.builder).getOrCreate()  # doctest: +SKIP
>>> with lakestep.transaction(spark) as txn:  # doctest: +SKIP
...     spark.sql("INSERT INTO orders SELECT * FROM new_orders")
...     spark.sql("INSERT INTO lineitems SELECT * FROM new_lineitems")

Importing this package makes PySpark raise its exceptions for errors of Lakestep and adds
``withTransaction`` to readers and writers; Spark Connect's classes get the same by `configure` of a
Connect session, or by the first `transaction` or `recover` on one. Nothing else in PySpark is
changed.
"""

from lakestep import _errors, _writer
from lakestep._build import jar_path, version
from lakestep._dbt import run_dbt
from lakestep._errors import (
    AssertionFailedError,
    ConfigurationError,
    ConflictError,
    FailedAssertion,
    LakestepError,
    ResidueError,
    StateUnknownError,
    TimelineCorruptError,
    TransactionStateError,
    UnsupportedInTransactionError,
)
from lakestep._recover import Recovered, recover
from lakestep._run import foreach_batch, run
from lakestep._savepoint import Savepoint
from lakestep._session import configure
from lakestep._transaction import Transaction, transaction
from lakestep._undo import Undone, restore, revert

__version__: str = version()

__all__ = [
    "AssertionFailedError",
    "ConfigurationError",
    "ConflictError",
    "FailedAssertion",
    "LakestepError",
    "Recovered",
    "ResidueError",
    "Savepoint",
    "StateUnknownError",
    "TimelineCorruptError",
    "Transaction",
    "TransactionStateError",
    "Undone",
    "UnsupportedInTransactionError",
    "__version__",
    "configure",
    "foreach_batch",
    "jar_path",
    "recover",
    "restore",
    "revert",
    "run",
    "run_dbt",
    "transaction",
]

_errors.install()
_writer.install()

del version
