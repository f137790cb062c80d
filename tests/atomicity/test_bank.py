"""Transfers between accounts in two tables: whoever looks, no money appears or is lost."""

import os
import random

import pytest

from bank import ACCOUNTS, OPENING, replay
from driver import TIMEOUT_S
from lake import Lake


class Bank:
    def __init__(self, folder, drivers, seed):
        self.lake = Lake(folder)
        accounts = [(account, OPENING) for account in range(ACCOUNTS)]
        self.tables = {name: self.lake.table(name, accounts) for name in ("left", "right")}
        self.drivers = drivers
        self.writers, self.readers = (
            [driver.session(self.lake.root) for driver in drivers] for _ in range(2)
        )
        self.random = random.Random(seed)
        self.snapshots = []
        self.in_flight = 0

    def start_transfer(self, writer):
        source, target = (self.random.randrange(ACCOUNTS) for _ in range(2))
        amount = self.random.randint(-50, 50)
        move = {"source": source, "target": target, "amount": amount}
        return writer.start("bank:transfer", **self.tables, **move)

    def start_snapshot(self, reader, how="snapshot"):
        return reader.start(f"bank:{how}", **self.tables)

    def storm(self, snapshots):
        """Every driver writes and reads at once, in transactions and outside."""
        writing = [self.start_transfer(writer) for writer in self.writers]
        reading = [
            self.start_snapshot(reader, how)
            for _ in range(snapshots)
            for reader in self.readers
            for how in ("snapshot", "query")
        ]
        for future in writing:
            future.result(TIMEOUT_S)
        self.snapshots += [future.result(TIMEOUT_S) for future in reading]

    def hold(self, number):
        """Hold a driver when it has published one table; the others read meanwhile.

        Those that have begun before must not see the new half, nor a query outside a transaction;
        those that begin now finish the entry first.
        """
        driver, writer = self.drivers[number], self.writers[number]
        others = [reader for i, reader in enumerate(self.readers) if i != number]
        begun = [(reader, self.begin(reader)) for reader in others]
        with driver.halts("published:1") as halts:
            transfer = halts.during(self.start_transfer(writer))
            assert halts.reached() == "published:1"
            for reader, right in begun:
                left = reader.call("bank:balances", table=self.tables["left"])
                reader.sql("COMMIT")
                self.snapshots.append([left, right])
                self.in_flight += self.is_in_flight()
            reading = [self.start_snapshot(reader, "query") for reader in others]
            self.snapshots += [future.result(TIMEOUT_S) for future in reading]
            self.in_flight += self.is_in_flight() * len(reading)
            self.in_flight += self.is_in_flight()
            reading = [self.start_snapshot(reader) for reader in others]
            self.snapshots += [future.result(TIMEOUT_S) for future in reading]
            assert not self.is_in_flight()
            halts.go()
            transfer.result(TIMEOUT_S)

    def begin(self, reader):
        reader.sql("BEGIN")
        return reader.call("bank:balances", table=self.tables["right"])

    def is_in_flight(self):
        return self.lake.outcome(self.lake.entry_numbers()[-1]) is None

    def completed(self):
        """Return the names of the completed transfers, in the order of the timeline."""
        numbers = self.lake.entry_numbers()
        completed = [n for n in numbers if self.lake.outcome(n)["outcome"] == "completed"]
        return [self.lake.entry(n)["transaction"]["name"] for n in completed]

    def now(self):
        return [[list(row) for row in self.lake.rows(path)] for path in self.tables.values()]


@pytest.mark.parametrize(
    ("number", "rounds", "snapshots"),
    [pytest.param(2, 3, 1, id="small"), pytest.param(4, 14, 3, id="full", marks=pytest.mark.long)],
)
def test_every_snapshot_is_a_prefix_of_the_transfers(drivers, tmp_path, number, rounds, snapshots):
    seed = int(os.environ.get("LAKESTEP_TEST_SEED", random.randrange(2**32)))
    print(f"LAKESTEP_TEST_SEED={seed}")
    bank = Bank(tmp_path, drivers(number), seed)
    for turn in range(rounds):
        bank.storm(snapshots)
        bank.hold(turn % number)

    transfers = bank.completed()
    print(
        f"{len(transfers)} commits, {len(bank.snapshots)} snapshots, "
        f"{bank.in_flight} of them while an entry was in flight"
    )
    assert len(transfers) == rounds * (number + 1)
    assert len(bank.snapshots) == rounds * (2 * number * snapshots + 3 * (number - 1))
    assert bank.in_flight == rounds * (2 * number - 1)
    states = [replay(transfers[:n]) for n in range(len(transfers) + 1)]
    for snapshot in bank.snapshots:
        assert sum(balance for side in snapshot for _, balance in side) == 2 * ACCOUNTS * OPENING
        assert snapshot in states
    assert bank.now() == states[-1]
    bank.lake.check_timeline()
