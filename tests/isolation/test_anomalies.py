"""The checker of histories names each anomaly, and is content where a level allows it."""

import re
from dataclasses import replace

import pytest

import adya
from anomalies import APPEND, READ, Txn, check


def history(text, level="SERIALIZABLE"):
    """One transaction a line, all at the same time: ``x=1,2`` read a list, ``x+3`` appended to it.

    A line may begin with when it ran (``2-3``), its outcome, its level, ``query`` (not strict).
    """
    return [_txn(number, line.split(), level) for number, line in enumerate(text.splitlines())]


def _txn(number, words, level):
    began, ended, outcome, strict = 0, 9, "ok", True
    ops: list[tuple] = []
    for word in words:
        if re.fullmatch(r"\d+-\d+", word):
            began, ended = map(int, word.split("-"))
        elif word in ("fail", "info"):
            outcome = word
        elif word in ("SNAPSHOT", "SERIALIZABLE"):
            level = word
        elif word == "query":
            strict = False
        elif "=" in word:
            key, values = word.split("=")
            ops.append((READ, key, [int(value) for value in values.split(",") if value]))
        else:
            key, value = word.split("+")
            ops.append((APPEND, key, int(value)))
    client = f"c{number}"
    serializable = level == "SERIALIZABLE"
    return Txn(number, client, began, ended, tuple(ops), outcome, serializable, strict)


def kinds(text, **options):
    inserted = options.pop("inserted", ())
    return {anomaly.kind for anomaly in check(history(text, **options), inserted)}


WRITE_SKEW = "x= y= x+1\nx= y= y+1\nx=1 y=1"
LOST_UPDATE = "x= x+1\nx= x+2\nx=1,2"

ANOMALIES = {
    "G0": "x+1 y+1\nx+2 y+2\nx=1,2 y=2,1",
    "G1a": "fail x+1\nx=1",
    "G1b": "x+1 x+2\nx=1\nx=1,2",
    "G1c": "x+1 y=1\ny+1 x=1",
    "G-single": "x+1 y+1\nx=1 y=",
    "G2-item": WRITE_SKEW,
    "G-single-realtime": "1-2 x+1\n3-4 x=",
    "G0-realtime": "3-4 x+1\n1-2 x+2\n5-6 x=1,2",
    "internal": "x= x=1\nx+1",
    "duplicate-elements": "x+1\nx=1,1",
    "unwritten": "x=1",
    "incompatible-order": "x+1\nx+2\nx=1,2\nx=2",
    "lost-append": "1-2 x+1\n1-2 y+1\n3-4 x= y=1",
}


@pytest.mark.parametrize("kind", ANOMALIES)
def test_anomaly_is_named(kind):
    assert kind in kinds(ANOMALIES[kind])


@pytest.mark.parametrize("kind", sorted(set(ANOMALIES) - {"G2-item"}))
def test_anomaly_that_snapshot_isolation_forbids_too_is_named(kind):
    assert kind in kinds(ANOMALIES[kind], level="SNAPSHOT")


@pytest.mark.parametrize(
    "text",
    [
        "x= x+1\nx=1 x+2 x=1,2\nx=1,2",
        # A commit that nobody knows of, seen and not seen.
        "info x+1 y+1\nx=1 y=1\nx= y=",
        "1-2 info x+1\n3-4 x=",
        "1-2 fail x+1\n3-4 x=",
        # Returned before the other began, which is a query.
        "1-2 x+1\n3-4 query x=",
        # At the same time.
        "1-3 x+1\n2-4 x=",
    ],
)
def test_history_that_some_order_explains_is_right(text):
    assert kinds(text) == set()


def test_write_skew_is_right_unless_both_are_serializable():
    assert kinds(WRITE_SKEW, level="SNAPSHOT") == set()
    assert kinds("SNAPSHOT " + WRITE_SKEW) == set()
    assert kinds(WRITE_SKEW) == {"G2-item"}


def test_read_only_anomaly_needs_a_transaction_that_is_not_serializable():
    # 0 reads x and y and writes y, 1 writes x, 2 sees 1 without 0.
    read_only_anomaly = "0-9 x= y= y+1\n1-2 x+1\n3-4 x=1 y=\n10-11 x=1 y=1"
    assert kinds(read_only_anomaly, level="SNAPSHOT") == set()
    assert kinds(read_only_anomaly) == {"G2-item"}


def test_two_readers_that_see_two_commits_in_different_orders_are_named():
    long_fork = "x+1\ny+1\nx=1 y=\nx= y=1"
    assert kinds(long_fork) == {"G2-item"}
    assert kinds(long_fork, level="SNAPSHOT") == {"G2-item"}


@pytest.mark.parametrize("level", ["SNAPSHOT", "SERIALIZABLE"])
def test_lost_update_is_named(level):
    assert kinds(LOST_UPDATE, level=level) == {"G-single"}


def test_inserts_of_two_who_did_not_see_each_other_are_right_under_snapshot():
    assert kinds(LOST_UPDATE, level="SNAPSHOT", inserted={"x"}) == set()
    assert kinds(LOST_UPDATE, inserted={"x"}) == {"G-single"}


def test_commit_seen_by_one_who_is_known_is_whole():
    assert kinds("info x+1 y+1\n1-2 x=1\n3-4 x=1 y=\nx=1 y=") == {"G-single"}


def test_client_that_does_not_see_its_own_commit_is_named():
    wrote, reads = history("1-2 x+1\n3-4 query x=")
    reads = Txn(1, wrote.client, 3, 4, reads.ops, strict=False)
    assert {anomaly.kind for anomaly in check([wrote, reads])} == {"G-single-session"}


@pytest.mark.long
@pytest.mark.parametrize("level", adya.MODELS)
@pytest.mark.parametrize(
    "isolation",
    ["serializable", "snapshot-isolation", "lost-update", "read-committed", "read-uncommitted"],
)
def test_adya_agrees_on_histories_of_simulated_databases(tmp_path, isolation, level):
    for seed in range(50):
        simulated = adya.simulated(isolation, seed, tmp_path)
        judged = [replace(txn, serializable=level == "SERIALIZABLE") for txn in simulated]
        agreed = adya.is_right(simulated, level, tmp_path / "adya.jsonl")
        assert (check(judged) == []) == agreed, f"seed {seed}"
