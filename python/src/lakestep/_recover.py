"""Finishing what a client left in flight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestep import _session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Recovered:
    """A transaction that a client left in flight, and what `recover` made of it.

    Attributes
    ----------
    entry : int
        Its entry in the timeline.
    transaction_id : str
        Its id.
    outcome : str
        ``COMPLETED``, ``ROLLED_BACK``, or ``FAILED:`` and why it could not be finished from here.
    residue : str
        What stays of one that was rolled back, because others had built on it; else empty.
    """

    entry: int
    transaction_id: str
    outcome: str
    residue: str


def recover(spark: SparkSession) -> list[Recovered]:
    """Finish every transaction that a client left in flight: commit it in all tables, or in none.

    Any client may call this at any time, also several at once: they agree on each outcome.

    Parameters
    ----------
    spark : SparkSession
        A session configured by `lakestep.configure`.

    Returns
    -------
    list of Recovered
        Those that it finished, oldest first, then those that it could not. Empty if nothing was in
        flight.
    """
    _session.meet(spark)
    return [
        Recovered(row["entry"], row["transaction_id"], row["outcome"], row["residue"])
        for row in spark.sql("RECOVER").collect()
    ]
