"""Two statements on one table in one transaction.

What the first one stages (its effect) is met by every effect of the second one, on kinds of tables.
What is committed is what plain Delta makes of the same statements, its change feed and row ids
included.
"""

import json
import re

import pytest

import slices
import statement_kinds
import table_kinds
import table_state
from arena import head, read_by_delta_rs
from transactions import begin, commit, condition_of, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced,
]


def property_(key, value):
    return f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{key}' = '{value}')"


CHANGES_NOTHING = (
    "MERGE INTO {t} t USING (SELECT 1 AS id, 5 AS x) s ON t.id = s.id"
    " WHEN MATCHED AND s.x > 1000 THEN UPDATE SET n = 0"
    " WHEN NOT MATCHED AND s.x > 1000 THEN INSERT (id, part, v, n) VALUES (0, 'a', 'x', 0)"
)

FILES = {
    "append": "INSERT INTO {t} (id, part, v, n) VALUES (51, 'a', 'x', 51), (52, 'm', 'y', 52)",
    "change": "UPDATE {t} SET n = n + 1 WHERE id IN (1, 8, 51)",
    "remove": "DELETE FROM {t} WHERE id >= 7",
    "rearrange": "OPTIMIZE {t}",
}

HEADER = {
    "feed": property_("delta.enableChangeDataFeed", "true"),
    "no_feed": property_("delta.enableChangeDataFeed", "false"),
    "row_tracking": property_("delta.enableRowTracking", "true"),
    "row_ids": property_("delta.feature.rowTracking", "supported"),
    "no_row_tracking": property_("delta.enableRowTracking", "false"),
    "vectors": property_("delta.enableDeletionVectors", "true"),
    "no_vectors": property_("delta.enableDeletionVectors", "false"),
    "mapping": property_("delta.columnMapping.mode", "name"),
    "in_commit_times": property_("delta.enableInCommitTimestamps", "true"),
    "no_in_commit_times": property_("delta.enableInCommitTimestamps", "false"),
    "wider": "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
    "constraint": "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (n > 0)",
    "column": "ALTER TABLE {t} ADD COLUMN w INT",
    "no_column": "ALTER TABLE {t} DROP COLUMN n",
    "clustering": "ALTER TABLE {t} CLUSTER BY (id)",
}

EFFECTS = {**FILES, **HEADER, "change_nothing": CHANGES_NOTHING}

PAIRS = [
    (first, then)
    for first in (*FILES, *HEADER)
    for then in (*FILES, *HEADER)
    if first in FILES or then in FILES
]

KINDS = [
    "plain",
    "deletion_vectors",
    "change_data_feed",
    "row_tracking",
    "column_mapping",
    "in_commit_timestamps",
    "widened_preview",
    "many_features",
]

# What `make test` takes its slice of; the whole is for test-long.
FEW = {*FILES, "feed", "no_feed", "row_tracking"}
SMALL = [
    (kind, pair)
    for kind in ("plain", "change_data_feed", "row_tracking")
    for pair in PAIRS
    if FEW.issuperset(pair)
]

# Given anew to each table, or a time.
OWN = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.inCommitTimestampEnablementVersion",
)


def comparable(state, pair):
    """The state of a table without what several commits have otherwise than one."""
    found = dict(state)
    if "row_tracking" in pair:
        # In which order the files got their ids; and Delta sums no commit up that gives ids alone.
        del found["row_ids"], found["checksum"]
    found["properties"] = {k: v for k, v in state["properties"].items() if k not in OWN}
    found["changes"] = table_state.net(state.get("changes", ()))
    found["schema"] = re.sub('"tableVersion": [0-9]+', "", json.dumps(state["schema"]))
    # Their statistics differ where one commit has them united.
    found.pop("files")
    return found


def staged(spark, pair, target):
    """The condition of the first statement that failed; None if none did."""
    for effect in pair:
        try:
            statement_kinds.run(spark, EFFECTS[effect], target)
        except Exception as failure:
            return condition_of(failure)
    return None


@pytest.mark.sliced(1)
def test_every_pair_is_committed(spark, arena):
    """The pairs of a slice at once: one transaction, each pair on a table of its own."""
    targets = {case: arena.table(case[0]) for case in slices.part(SMALL)}
    since = {case: head(target.path) for case, target in targets.items()}
    begin(spark)
    conditions = {case: staged(spark, case[1], target) for case, target in targets.items()}
    # Delta's and Spark's own are met in test-long.
    assert not [c for c in filter(None, conditions.values()) if c.startswith("LAKESTEP_")]
    assert None in conditions.values()
    rows = {case: read(spark, target) for case, target in targets.items()}
    commit(spark)
    for case, target in targets.items():
        # What switches row tracking on is two commits of Delta's.
        assert head(target.path) <= since[case] + 4, case
        assert read(spark, target) == rows[case], case


def read(session, target):
    return sorted(map(str, session.sql(f"SELECT * FROM {target.sql}").collect()))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_pair_is_what_plain_delta_makes_of_it(spark, arena, kind):
    pairs = [pair for pair in PAIRS if pair[0] != pair[1]]
    expected = {p: arena.expected(kind, EFFECTS[p[0]], EFFECTS[p[1]]) for p in pairs}
    targets = {pair: arena.table(kind) for pair in pairs}
    since = {pair: head(target.path) for pair, target in targets.items()}
    begin(spark)
    conditions = {pair: staged(spark, pair, target) for pair, target in targets.items()}
    commit(spark)
    different = []
    for pair, target in targets.items():
        wanted, condition = expected[pair].result(), conditions[pair]
        if condition is None:
            found = comparable(arena.state(target.path, since[pair]), pair)
            if wanted["condition"] or found != comparable(wanted["state"], pair):
                different.append((pair, wanted["condition"], found, wanted.get("state")))
        elif not condition.startswith("LAKESTEP_"):
            assert condition == wanted["condition"], pair
    assert different == []


SAME = {
    "feed_then_change": ("plain", ("feed", "change")),
    "append_twice_under_a_feed": ("change_data_feed", ("append", "append")),
    "change_then_in_commit_times": ("plain", ("change", "in_commit_times")),
    "row_ids_then_append": ("plain", ("row_ids", "append")),
    "append_then_wider": ("widened_preview", ("append", "wider")),
    "wider_then_change": ("widened_preview", ("wider", "change")),
    "change_then_no_row_tracking": ("row_tracking", ("change", "no_row_tracking")),
    "remove_then_mapping": ("plain", ("remove", "mapping")),
    "change_then_constraint": ("deletion_vectors", ("change", "constraint")),
    "changes_under_a_feed": ("change_data_feed", ("change", "remove")),
    "append_then_change_under_a_feed": ("change_data_feed", ("append", "change")),
    "change_then_append_under_a_feed": ("change_data_feed", ("change", "append")),
    "change_then_feed": ("plain", ("change", "feed")),
    "change_then_no_feed": ("change_data_feed", ("change", "no_feed")),
    "no_change_then_append_under_a_feed": ("change_data_feed", ("change_nothing", "append")),
    "rows_that_are_new_are_changed": ("row_tracking", ("append", "change")),
    "rows_that_are_changed_go": ("row_tracking", ("change", "remove")),
    "append_then_row_tracking": ("plain", ("append", "row_tracking")),
    "append_then_row_ids": ("plain", ("append", "row_ids")),
    "rearrange_then_change": ("plain", ("rearrange", "change")),
    "change_then_rearrange_with_vectors": ("deletion_vectors", ("change", "rearrange")),
    "change_then_rearrange_with_row_ids": ("row_tracking", ("change", "rearrange")),
}

# How many commits COMMIT makes where it is more than one.
COMMITS = {
    "changes_under_a_feed": 2,
    "append_then_change_under_a_feed": 2,
    "change_then_append_under_a_feed": 2,
    "change_then_feed": 2,
    "change_then_no_feed": 2,
    "no_change_then_append_under_a_feed": 2,
    "rows_that_are_new_are_changed": 2,
    "rows_that_are_changed_go": 2,
    "append_then_row_tracking": 2,
    "append_then_row_ids": 2,
    "rearrange_then_change": 2,
    "change_then_rearrange_with_vectors": 2,
    "change_then_rearrange_with_row_ids": 2,
}


@pytest.mark.parametrize("name", SAME)
def test_two_statements_are_what_plain_delta_makes_of_them(spark, arena, name):
    kind, pair = SAME[name]
    expected = arena.expected(kind, *(EFFECTS[effect] for effect in pair))
    target = arena.table(kind)
    since = head(target.path)
    begin(spark)
    assert staged(spark, pair, target) is None
    commit(spark)
    assert head(target.path) == since + COMMITS.get(name, 1)
    found = comparable(arena.state(target.path, since), pair)
    assert found == comparable(expected.result()["state"], pair)
    if table_kinds.KINDS[kind].delta_rs_reads and "row_ids" not in pair:
        assert read_by_delta_rs(target.path) == expected.result()["view"]["rows"]


def test_type_change_says_the_version_in_which_it_is_published(spark, arena):
    target = arena.table("widened_preview")
    begin(spark)
    for effect in ("append", "column", "wider"):
        statement_kinds.run(spark, EFFECTS[effect], target)
    commit(spark)
    schema = arena.state(target.path, head(target.path))["schema"]
    [column] = [f for f in schema["fields"] if f["name"] == "n"]
    [change] = column["metadata"]["delta.typeChanges"]
    assert change["tableVersion"] == head(target.path)


SWITCHES = {
    "on": ("plain", ["true"]),
    "on_in_capitals": ("plain", ["TRUE"]),
    "off_and_on": ("in_commit_timestamps", ["false", "true"]),
}


@pytest.mark.parametrize(("kind", "values"), SWITCHES.values(), ids=list(SWITCHES))
def test_versions_are_found_by_time_where_a_transaction_switched_their_clock(
    spark, arena, kind, values
):
    target = arena.table(kind)
    first = head(target.path)
    begin(spark)
    statement_kinds.run(spark, FILES["append"], target)
    for value in values:
        statement_kinds.run(spark, property_("delta.enableInCommitTimestamps", value), target)
    commit(spark)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    spark.sql(f"INSERT INTO {target.sql} (id, part, v, n) VALUES (99, 'a', 'after', 99)")
    commits = spark.sql(f"DESCRIBE HISTORY {target.sql}").where(f"version >= {first}").collect()
    assert len(commits) == 3
    for row in commits:
        by_time = spark.sql(f"SELECT id FROM {target.sql} TIMESTAMP AS OF '{row['timestamp']}'")
        by_version = spark.sql(f"SELECT id FROM {target.sql} VERSION AS OF {row['version']}")
        assert sorted(by_time.collect()) == sorted(by_version.collect())


@pytest.mark.parametrize("how", ["CACHE TABLE", "frame"])
def test_cached_data_does_not_show_a_statement_that_was_taken_back(spark, table, how):
    one, two, kept = table("cached_one"), table("cached_two"), table("kept", rows=())
    begin(spark)
    cached = spark.table(one)
    spark.sql(f"CACHE TABLE {one}") if how == "CACHE TABLE" else cached.cache().count()
    with pytest.raises(Exception, match="stop"):
        spark.sql(
            f"FROM (SELECT id FROM range(1)) INSERT INTO {one} SELECT 66, 'phantom'"
            f" INSERT INTO {two} SELECT IF(id >= 0, raise_error('stop'), 1), 'x'"
        )
    assert sorted(row["id"] for row in spark.table(one).collect()) == [1, 2]
    spark.sql(f"INSERT INTO {kept} SELECT * FROM {one}")
    commit(spark)
    assert sorted(row["id"] for row in spark.table(kept).collect()) == [1, 2]
    spark.catalog.clearCache()


def test_refused_statement_leaves_nothing_that_refuses_the_next(spark, arena):
    target = arena.table("plain")
    begin(spark)
    statement_kinds.run(spark, FILES["append"], target)
    with refused("LAKESTEP_FOREIGN_WRITERS_INVALID", "22023"):
        statement_kinds.run(spark, property_("lakestep.foreignWriters", "sometimes"), target)
    statement_kinds.run(spark, FILES["change"], target)
    assert commit(spark)["tables"] == 1


def test_statement_that_cannot_be_run_again_leaves_the_conflict(spark, other_session, arena):
    """Step 13: what others have done refuses the second statement."""
    target = arena.table("plain")
    spark.conf.set("spark.lakestep.commit.redoStatements", "true")
    try:
        spark.sql("BEGIN")
        spark.sql(FILES["append"].format(t=target.sql))
        spark.sql(f"UPDATE {target.sql} SET n = 0 WHERE id = 1")
        other_session.sql(f"UPDATE {target.sql} SET n = 9 WHERE id = 1")
        other_session.sql(property_("delta.appendOnly", "true").format(t=target.sql))
        with refused("LAKESTEP_CONFLICT.SAME_FILE", "40001"):
            spark.sql("COMMIT")
        rollback(spark)
    finally:
        spark.conf.set("spark.lakestep.commit.redoStatements", "false")
