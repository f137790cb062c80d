"""Drivers that are killed at a step of a COMMIT over the tables of a lake."""

import pytest

from driver import TIMEOUT_S
from process import Died

BEFORE = [(1, "old"), (2, "old")]
AFTER = [(1, "new"), (2, "old")]

UPDATE = "UPDATE {} SET v = 'new' WHERE id = 1"


def commit_steps(tables):
    """Return every step of a commit over so many tables, and whether it has happened there."""
    each = range(1, tables + 1)
    earlier = ["beforeRequested:1", "requested:1"]
    earlier += [f"{step}:{k}" for step in ("pinned", "bound", "flattened") for k in each]
    earlier += ["timelineRead:1", "helped:1", "validated:1", "beforeOrder:1"]
    later = ["ordered:1"]
    later += [f"{step}:{k}" for k in each for step in ("beforePublish", "published")]
    later += ["beforeDecision:1", "decided:1", "beforeCleanUp:1"]
    return [(step, False) for step in earlier] + [(step, True) for step in later]


def start_transaction(driver, lake):
    session = driver.session(lake.root)
    return session, session.start_sql("BEGIN", *lake.sql(UPDATE), "COMMIT")


def kill_at(driver, lake, step, meanwhile=None):
    """Kill the driver at a step; at an earlier one something else may happen meanwhile."""
    earlier, act = meanwhile or (None, None)
    with driver.halts(*filter(None, (earlier, step))) as halts:
        _, commit = start_transaction(driver, lake)
        halts.during(commit)
        if act:
            assert halts.reached() == earlier
            act()
        if step != earlier:
            if act:
                halts.go()
            assert halts.reached() == step
        driver.kill()
    with pytest.raises(Died):
        commit.result(TIMEOUT_S)
