"""Several statements and several tables in one transaction, against plain Delta."""

from pathlib import Path

import pytest

import files_on_disk
import statement_kinds
import table_kinds
import table_state
from arena import head, read_by_delta_rs
from transactions import begin, commit, condition_of

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced,
]

INSERT = "INSERT INTO {t} (id, part, v, n) VALUES (51, 'a', 'x', 51), (52, 'm', 'y', 52)"

SEQUENCES = {
    "insert_update_delete_of_the_same_rows": (
        INSERT,
        "UPDATE {t} SET n = n + 1 WHERE id IN (1, 51, 52)",
        "DELETE FROM {t} WHERE id IN (2, 52)",
    ),
    "insert_then_delete_all_of_it": (INSERT, "DELETE FROM {t} WHERE id > 50"),
    "update_twice": (
        "UPDATE {t} SET n = n + 1 WHERE id IN (1, 3)",
        "UPDATE {t} SET n = n + 1 WHERE id IN (1, 4)",
    ),
    "delete_row_by_row_until_files_are_empty": tuple(
        f"DELETE FROM {{t}} WHERE id = {i}" for i in range(1, 7)
    ),
    "overwrite_then_insert": ("insert_overwrite", INSERT),
    "insert_then_overwrite": (INSERT, "insert_overwrite"),
    "add_column_then_insert": (
        "ALTER TABLE {t} ADD COLUMN w INT",
        "INSERT INTO {t} (id, part, v, n, w) VALUES (51, 'a', 'x', 51, 7)",
        "UPDATE {t} SET w = 8 WHERE id = 1",
    ),
    "schema_evolution_then_merge": ("merge_schema_evolution", "merge"),
    "constraint_then_rows_that_keep_it": (
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (n > 0)",
        INSERT,
    ),
    "data_frame_and_sql_and_delta_table": (
        "write_append",
        "for_path_update",
        "delete",
        "for_name_merge",
        "save_as_table",
    ),
    "properties_and_rows": ("metadata", INSERT, "set_properties", "unset_properties"),
}

ON_OTHER_TABLES = {
    "rename_column_then_insert": (
        "column_mapping",
        (
            "ALTER TABLE {t} RENAME COLUMN n TO m",
            "INSERT INTO {t} (id, part, v, m) VALUES (51, 'a', 'x', 51)",
            "ALTER TABLE {t} DROP COLUMN v",
            "UPDATE {t} SET m = 0 WHERE id IN (1, 51)",
        ),
    ),
    "column_dropped_and_added_again": (
        "column_mapping",
        ("ALTER TABLE {t} DROP COLUMN n", "ALTER TABLE {t} ADD COLUMN n INT", "update"),
    ),
    "identity_column_twice": ("identity_column", (INSERT, INSERT, "delete", INSERT)),
    "deletion_vectors_on_deletion_vectors": (
        "deletion_vectors",
        (
            "DELETE FROM {t} WHERE id = 1",
            "DELETE FROM {t} WHERE id = 91",
            INSERT,
            "DELETE FROM {t} WHERE id IN (51, 3)",
            "UPDATE {t} SET n = 0 WHERE id > 5",
        ),
    ),
    "metadata_then_rows_with_row_ids": ("row_tracking", ("metadata", "update", "add_column")),
    "metadata_then_rows_with_change_feed": (
        "change_data_feed",
        ("metadata", "update", "add_column"),
    ),
    "feature_added_then_used": (
        "plain",
        (
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
            "DELETE FROM {t} WHERE id = 1",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "ALTER TABLE {t} RENAME COLUMN n TO m",
        ),
    ),
}


# In each of these a statement may need a commit of its own.
SEVERAL_COMMITS = ("change_data_feed", "row_tracking", "feed_row_ids_vectors")
SMALL = ("plain", "feed_row_ids_vectors")


def cases():
    for name, sequence in SEQUENCES.items():
        for kind in table_kinds.KINDS.values():
            marks = () if kind.name in SMALL else (pytest.mark.long,)
            yield pytest.param(kind.name, sequence, id=f"{name}-{kind.name}", marks=marks)
    for name, (other, sequence) in ON_OTHER_TABLES.items():
        yield pytest.param(other, sequence, id=name)
    for name in ("insert_update_delete_of_the_same_rows", "update_twice"):
        yield pytest.param("many_features", SEQUENCES[name], id=f"{name}-again")


@pytest.mark.parametrize(("kind", "sequence"), list(cases()))
def test_statements_together_make_what_plain_delta_makes_of_them(spark, arena, kind, sequence):
    expected = arena.expected(kind, *sequence)
    target = arena.table(kind)
    files = files_on_disk.prints(target.path)
    since = head(target.path)
    begin(spark)
    condition = None
    for statement in sequence:
        try:
            statement_kinds.run(spark, statement, target)
        except Exception as failure:
            condition = condition_of(failure)
            break
    assert condition == expected.result()["condition"], expected.result().get("message")
    if condition is not None:
        return
    assert table_state.view(spark, target.sql) == expected.result()["view"]
    files_on_disk.assert_log_untouched(target.path, files)
    commit(spark)
    files_on_disk.assert_kept(target.path, files)
    commits = len(sequence) if kind in SEVERAL_COMMITS else 1
    assert head(target.path) <= since + commits
    found, wanted = arena.state(target.path, since), dict(expected.result()["state"])
    if "changes" in wanted:
        table_state.assert_feed_is_part_of(found.pop("changes"), wanted.pop("changes"))
    if kind in ("row_tracking", "in_commit_timestamps"):
        # Plain Delta spread over several versions what is one here.
        found, wanted = without_versions(found), without_versions(wanted)
    assert found == wanted


def without_versions(state):
    return {key: value for key, value in state.items() if key not in ("row_ids", "files")}


def test_twelve_statements_of_two_tables_write_no_checkpoint_before_commit(spark, arena):
    sequence = tuple(
        f"INSERT INTO {{t}} (id, part, v, n) VALUES ({i}, 'a', 'x', {i})" for i in range(100, 112)
    )
    kinds = ("plain", "checkpoints")
    expected = {kind: arena.expected(kind, *sequence) for kind in kinds}
    targets = {kind: arena.table(kind) for kind in kinds}
    files = {kind: files_on_disk.prints(targets[kind].path) for kind in kinds}
    since = {kind: head(targets[kind].path) for kind in kinds}
    begin(spark)
    for statement in sequence:
        for target in targets.values():
            statement_kinds.run(spark, statement, target)
    for kind, target in targets.items():
        assert table_state.view(spark, target.sql) == expected[kind].result()["view"]
        files_on_disk.assert_log_untouched(target.path, files[kind])
    assert commit(spark)["tables"] == 2
    for kind, target in targets.items():
        assert head(target.path) == since[kind] + 1
        assert arena.state(target.path, since[kind]) == expected[kind].result()["state"]
        assert read_by_delta_rs(target.path) == expected[kind].result()["view"]["rows"]


def test_commit_at_a_due_version_leaves_a_checkpoint_that_plain_delta_reads(spark, arena):
    target = arena.table("checkpoints")
    since = head(target.path)
    for _ in range(2):
        begin(spark)
        statement_kinds.run(spark, "update", target)
        commit(spark)
    due = since + 2 - since % 2
    log = Path(target.path, "_delta_log")
    assert list(log.glob(f"{due:020d}.checkpoint*.parquet"))
    rows = table_state.view(spark, target.sql)["rows"]
    assert arena.state(target.path, since)["rows"] == rows
    for old in log.glob("*.json"):
        if old.name[:20].isdigit() and int(old.name[:20]) < due:
            old.unlink()
    assert read_by_delta_rs(target.path) == rows


def test_all_tables_of_a_transaction_change_at_commit(spark, other_session, arena):
    changes = {
        "plain": "update",
        "partitioned": "insert_overwrite_dynamic",
        "deletion_vectors": "delete",
        "column_mapping": "rename_column",
        "identity_column": "insert_values",
    }
    expected = {kind: arena.expected(kind, change) for kind, change in changes.items()}
    targets = {kind: arena.table(kind) for kind in changes}
    before = {k: table_state.view(other_session, t.sql)["rows"] for k, t in targets.items()}
    since = {kind: head(target.path) for kind, target in targets.items()}
    begin(spark)
    for kind, change in changes.items():
        statement_kinds.run(spark, change, targets[kind])
    for kind, target in targets.items():
        assert table_state.view(other_session, target.sql)["rows"] == before[kind]
    assert commit(spark)["tables"] == len(changes)
    for kind, target in targets.items():
        wanted = expected[kind].result()
        assert table_state.view(other_session, target.sql)["rows"] == wanted["view"]["rows"]
        assert arena.state(target.path, since[kind]) == wanted["state"]
