"""What a driver tells Spark of its transactions: metrics, lines of the log, events."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import small_session

pytestmark = pytest.mark.classic

# As docs/operations.md has it.
LOG = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.name = file
appender.file.type = File
appender.file.fileName = {folder}/driver.log
appender.file.layout.type = JsonTemplateLayout
appender.file.layout.eventTemplateUri = classpath:org/apache/spark/SparkLayout.json
"""

PROGRAM = """
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lakestep
from built import TEST_JAR
from fast_start import FAST_START
from lake import Lake, rewrite
from process import Halts
from small_session import small_session
from transactions import flush

folder = Path(sys.argv[1])
log = f"-Dlog4j2.configurationFile={folder}/log4j2.properties"
spark = small_session(
    folder,
    {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{folder}/events",
        "spark.jars": str(TEST_JAR),
        "spark.lakestep.commit.observer": "io.lakestep.testing.HaltingObserver",
        "spark.driver.extraJavaOptions": f"{FAST_START} {log}",
    },
)
other = spark.newSession()
for name in ("a", "b"):
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'x')")

with lakestep.transaction(spark, "both", comment="why", tags={"k": "v"}) as both:
    spark.sql("INSERT INTO a SELECT id + 1, v FROM b")
    spark.sql("UPDATE b SET v = 'y'")
with lakestep.transaction(spark) as nothing:
    spark.table("a").count()
with lakestep.transaction(spark) as back:
    back.rollback()
spark.sql("BEGIN")
spark.sql("UPDATE b SET v = 'mine'")
with lakestep.transaction(other) as theirs:
    other.sql("UPDATE b SET v = 'theirs'")
try:
    spark.sql("COMMIT")
    raise AssertionError("no conflict")
except Exception as conflict:
    assert "LAKESTEP_CONFLICT" in str(conflict), conflict
spark.sql("ROLLBACK")
spark.sql("BEGIN")

jvm = spark._jvm
sources = jvm.org.apache.spark.SparkEnv.get().metricsSystem().getSourcesByName("lakestep")
registry = sources.head().metricRegistry()


def metrics():
    values = {}
    for name in registry.getNames():
        metric = registry.getMetrics().get(name)
        kind = metric.getClass().getSimpleName()
        if kind == "Counter":
            values[name] = metric.getCount()
        elif kind == "Histogram":
            snapshot = metric.getSnapshot()
            values[name] = [metric.getCount(), snapshot.getMin(), snapshot.getMax()]
        else:
            values[name] = metric.getValue()
    return values


values = metrics()
spark.sql("ROLLBACK")

# VACUUM, which a snapshot keeps from a file.
spark.sql("CREATE SNAPSHOT held")
with lakestep.transaction(spark):
    spark.sql("DELETE FROM a")
flush(spark)
spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
spark.sql("VACUUM a RETAIN 0 HOURS")
spark.sql("DROP SNAPSHOT held")

# Statements run again.
again = spark.newSession()
again.conf.set("spark.lakestep.commit.redoStatements", "true")
again.sql("BEGIN COMMENT 'again'")
again.sql("UPDATE b SET v = concat(v, '+')")
again.sql("INSERT INTO a VALUES (9, 'x')")
with lakestep.transaction(other):
    other.sql("UPDATE b SET v = 'last'")
again.sql("COMMIT")
assert [row[0] for row in again.sql("SELECT v FROM b").collect()] == ["last+"]

# A client is held in COMMIT, and another one finishes what it has begun.
lake = Lake(folder / "lake", 2)


def client():
    session = spark.newSession()
    session.conf.set("spark.lakestep.root", f"file:{lake.root}")
    return session


def order(at, where):
    system = spark._jvm.java.lang.System
    system.setProperty("lakestep.halt.at", at)
    system.setProperty("lakestep.halt.folder", where)


def held(meanwhile):
    first, second = client(), client()
    with Halts(order, folder, ("ordered:1",)) as halts, ThreadPoolExecutor() as threads:
        first.sql("BEGIN COMMENT 'held'")
        for statement in lake.sql("UPDATE {} SET v = concat(v, '+') WHERE id = 1"):
            first.sql(statement)
        commit = halts.during(threads.submit(lambda: first.sql("COMMIT")))
        assert halts.reached() == "ordered:1"
        meanwhile()
        second.sql("BEGIN")
        second.sql("ROLLBACK")
        halts.go()
        failure = commit.exception()
    if failure is not None:
        assert "LAKESTEP_CONFLICT" in str(failure), failure
        first.sql("ROLLBACK")
    entry = max(lake.entry_numbers())
    return lake.entry(entry)["transaction"]["id"]


finished = held(lambda: None)
rolled_back = held(lambda: rewrite(lake.tables[1], 1))
silent = client()
silent.sql("BEGIN")
silent_id = silent.sql("SHOW TRANSACTIONS").first()["transaction_id"]
client().sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")

told = {"both": both.id, "entry": both.entry, "theirs": theirs.id, "nothing": nothing.id,
        "back": back.id, "metrics": values, "sources": sources.size(), "later": metrics(),
        "finished": finished, "rolledBack": rolled_back, "silent": silent_id}
(folder / "told.json").write_text(json.dumps(told))
spark.stop()
"""


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """What one driver has told: its own account, the lines of its log, and its events."""
    folder = tmp_path_factory.mktemp("observed")
    (folder / "events").mkdir()
    environment = os.environ | {"PYTHONPATH": str(Path(small_session.__file__).parent)}
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    (folder / "log4j2.properties").write_text(LOG.format(folder=folder))
    subprocess.run(command, env=environment, cwd=folder, check=True, stdout=subprocess.PIPE)
    lines = [json.loads(line) for line in (folder / "driver.log").read_text().splitlines()]
    events = [
        json.loads(line)
        for file in (folder / "events").rglob("*")
        if file.is_file()
        for line in file.read_text().splitlines()
        if line.startswith('{"Event":"io.lakestep')
    ]
    return json.loads((folder / "told.json").read_text()), lines, events


def test_metrics_count_what_has_happened(observed):
    told, _, _ = observed
    metrics = told["metrics"]
    assert told["sources"] == 1
    counted = {
        "committed": 2,
        "committed.nothing": 1,
        "committed.rebased": 0,
        "rolledBack": 1,
        "conflicts": 1,
        "conflicts.same-file": 1,
        "failed": 0,
        "unknown": 0,
        "reruns": 0,
        "open": 1,
        "timeline.entries": 2,
    }
    assert {name: metrics[name] for name in counted} == counted
    assert metrics["begun"] == 6
    assert metrics["open.oldest.ms"] >= 0
    steps = ("stage", "validate", "order", "publish")
    for step in steps:
        count, least, most = metrics[f"commit.{step}.requests"]
        assert count == 2 and 0 < least <= most, step
        assert metrics[f"commit.{step}.ms"][0] == 2
    assert metrics["commit.tries"] == [2, 1, 1]
    # One table and two: what the parts took is not more than the whole.
    whole = metrics["commit.ms"]
    assert sum(metrics[f"commit.{step}.ms"][1] for step in steps) <= whole[2]


def test_metrics_count_what_was_run_again_and_what_was_left_by_others(observed):
    told, _, _ = observed
    before, later = told["metrics"], told["later"]
    counted = {
        "reruns": 1,
        "reruns.statements": 2,
        "recovered.completed": 1,
        "recovered.rolledBack": 1,
        "aborted": 1,
        "conflicts": 1,
        # The one that was run again, the other one, and the one that was finished by another.
        # And the one before VACUUM.
        "committed": 4,
        "failed": 0,
        "unknown": 0,
    }
    assert {name: later[name] - before[name] for name in counted} == counted
    assert all(before[name] == 0 for name in ("recovered.completed", "aborted", "reruns"))
    assert later["commit.ms"][0] == later["committed"]


def test_the_names_in_the_docs_are_those_that_there_are(observed):
    told, _, _ = observed
    page = Path(__file__).parents[2] / "docs" / "operations.md"
    section = page.read_text().split("### Metrics")[1].split("\n#")[0]
    named = {
        cell.strip("` ")
        for line in section.splitlines()
        if line.startswith("| `")
        for cell in line.split("|")[1].split(",")
    }
    assert named == {
        "conflicts.RULE" if name.startswith("conflicts.") else name for name in told["later"]
    }


def test_each_step_of_a_transaction_is_one_line_with_keys(observed):
    told, lines, _ = observed
    ours = [line for line in lines if "lakestep.event" in line.get("context", {})]
    of_both = [line for line in ours if line["context"]["lakestep.transaction"] == told["both"]]
    assert [line["context"]["lakestep.event"] for line in of_both] == ["begin", "commit"]
    assert {line["level"] for line in ours} == {"INFO"}
    committed = of_both[1]["context"]
    assert committed["lakestep.entry"] == str(told["entry"])
    assert int(committed["lakestep.ms"]) >= 0
    happened = [line["context"]["lakestep.event"] for line in ours]
    assert sorted(set(happened)) == [
        *("abort", "begin", "commit", "conflict", "recovery", "rerun", "rollback")
    ]
    conflict = next(
        line["context"] for line in ours if line["context"]["lakestep.event"] == "conflict"
    )
    assert conflict["lakestep.rule"] == "same-file"
    # Nothing else has the keys.
    others = [line for line in lines if line not in ours]
    assert others and not any("lakestep" in str(line.get("context")) for line in others)


def test_vacuum_says_what_it_has_left_and_for_whom(observed):
    _, lines, _ = observed
    [left] = [line["msg"] for line in lines if line["msg"].startswith("VACUUM of")]
    assert re.match(
        r"VACUUM of .*/a leaves 2 files, [1-9][0-9]+ bytes, which snapshot held reads in version "
        r"\d+ and the newest version does not have$",
        left,
    ), left


def test_a_recovery_is_one_line_with_versions_or_the_conflict(observed):
    told, lines, _ = observed

    def of(event):
        return {
            line["context"]["lakestep.transaction"]: line
            for line in lines
            if line.get("context", {}).get("lakestep.event") == event
        }

    recovered = of("recovery")
    assert set(recovered) == {told["finished"], told["rolledBack"]}
    finished, rolled_back = (recovered[told[name]] for name in ("finished", "rolledBack"))
    assert [line["context"]["lakestep.entry"] for line in (finished, rolled_back)] == ["1", "2"]
    # Two rows in a file of their own each: versions 0 and 1.
    assert re.match(r"Finished entry 1 of .*t0`? version 2; .*t1`? version 2$", finished["msg"])
    assert "Rolled entry 2 of" in rolled_back["msg"] and "same-file" in rolled_back["msg"]
    # Whoever was held tells of its own end as well.
    assert told["finished"] in of("commit") and told["rolledBack"] in of("conflict")
    assert list(of("abort")) == [told["silent"]]
    (rerun,) = of("rerun").values()
    assert rerun["context"]["lakestep.rule"] == "same-file"


def test_each_commit_is_an_event_with_its_inputs_and_outputs(observed):
    told, _, events = observed
    ids = [event["transactionId"] for event in events]
    assert ids[:2] == [told["both"], told["theirs"]]
    assert (len(ids), len(set(ids)), ids[-1]) == (6, 6, told["finished"])
    assert told["rolledBack"] not in ids
    both = events[0]
    assert (both["entry"], both["name"], both["comment"], both["tags"]) == (
        told["entry"],
        "both",
        "why",
        {"k": "v"},
    )

    def versions(side, event=both):
        return {(v["path"].split("/")[-1], v["version"]) for v in event[side]}

    assert versions("inputs") == {("a", 1), ("b", 1)}
    assert versions("outputs") == {("a", 2), ("b", 2)}
    # By another client's work, and told by its own.
    assert versions("inputs", events[-1]) == {("t0", 1), ("t1", 1)}
    assert versions("outputs", events[-1]) == {("t0", 2), ("t1", 2)}
    assert all(v["path"].endswith(v["name"].split(".")[-1]) for v in both["outputs"])
