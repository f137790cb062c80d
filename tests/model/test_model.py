"""The commit protocol's model: what it guarantees, what breaks it, and traces of the real code."""

import json
from pathlib import Path

import pyspark
import pytest

import check
import replay
from lakestep import _build

pytestmark = pytest.mark.sliced(6)

JARS = [Path(_build.jar_path()), *sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))]

# What holds in every state of a history; strict helpers and metadata changes may undo more.
UNDOES_MORE = {"NoNeedlessAbort", "NothingUndoneNeedlessly"}
TRACED = tuple(g for g in check.GUARANTEES if g not in UNDOES_MORE)

# Planted faults whose harm is in the files; that of W3 is in what readers see, who put none.
FAULTS = ("W0", "W1", "W2", "W4", "W5", "W6", "W8", "W12", "W14", "W17", "W18", "W19")


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


def histories(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def wrong_about_a_closed_table(history):
    for event in history["events"]:
        if event.get("closed"):
            event["closed"].pop()
            return "what is not so in order"


def wrong_about_an_open_table(history):
    for event in history["events"]:
        if event["do"] == "order":
            writes = history["transactions"][event["of"] - 1]["writes"]
            if set(writes) != set(event["closed"]):
                event["closed"] = writes
                return "what is not so in order"


def foreign_commit_after_the_order(history):
    for at, event in enumerate(history["events"]):
        if event.get("closed"):
            table = event["closed"][0]
            foreign = {"do": "foreign", "kind": "append", "table": table}
            history["events"].insert(at + 1, {**foreign, "clash": [], "suspect": []})
            return "foreign"


def no_end(history):
    for at, event in enumerate(history["events"]):
        if event["do"] == "end":
            del history["events"][at + 1 : -1]
            del history["events"][at]
            return "over"


def wrong_slot(history):
    for event in history["events"]:
        if event.get("slots"):
            event["slots"][0][1] += 1
            return "what is not so in end"


CHANGES = (
    wrong_about_a_closed_table,
    wrong_about_an_open_table,
    foreign_commit_after_the_order,
    no_end,
    wrong_slot,
)


def test_traces_that_say_something_wrong_are_rejected(tmp_path):
    original = replay.traces(tmp_path / "traces.jsonl", JARS, 1, 50)
    changed, expected = [], {}
    for number, change in enumerate(CHANGES):
        for history in histories(original):
            if kind := change(history):
                history["seed"] = 1000 * number + history["seed"]
                changed.append(json.dumps(history))
                expected[history["seed"]] = kind
    file = tmp_path / "changed.jsonl"
    file.write_text("\n".join(changed))
    assert len(expected) > 20
    assert {r.seed: r.kind for r in replay.replay(file, tmp_path).rejected} == expected


# What readers saw, and what ended in an error or not at all, leaves no file.
NOT_IN_FILES = {"I4", "I6", "UNEXPECTED"}


def rejects(folder, fault, count):
    """Every trace is rejected whose history, by its own judge, breaks an invariant in the files.

    Of all, whatever is broken, at least half are; without the fault the same seeds are accepted.
    """
    without = folder / "without.jsonl"
    file = replay.traces(folder / "traces.jsonl", JARS, 1, count, fault, without)
    result = replay.replay(file, folder)
    assert result.traces == count
    rejected = {r.seed for r in result.rejected}
    broken = {h["seed"]: set(h["broken"]) for h in histories(file)}
    in_files = {seed for seed, names in broken.items() if names - NOT_IN_FILES}
    assert in_files <= rejected
    assert 2 * len(rejected) >= count
    print(f"{fault}: {len(rejected)} of {count}, {len(in_files)} broken in the files")
    sound = replay.replay(without, folder / "without", TRACED)
    assert sound.traces == count
    assert not sound.rejected
    assert not sound.violated


@pytest.mark.parametrize("fault", ["W1", "W4"])
def test_traces_with_a_planted_fault_are_rejected(tmp_path, fault):
    rejects(tmp_path, fault, 4)


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_traces_with_each_planted_fault_are_rejected(tmp_path, fault):
    rejects(tmp_path, fault, 20)
