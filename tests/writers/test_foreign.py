"""Writers without Lakestep: nothing of theirs is lost, and ours is whole or not there."""

from pathlib import Path

import deltalake
import pytest

from driver import FAST_PATHS, TIMEOUT_S, DriverError
from kills import commit_steps
from lake import Lake, append, rewrite
from transactions import commit, refused, rollback

UPDATE = "UPDATE {} SET v = 'new' WHERE id = 1"
OLD, NEW, OTHER = (1, "old"), (1, "new"), (2, "old")


def compact(path):
    """A foreign commit that rearranges all files."""
    deltalake.DeltaTable(path).optimize.compact()


# What a foreign writer does, whether it conflicts with UPDATE, the rows without and with ours, and
# with ours before it.
CHANGES = {
    "append": (lambda path: append(path, (3, "x")), False, [OLD, OTHER, (3, "x")]),
    "rewrite_another_file": (lambda path: rewrite(path, 2), False, [OLD]),
    "rewrite_the_same_file": (lambda path: rewrite(path, 1), True, [OTHER]),
    "compact": (compact, True, [OLD, OTHER]),
}
SHORT = {"validated:1", "published:1", "decided:1"}
STEPS = [
    pytest.param(step, id=step, marks=() if step in SHORT else pytest.mark.long)
    for step, _ in commit_steps(2)
    if not step.startswith(("beforeReq", "req", "pinned"))
]


@pytest.mark.sliced
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", STEPS)
def test_foreign_commit_between_any_two_steps_of_a_commit(drivers, tmp_path, step, change):
    act, conflicts, theirs = CHANGES[change]
    lake = Lake(tmp_path, 2)
    path = lake.tables[1]
    [driver] = drivers(1)
    session = driver.session(lake.root)
    with driver.halts(step) as halts:
        ours = halts.during(session.start_sql("BEGIN", *lake.sql(UPDATE), "COMMIT"))
        assert halts.reached() == step
        published = lake.own_commits(path) == ["publish"]
        act(path)
        halts.go()
        error = ours.exception(TIMEOUT_S)
    if conflicts and not published:
        assert isinstance(error, DriverError)
        assert (error.main_condition, error.sql_state) == ("LAKESTEP_CONFLICT", "40001")
        assert error.parameters["rule"] == "same-file"
        session.sql("ROLLBACK")
        assert lake.rows(lake.tables[0]) == [OLD, OTHER]
        assert lake.rows(path) == theirs
    else:
        assert error is None
        assert lake.rows(lake.tables[0]) == [NEW, OTHER]
        assert lake.rows(path) == [NEW if row == OLD else row for row in theirs]
    lake.check_timeline()
    session.sql("BEGIN", *lake.sql("UPDATE {} SET v = 'later'"), "COMMIT")
    assert {v for table in lake.tables for _, v in lake.rows(table)} == {"later"}


def test_slot_that_another_writer_overwrites_is_named(drivers, tmp_path):
    lake = Lake(tmp_path, 2)
    [driver] = drivers(1)
    session = driver.session(lake.root)
    session.sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
    slot = Path(lake.tables[1], "_delta_log", f"{lake.version(lake.tables[1]):020}.json")
    append(lake.tables[1], (3, "x"))
    written = slot.with_name(f"{lake.version(lake.tables[1]):020}.json")
    # What a writer does that looks whether a version is free, and then writes it.
    written.replace(slot)
    reader = driver.session(lake.root)
    reader.sql("BEGIN")
    with pytest.raises(DriverError) as raised:
        reader.sql(*lake.sql("SELECT * FROM {}")[1:])
    assert raised.value.condition == "LAKESTEP_TABLE_OVERWRITTEN"
    assert raised.value.parameters["file"].endswith(str(slot))
    assert reader.sql(*lake.sql("SELECT * FROM {} ORDER BY id")[:1]) == [NEW, OTHER]


def test_table_made_anew_after_the_outcome_gets_no_checksum_of_ours(drivers, tmp_path):
    lake = Lake(tmp_path, 2)
    path = Path(lake.tables[1])
    [driver] = drivers(1)
    session = driver.session(lake.root)
    with driver.halts("decided:1") as halts:
        ours = halts.during(session.start_sql("BEGIN", *lake.sql(UPDATE), "COMMIT"))
        assert halts.reached() == "decided:1"
        path.rename(tmp_path / "old")
        lake.table(path.name, [(number, "anew") for number in range(4)])
        halts.go()
        ours.result(TIMEOUT_S)
    session.call("transactions:flush")
    checksums = {p.parent.parent.name: p.name for p in tmp_path.glob("*/_delta_log/*.crc")}
    # Before, the tables have none; without the fast paths nobody knows what it would be made from.
    derived = {} if FAST_PATHS else {Path(lake.tables[0]).name: f"{2:020}.crc"}
    assert checksums == derived


# Statements of plain Spark and Delta under an open transaction; the rule that an UPDATE of ours
# breaks, the rule that an INSERT of ours breaks.
STATEMENTS = {
    "INSERT INTO {t} VALUES (3, 'x')": (None, None),
    "UPDATE {t} SET v = 'x' WHERE id = 2": (None, None),
    "UPDATE {t} SET v = 'x' WHERE id = 1": ("same-file", None),
    "DELETE FROM {t}": ("same-file", None),
    "OPTIMIZE {t}": ("same-file", None),
    "RESTORE TABLE {t} TO VERSION AS OF 1": ("protocol-changed", "protocol-changed"),
    "ALTER TABLE {t} ADD COLUMN w INT": ("metadata-changed", "metadata-changed"),
    "ALTER TABLE {t} SET TBLPROPERTIES ('k' = 'v')": ("metadata-changed", "metadata-changed"),
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')": (
        "protocol-changed",
        "protocol-changed",
    ),
}
OURS = ["UPDATE {t} SET v = 'new' WHERE id = 1", "INSERT INTO {t} VALUES (9, 'new')"]


@pytest.mark.classic
@pytest.mark.sliced
@pytest.mark.parametrize("theirs", STATEMENTS)
@pytest.mark.parametrize("ours", [0, 1], ids=["update", "insert"])
def test_statement_of_plain_delta_under_a_transaction(
    spark, plain, table, tmp_path, no_transaction_left, theirs, ours
):
    beside = table("foreign_beside")
    path = tmp_path / "t"
    name = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta")
    for row in ("(1, 'a')", "(2, 'b')"):
        spark.sql(f"INSERT INTO {name} VALUES {row}")
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {beside} VALUES (9, 'new')")
    spark.sql(OURS[ours].format(t=name))
    plain.ask("sql", text=theirs.format(t=name))
    after = plain.ask("sql", text=f"SELECT id, v FROM {name}")
    rule = STATEMENTS[theirs][ours]
    if rule:
        with refused("LAKESTEP_CONFLICT", "40001"):
            commit(spark)
        [why] = spark.sql("EXPLAIN CONFLICT").collect()
        assert why["rule"] == rule
        rollback(spark)
        assert plain.ask("sql", text=f"SELECT id, v FROM {name}") == after
    else:
        commit(spark)
        new = plain.ask("sql", text=f"SELECT id, v FROM {name} WHERE v <> 'new'")
        assert new == [row for row in after if ours or row != '[1, "a"]']
        assert len(plain.ask("sql", text=f"SELECT id FROM {name} WHERE v = 'new'")) == 1
    assert spark.sql(f"SELECT * FROM {beside} WHERE id = 9").count() == (rule is None)


def test_transaction_older_than_the_retention_of_deleted_files_is_warned_of(drivers, tmp_path):
    lake = Lake(tmp_path, 2)
    [driver] = drivers(1)
    session = driver.session(lake.root)
    keep = "ALTER TABLE {} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval {}')"
    young, old = (f"delta.`{path}`" for path in lake.tables)
    session.sql(keep.format(young, "7 days"), keep.format(old, "0 seconds"))
    session.sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
    [warning] = [line for line in driver.log.read_text().splitlines() if "RetentionDur" in line]
    assert "WARN" in warning
    assert lake.tables[1] in warning
