"""A part of a transaction that can be taken back."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from lakestep._sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Savepoint:
    """A place in a transaction to which it can be taken back; `Transaction.savepoint` makes it."""

    def __init__(self, spark: SparkSession, name: str | None) -> None:
        self._spark = spark
        # SQL may use the user's name again; this one is nobody else's.
        self._own = f"lakestep_{uuid.uuid4().hex}"
        self._name = self._own if name is None else name
        self._set(self._own)
        self._set_name()

    @property
    def name(self) -> str:
        """Its name in SQL."""
        return self._name

    def rollback(self) -> None:
        """Take back everything that was done to tables since; the savepoint stays.

        Raises
        ------
        TransactionStateError
            ``LAKESTEP_SAVEPOINT_NOT_FOUND``: it is gone, as an earlier one was gone back to.
        """
        self._spark.sql(f"ROLLBACK TO SAVEPOINT {self._own}").collect()
        self._set_name()

    def _set(self, name: str) -> None:
        self._spark.sql(f"SAVEPOINT {quoted(name)}").collect()

    def _set_name(self) -> None:
        if self._name != self._own:
            self._set(self._name)

    def _release(self) -> None:
        self._spark.sql(f"RELEASE SAVEPOINT {self._own}").collect()

    def __repr__(self) -> str:
        return f"Savepoint({self._name!r})"
