"""Every class of plans that a transaction stages is met by a case of the matrices."""

from pathlib import Path

import pytest

import name_cases
import statement_kinds
import table_kinds
from built import TOP
from transactions import begin, rollback

COMMANDS = TOP / "scala/src/main/resources/lakestep-commands.tsv"
LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
DELTA = "org.apache.spark.sql.delta.commands"

# Delta runs them by themselves inside a statement that has a case: no plan holds them.
INSIDE = {
    f"{DELTA}.{name}"
    for name in (
        "AlterTableAddColumnsDeltaCommand",
        "AlterTableAddConstraintDeltaCommand",
        "AlterTableChangeColumnDeltaCommand",
        "AlterTableClusterByDeltaCommand",
        "AlterTableDropColumnsDeltaCommand",
        "AlterTableDropConstraintDeltaCommand",
        "AlterTableReplaceColumnsDeltaCommand",
        "AlterTableSetLocationDeltaCommand",
        "AlterTableUnsetPropertiesDeltaCommand",
        "DeltaInsertReplaceOnOrUsingCommand",
        "WriteIntoDelta",
    )
}

# Spark's, in whose place there is one of Delta's, or of its second catalog: for what comes.
OF_SPARK = {
    *(
        f"{LOGICAL}.{name}"
        for name in (
            "AddCheckConstraint",
            "AddConstraint",
            "AlterTableClusterBy",
            "DeleteFromTableWithFilters",
            "DropConstraint",
            "InsertOnlyMerge",
            "ReplaceData",
            "WriteDelta",
        )
    ),
    *(
        f"org.apache.spark.sql.execution.command.{name}DatabaseCommand"
        for name in ("Create", "Drop")
    ),
    "org.apache.spark.sql.execution.command.AlterDatabasePropertiesCommand",
}

NOTED = {"spark.sql.extensions": "io.lakestep.sql.guard.SeenPlans"}


def of_all_cases(spark, folder):
    """The classes of the plans of all cases, in transactions that are rolled back."""
    targets = {}
    for name in sorted({kind.table for kind in statement_kinds.KINDS.values()}):
        table_kinds.create(spark, name, f"{folder}/{name}")
        spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{folder}/{name}'")
        targets[name] = statement_kinds.Target(name, f"{folder}/{name}")
    for kind in statement_kinds.KINDS.values():
        begin(spark)
        kind.run(spark, targets[kind.table])
        rollback(spark)
    for case in name_cases.CASES.values():
        with name_cases.schemas(spark, case, "cases", folder=folder):
            begin(spark)
            name_cases.run(spark, case.steps, "cases", folder)
    return sorted(spark._jvm.io.lakestep.sql.guard.SeenPlans.seen())


def staged():
    for line in Path(COMMANDS).read_text().splitlines():
        if not line.startswith("#") and line.split("\t")[1] in ("STAGED", "NAMED"):
            yield line.split("\t")[0]


@pytest.mark.sliced(6)
def test_every_class_that_is_staged_has_a_case(pool, tmp_path):
    session = pool.start(NOTED).session(tmp_path / "timeline")
    seen = session.call("test_catalogue:of_all_cases", folder=str(tmp_path))
    assert sorted(set(staged()) - set(seen)) == sorted(INSIDE | OF_SPARK)
