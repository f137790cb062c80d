"""A block in one call is run again when another client was first."""

import pytest
from deltalake import DeltaTable

from driver import TIMEOUT_S, DriverError
from lake import Lake

UPDATE = "UPDATE {} SET v = concat(v, '+') WHERE id = 1"


def start(driver, lake, **settings):
    block = "; ".join(["BEGIN", *lake.sql(UPDATE), *lake.sql("SELECT v FROM {} WHERE id = 1")])
    return driver.session(lake.root, **settings).start_sql(f"{block}; COMMIT")


def disturb(lake):
    DeltaTable(lake.tables[1]).update(predicate="id = 1", updates={"v": "'foreign'"})


@pytest.mark.parametrize("step", ["timelineRead:1", "beforePublish:2"])
def test_block_that_lost_runs_again_on_what_the_other_wrote(drivers, tmp_path, step):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    with driver.halts(step) as halts:
        run = halts.during(start(driver, lake))
        assert halts.reached() == step
        disturb(lake)
        halts.go()
        assert run.result(TIMEOUT_S) == [["foreign+"]]
    assert [lake.rows(path) for path in lake.tables] == [
        [(1, "old+"), (2, "old")],
        [(1, "foreign+"), (2, "old")],
    ]
    lake.check_timeline()
    assert lake.requested() == set()


def test_block_that_lost_as_often_as_is_allowed_raises_the_conflict(drivers, tmp_path):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    for setting in ("maxAttempts", "timeoutMs"):
        value = "1" if setting == "maxAttempts" else "0"
        with driver.halts("timelineRead:1") as halts:
            run = halts.during(start(driver, lake, **{f"spark.lakestep.commit.{setting}": value}))
            assert halts.reached() == "timelineRead:1"
            disturb(lake)
            halts.go()
            with pytest.raises(DriverError) as raised:
                run.result(TIMEOUT_S)
        assert raised.value.condition == "LAKESTEP_CONFLICT"
    assert lake.rows(lake.tables[0]) == [(1, "old"), (2, "old")]
    assert lake.requested() == set()
