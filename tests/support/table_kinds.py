"""The tables of the matrix: one for each feature of Delta that a transaction must respect.

Every table has the columns id, part, v and n, and rows in several files; what else it has is what
its feature needs.
"""

from dataclasses import dataclass, field

COLUMNS = "id INT, part STRING, v STRING, n INT"
ROWS = (
    "(1, 'a', 'one', 1), (2, 'a', 'two', 2), (3, 'b b', 'three', 3), (4, 'b b', 'four', 4), "
    "(5, 'ç%+', 'five', 5), (6, 'ç%+', 'six', 6)"
)
MORE = "(7, 'a', 'seven', 7), (8, NULL, 'eight', 8)"


@dataclass(frozen=True)
class TableKind:
    name: str
    columns: str = COLUMNS
    clause: str = ""
    properties: dict = field(default_factory=dict)
    then: tuple = ()
    delta_rs_reads: bool = True


KINDS = {
    kind.name: kind
    for kind in (
        TableKind("plain"),
        TableKind(
            "checkpoints",
            properties={"delta.checkpointInterval": "2"},
            then=("UPDATE {t} SET n = n + 0 WHERE id = 1", "DELETE FROM {t} WHERE id = 100"),
        ),
        TableKind(
            "v2_checkpoints",
            properties={"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"},
        ),
        TableKind(
            "deletion_vectors",
            properties={"delta.enableDeletionVectors": "true"},
            then=(
                "INSERT INTO {t} (id, part, v, n) VALUES (90, 'a', 'gone', 9), (91, 'a', 'x', 9)",
                "DELETE FROM {t} WHERE id IN (2, 90)",
            ),
        ),
        TableKind(
            "column_mapping",
            columns=COLUMNS + ", `odd, name` INT",
            properties={"delta.columnMapping.mode": "name"},
            then=("ALTER TABLE {t} RENAME COLUMN `odd, name` TO `odder; name`",),
        ),
        TableKind("column_mapping_by_id", properties={"delta.columnMapping.mode": "id"}),
        TableKind("generated_column", columns=COLUMNS + ", g INT GENERATED ALWAYS AS (n * 2)"),
        TableKind("identity_column", columns=COLUMNS + ", k BIGINT GENERATED ALWAYS AS IDENTITY"),
        TableKind(
            "check_constraint", then=("ALTER TABLE {t} ADD CONSTRAINT small CHECK (n < 1000)",)
        ),
        TableKind("in_commit_timestamps", properties={"delta.enableInCommitTimestamps": "true"}),
        TableKind("clustered", clause="CLUSTER BY (part)"),
        TableKind("partitioned", clause="PARTITIONED BY (part)"),
        TableKind("change_data_feed", properties={"delta.enableChangeDataFeed": "true"}),
        TableKind("row_tracking", properties={"delta.enableRowTracking": "true"}),
        TableKind(
            "feed_row_ids_vectors",
            properties={
                "delta.enableChangeDataFeed": "true",
                "delta.enableRowTracking": "true",
                "delta.enableDeletionVectors": "true",
            },
            then=("DELETE FROM {t} WHERE id = 2",),
        ),
        TableKind(
            "widened_preview",
            properties={
                "delta.feature.typeWidening-preview": "supported",
                "delta.enableTypeWidening": "true",
            },
            then=("ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",),
            delta_rs_reads=False,
        ),
        TableKind(
            "many_features",
            columns=COLUMNS + ", g INT GENERATED ALWAYS AS (n * 2)",
            clause="PARTITIONED BY (part)",
            properties={
                "delta.columnMapping.mode": "name",
                "delta.enableDeletionVectors": "true",
                "delta.enableInCommitTimestamps": "true",
                "delta.checkpointInterval": "3",
            },
            then=("DELETE FROM {t} WHERE id = 2",),
        ),
    )
}


def create(session, kind, path):
    """Makes the table with plain Delta: three commits at least."""
    kind = KINDS[kind]
    t = f"delta.`{path}`"
    settings = {"my.note": "kept", **kind.properties}
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
    session.sql(
        f"CREATE TABLE {t} ({kind.columns}) USING delta {kind.clause} TBLPROPERTIES ({properties})"
    )
    for rows in (ROWS, MORE):
        session.sql(f"INSERT INTO {t} (id, part, v, n) VALUES {rows}")
    for statement in kind.then:
        session.sql(statement.format(t=t))
