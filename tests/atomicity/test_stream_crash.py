"""Drivers of a stream that are killed: each of its rows comes into each of its tables, once."""

import random
import threading

import pytest

import lakestep
from driver import TIMEOUT_S, DriverError
from kills import commit_steps
from lake import Lake
from process import Died

# Between COMMIT and the checkpoint of the stream: its driver begins with a batch that is there.
DONE = ("decided:1", "beforeCleanUp:1")


def stream(spark, source, targets, checkpoint):
    """In a driver: what is left of the source, a row a batch, goes into all targets."""

    def load(batch, _):
        batch.createOrReplaceTempView("batch")
        first, *others = targets
        batch.write.format("delta").mode("append").save(first)
        for target in others:
            batch.sparkSession.sql(f"""
                MERGE INTO delta.`{target}` t USING batch b ON t.id = b.id
                WHEN MATCHED THEN UPDATE SET v = 'twice' WHEN NOT MATCHED THEN INSERT *
            """)

    query = (
        spark.readStream.format("delta")
        .option("maxFilesPerTrigger", 1)
        .load(source)
        .writeStream.foreachBatch(lakestep.foreach_batch(load))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


class Feed:
    """A source with so many rows, and two tables that a stream fills."""

    def __init__(self, folder, rows):
        self.lake = Lake(folder)
        self.rows = [(number, "row") for number in range(rows)]
        self.source = self.lake.table("source", self.rows)
        self.targets = [self.lake.table(name, [(-1, "first")]) for name in ("one", "two")]
        self._checkpoint = str(folder / "checkpoint")
        self.replays = 0

    def start(self, driver):
        return driver.session(self.lake.root).start(
            "test_stream_crash:stream",
            source=self.source,
            targets=self.targets,
            checkpoint=self._checkpoint,
        )

    def end(self, driver):
        """Run the stream to its end, or to that of its driver; note what it replayed."""
        ended = self.start(driver)
        ended.result(TIMEOUT_S)
        self.note(driver)

    def note(self, driver):
        self.replays += driver.log.read_text().count("holds batch")

    def check(self):
        for target in self.targets:
            assert self.lake.rows(target) == [(-1, "first"), *self.rows]
        self.lake.check_timeline()


def kill_at_step(feed, driver, step):
    """Kill the driver at the step of a COMMIT; False when the stream has ended before that."""
    with driver.halts(step) as halts:
        halts.during(feed.start(driver))
        reached = halts.reached() is not None
        driver.kill()
    feed.note(driver)
    return reached


def kill_in(feed, driver, seconds):
    """Kill the driver after some time, wherever it is; False if the stream has ended before."""
    ended = feed.start(driver)
    timer = threading.Timer(seconds, driver.kill)
    timer.start()
    try:
        ended.result(TIMEOUT_S)
        return False
    except Died:
        return True
    finally:
        timer.join()
        feed.note(driver)


def test_five_killed_drivers_of_a_stream(drivers, tmp_path):
    feed = Feed(tmp_path, rows=9)
    for step in ("beforeOrder:2", "ordered:1", "published:1", *DONE):
        [driver] = drivers(1, spare=True)
        assert kill_at_step(feed, driver, step)
    [driver] = drivers(1)
    feed.end(driver)
    feed.check()
    # How many depends on where those die that finish the entry of the one before.
    assert feed.replays > 0


def test_two_drivers_run_the_same_stream(drivers, tmp_path):
    """Spark ends the one that is too late with its own log, and Lakestep the one with its batch."""
    feed = Feed(tmp_path, rows=6)
    pair = drivers(2)
    is_done = False
    for _ in range(2 * len(feed.rows)):
        running = [feed.start(driver) for driver in pair]
        failures = [one.exception(TIMEOUT_S) for one in running]
        assert all(isinstance(failure, DriverError | None) for failure in failures)
        is_done = failures == [None, None]
        if is_done:
            break
    assert is_done
    feed.check()


@pytest.mark.long
def test_fifty_killed_drivers_of_a_stream(drivers, tmp_path):
    chance = random.Random(28)
    feed = Feed(tmp_path, rows=260)
    # Those that each batch comes to; tables are bound once, and helped are the dead alone.
    steps = {step.split(":")[0] for step, _ in commit_steps(2)} - {"bound", "helped"}
    killed = 0
    for turn in range(60):
        [driver] = drivers(1, spare=True)
        if turn % 2:
            killed += kill_in(feed, driver, chance.uniform(0.5, 12))
        else:
            step = chance.choice([*sorted(steps), "decided", "beforeCleanUp"])
            assert kill_at_step(feed, driver, f"{step}:{chance.randint(1, 4)}")
            killed += 1
    assert killed >= 50
    [driver] = drivers(1)
    feed.end(driver)
    feed.check()
    assert feed.replays > 0
