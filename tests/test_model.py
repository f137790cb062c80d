"""The commit protocol's model: what it guarantees, what breaks it, and traces of the real code."""

import sys
from pathlib import Path

import pyspark
import pytest

from lakestep import _build

sys.path.insert(0, str(Path(__file__).parent / "model"))

import check
import replay

JARS = [Path(_build.jar_path()), *sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))]

# What holds in every state of a history; strict helpers and metadata changes may undo more.
UNDOES_MORE = {"NoNeedlessAbort", "NothingUndoneNeedlessly", "OrderedIsCommitted"}
TRACED = tuple(g for g in check.GUARANTEES if g not in UNDOES_MORE)

# Planted faults whose harm is in the files; that of W3 is in what readers see, who put none.
FAULTS = ("W0", "W1", "W2", "W4", "W5", "W8", "W12", "W14", "W17", "W18", "W19")


@pytest.mark.parametrize(
    "run", [r for r in check.SOUND + check.BROKEN if r.small], ids=lambda r: r.name
)
def test_small_bounds_hold_and_broken_variants_fail(run):
    result = check.check(run)
    assert check.is_right(run, result), result.output


@pytest.mark.long
def test_large_bounds_hold_and_broken_variants_fail():
    assert check.report(check.SOUND + check.BROKEN)


def accepted(folder, count):
    file = replay.traces(folder / "traces.jsonl", JARS, 1, count)
    result = replay.replay(file, folder, TRACED)
    assert result.traces == count
    assert not result.rejected
    assert not result.violated
    print(f"{result.traces} traces, {result.events} events")


def test_traces_of_the_simulation_are_behaviours_of_the_model(tmp_path):
    accepted(tmp_path, 200)


@pytest.mark.long
def test_thousands_of_traces_are_behaviours_of_the_model(tmp_path):
    accepted(tmp_path, 5000)


def rejects(folder, fault, count):
    file = replay.traces(folder / "traces.jsonl", JARS, 1, count, fault)
    result = replay.replay(file, folder)
    assert result.traces == count
    return result.rejected


@pytest.mark.parametrize("fault", ["W1", "W4"])
def test_traces_with_a_planted_fault_are_rejected(tmp_path, fault):
    assert rejects(tmp_path, fault, 3)


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_traces_with_each_planted_fault_are_rejected(tmp_path, fault):
    assert rejects(tmp_path, fault, 5)
