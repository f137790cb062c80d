"""What goes wrong from outside: the condition says it, and nothing is lost or half done."""

import contextlib
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import deltalake
import pyspark
import pytest

import lakestep
from driver import DriverError
from lake import Lake, append
from lakestep import _build
from transactions import is_one_of

pytestmark = pytest.mark.sliced

BEFORE = [(1, "old"), (2, "old")]
AFTER = [(1, "new"), (2, "old")]
UPDATE = "UPDATE {} SET v = 'new' WHERE id = 1"


@pytest.fixture
def driver(drivers):
    [driver] = drivers(1)
    return driver


@contextlib.contextmanager
def refused(condition, sql_state):
    """Expect this condition; the error is in the list that is given."""
    with pytest.raises(DriverError) as raised:
        yield raised
    error = raised.value
    assert is_one_of(error.condition, condition) and error.sql_state == sql_state, error


def check_usable(session, lake):
    """The session takes a new transaction over all tables, and its timeline is in order."""
    session.sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
    for path in lake.tables:
        assert lake.rows(path)[0] == (1, "new")
    lake.check_timeline()


def test_statements_in_the_wrong_order(driver, tmp_path):
    lake = Lake(tmp_path, 1)
    session = driver.session(lake.root)
    for statement in ("COMMIT", "ROLLBACK"):
        with refused("LAKESTEP_NO_ACTIVE_TRANSACTION", "25P01"):
            session.sql(statement)
    session.sql("BEGIN", *lake.sql(UPDATE))
    with refused("LAKESTEP_TRANSACTION_ALREADY_ACTIVE", "25001"):
        session.sql("BEGIN")
    with refused("TABLE_OR_VIEW_NOT_FOUND", "42P01"):
        session.sql("UPDATE nowhere SET v = 'new'")
    assert session.sql("SELECT * FROM delta.`" + lake.tables[0] + "` ORDER BY id") == AFTER
    session.sql("COMMIT")
    assert lake.rows(lake.tables[0]) == AFTER


def test_nothing_runs_after_a_failed_commit_until_rollback(driver, tmp_path):
    lake = Lake(tmp_path, 2)
    session = driver.session(lake.root)
    session.sql("BEGIN", *lake.sql(UPDATE))
    deltalake.DeltaTable(lake.tables[1]).delete("id = 1")
    with refused("LAKESTEP_CONFLICT", "40001"):
        session.sql("COMMIT")
    for statement in (*lake.sql("SELECT * FROM {}"), *lake.sql(UPDATE), "BEGIN", "COMMIT"):
        with refused("LAKESTEP_TRANSACTION_FAILED", "25P02"):
            session.sql(statement)
    [(failed, _, _, state, *_)] = session.sql("SHOW TRANSACTIONS")
    assert state == "FAILED"
    assert session.sql("ROLLBACK") == [(failed,)]
    assert lake.requested() == set()
    assert not any(list(Path(path).glob("_delta_log/_lakestep/t*/*")) for path in lake.tables)
    assert [lake.rows(path) for path in lake.tables] == [BEFORE, [(2, "old")]]
    assert lake.entry_numbers() == []


def drop(path):
    shutil.rmtree(path)


def replace(path):
    shutil.rmtree(path)
    Lake(Path(path).parent).table(Path(path).name)


def replace_with_as_many_versions(path):
    replace(path)
    append(path, (3, "other"))


@pytest.mark.parametrize("change", [drop, replace, replace_with_as_many_versions])
def test_table_that_is_dropped_or_replaced_under_a_transaction(driver, tmp_path, change):
    lake = Lake(tmp_path, 2)
    session = driver.session(lake.root)
    session.sql("BEGIN", *lake.sql(UPDATE))
    change(lake.tables[1])
    with refused("LAKESTEP_CONFLICT", "40001") as raised:
        session.sql("COMMIT")
    assert raised.value.parameters["rule"] == "table-is-gone"
    assert raised.value.parameters["table"] == f"file:{lake.tables[1]}"
    session.sql("ROLLBACK")
    assert lake.rows(lake.tables[0]) == BEFORE
    assert lake.own_commits(lake.tables[0]) == []
    lake.tables = lake.tables[:1] if change is drop else lake.tables
    check_usable(session, lake)


def test_table_with_a_new_schema_under_a_transaction(driver, tmp_path):
    lake = Lake(tmp_path, 2)
    session = driver.session(lake.root)
    session.sql("BEGIN", *lake.sql(UPDATE))
    table = deltalake.DeltaTable(lake.tables[1])
    table.alter.add_columns([deltalake.Field("w", deltalake.schema.PrimitiveType("string"))])
    with refused("LAKESTEP_CONFLICT", "40001") as raised:
        session.sql("COMMIT")
    assert raised.value.parameters["rule"] == "metadata-changed"
    session.sql("ROLLBACK")
    assert lake.rows(lake.tables[0]) == BEFORE
    check_usable(session, lake)


def vacuum(path):
    """What no one may do while others write: every file that no commit names yet is deleted."""
    deleted = deltalake.DeltaTable(path).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True
    )
    assert deleted


@pytest.mark.parametrize("sync", ["true", "false"])
def test_staged_files_that_a_foreign_vacuum_deletes(driver, tmp_path, sync):
    lake = Lake(tmp_path, 2)
    session = driver.session(lake.root, **{"spark.lakestep.commit.syncFiles": sync})
    session.sql("BEGIN", *lake.sql(UPDATE))
    vacuum(lake.tables[1])
    with refused("LAKESTEP_STAGED_FILE_LOST", "58030") as raised:
        session.sql("COMMIT")
    assert lake.tables[1] in raised.value.parameters["file"]
    session.sql("ROLLBACK")
    assert [lake.rows(path) for path in lake.tables] == [BEFORE] * 2
    assert lake.entry_numbers() == []
    check_usable(session, lake)


def test_files_of_the_snapshot_that_a_foreign_vacuum_deletes(driver, tmp_path):
    lake = Lake(tmp_path, 2)
    session = driver.session(lake.root)
    session.sql("BEGIN", *lake.sql("SELECT * FROM {}"))
    deltalake.DeltaTable(lake.tables[1]).delete("id = 1")
    vacuum(lake.tables[1])
    session.sql(*lake.sql(UPDATE)[:1])
    with pytest.raises(DriverError):
        session.sql(*lake.sql(UPDATE)[1:])
    session.sql("ROLLBACK")
    assert [lake.rows(path) for path in lake.tables] == [BEFORE, [(2, "old")]]
    lake.tables = lake.tables[:1]
    check_usable(session, lake)


def cut(file):
    file.write_bytes(file.read_bytes()[:-20])


def change_a_byte(file):
    file.write_bytes(file.read_bytes().replace(b'"pin"', b'"pim"').replace(b"timeMs", b"timeMx"))


@pytest.mark.parametrize("damage", [cut, change_a_byte])
@pytest.mark.parametrize("kind", ["", ".outcome"])
def test_damaged_file_of_the_timeline(drivers, tmp_path, kind, damage):
    writer, reader = drivers(2)
    lake = Lake(tmp_path, 2)
    writer.session(lake.root).sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
    file = lake.root / "timeline" / f"{1:020}{kind}.json"
    whole = file.read_bytes()
    damage(file)
    session = reader.session(lake.root)
    for statement in ("BEGIN", "RECOVER", "SHOW TRANSACTIONS"):
        with refused("LAKESTEP_TIMELINE_CORRUPT", "XX001") as raised:
            session.sql(statement)
        assert raised.value.parameters["file"].endswith(file.name)
    file.write_bytes(whole)
    assert [lake.rows(path) for path in lake.tables] == [AFTER] * 2
    check_usable(session, lake)


def test_damaged_format_and_binding(drivers, tmp_path):
    writer, reader = drivers(2)
    lake = Lake(tmp_path, 2)
    writer.session(lake.root).sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
    session = reader.session(lake.root)
    binding = Path(lake.tables[1]) / "_delta_log" / "_lakestep" / "timeline.json"
    for file, statements in (
        (lake.root / "format.json", ["BEGIN"]),
        (binding, ["BEGIN", *lake.sql(UPDATE)]),
    ):
        whole = file.read_bytes()
        cut(file)
        with refused("LAKESTEP_TIMELINE_CORRUPT", "XX001") as raised:
            session.sql(*statements)
        assert raised.value.parameters["file"].endswith(file.name)
        file.write_bytes(whole)
    session.sql("ROLLBACK")
    assert [lake.rows(path) for path in lake.tables] == [AFTER] * 2
    check_usable(session, lake)


def test_binding_that_cannot_be_looked_at_is_not_taken_for_absent(drivers, tmp_path):
    writer, reader = drivers(2)
    lake = Lake(tmp_path, 2)
    writer.session(lake.root).sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
    session = reader.session(lake.root)
    folder = Path(lake.tables[1]) / "_delta_log" / "_lakestep"
    away = folder.rename(tmp_path / "away")
    # Hadoop's local file system shows a link to itself as it does what is forbidden: as absent.
    folder.symlink_to(folder)
    query = "SELECT count(*) FROM {} UNION ALL SELECT count(*) FROM {}"
    for statement in (query.format(*lake.sql("{}")), *lake.sql(UPDATE, lake.tables[1:])):
        with refused("LAKESTEP_STORE_READ_FAILED", "58030"):
            session.sql(statement)
    folder.unlink()
    away.rename(folder)
    assert [lake.rows(path) for path in lake.tables] == [AFTER] * 2
    check_usable(session, lake)


def test_damaged_staged_commit_of_a_dead_client_keeps_the_entry_open(drivers, tmp_path):
    stopped, helper = drivers(2)
    lake = Lake(tmp_path, 2)
    with stopped.halts("ordered:1") as halts:
        owner = stopped.session(lake.root)
        commit = halts.during(owner.start_sql("BEGIN", *lake.sql(UPDATE), "COMMIT"))
        assert halts.reached() == "ordered:1"
        [staged] = Path(lake.tables[1]).glob("_delta_log/_lakestep/t*/commit-*.json")
        whole = staged.read_bytes()
        cut(staged)
        session = helper.session(lake.root)
        [[entry, _, outcome, _]] = session.sql("RECOVER")
        assert entry == 1
        assert outcome.startswith("FAILED")
        with refused("LAKESTEP_ENTRY_UNFINISHED", "57011") as raised:
            session.sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
        assert raised.value.parameters["entry"] == "1"
        session.sql("ROLLBACK")
        staged.write_bytes(whole)
        [[_, _, outcome, _]] = session.sql("RECOVER")
        assert outcome == "COMPLETED"
        halts.go()
        commit.result()
    assert [lake.rows(path) for path in lake.tables] == [AFTER] * 2
    check_usable(session, lake)


def test_root_that_is_no_folder(driver, tmp_path):
    lake = Lake(tmp_path, 2)
    lake.root.write_text("a file")
    session = driver.session(lake.root)
    with refused("LAKESTEP_STORE_WRITE_FAILED", "58030"):
        session.sql("BEGIN")
    lake.root.unlink()
    assert [lake.rows(path) for path in lake.tables] == [BEFORE] * 2
    check_usable(session, lake)


def test_table_belongs_to_the_root_that_wrote_it_first(drivers, tmp_path):
    one, other = drivers(2)
    lake = Lake(tmp_path, 2)
    one.session(lake.root).sql("BEGIN", *lake.sql(UPDATE), "COMMIT")
    stranger = Lake(tmp_path)
    stranger.root = tmp_path / "another timeline"
    session = other.session(stranger.root)
    free = lake.table("free")
    session.sql("BEGIN", *lake.sql(UPDATE, [free]))
    for statement in ("SELECT * FROM {}", UPDATE):
        with refused("LAKESTEP_TABLE_OF_ANOTHER_TIMELINE", "55000"):
            session.sql(*lake.sql(statement))
    session.sql("COMMIT")
    assert lake.rows(free) == AFTER
    assert [lake.rows(path) for path in lake.tables] == [AFTER] * 2
    assert [lake.own_commits(path) for path in lake.tables] == [["publish"]] * 2
    stranger.check_timeline()
    check_usable(one.session(lake.root), lake)


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a file system of a few MiB; its content goes away with it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a file system is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder):
    """Leave no space; return the file to delete."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as out:
        while True:
            out.write(bytes(4096))
    return filler


def test_disk_that_is_full_while_a_statement_stages(driver, small_disk):
    lake = Lake(small_disk, 2)
    session = driver.session(lake.root)
    session.sql("BEGIN", *lake.sql(UPDATE)[:1])
    filler = fill(small_disk)
    with pytest.raises(DriverError, match="No space left"):
        session.sql(*lake.sql(UPDATE)[1:])
    filler.unlink()
    assert session.sql(f"SELECT * FROM delta.`{lake.tables[1]}` ORDER BY id") == BEFORE
    session.sql("COMMIT")
    assert [lake.rows(path) for path in lake.tables] == [AFTER, BEFORE]
    check_usable(session, lake)


def test_disk_that_is_full_at_commit(driver, small_disk):
    lake = Lake(small_disk, 2)
    session = driver.session(lake.root)
    session.sql("BEGIN", *lake.sql(UPDATE))
    filler = fill(small_disk)
    with refused("LAKESTEP_STORE_FULL", "53100"):
        session.sql("COMMIT")
    session.sql("ROLLBACK")
    filler.unlink()
    assert [lake.rows(path) for path in lake.tables] == [BEFORE] * 2
    assert lake.entry_numbers() == []
    check_usable(session, lake)


def test_disk_that_is_full_after_the_order_point(driver, small_disk):
    lake = Lake(small_disk, 2)
    session = driver.session(lake.root)
    with driver.halts("beforePublish:2") as halts:
        commit = halts.during(session.start_sql("BEGIN", *lake.sql(UPDATE), "COMMIT"))
        assert halts.reached() == "beforePublish:2"
        filler = fill(small_disk)
        halts.go()
        with refused("LAKESTEP_TRANSACTION_STATE_UNKNOWN", "08007"):
            commit.result()
    session.sql("ROLLBACK")
    filler.unlink()
    [[entry, _, outcome, _]] = session.sql("RECOVER")
    assert (entry, outcome) == (1, "COMPLETED")
    assert [lake.rows(path) for path in lake.tables] == [AFTER] * 2
    check_usable(session, lake)


def test_root_and_tables_that_are_read_only(driver, small_disk):
    lake = Lake(small_disk, 2)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    session = driver.session(lake.root)
    with refused("LAKESTEP_STORE_ACCESS_DENIED", "42501"):
        session.sql("BEGIN")
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    session.sql("BEGIN", *lake.sql(UPDATE))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with refused("LAKESTEP_STORE_ACCESS_DENIED", "42501"):
        session.sql("COMMIT")
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    session.sql("ROLLBACK")
    assert [lake.rows(path) for path in lake.tables] == [BEFORE] * 2
    check_usable(session, lake)


# Versions and settings: each in a process of its own, because a running JVM has its JARs.

START = """
from pathlib import Path
from small_session import small_session
def found(error):
    return [error.getCondition(), error.getSqlState(), error.getMessageParameters()]
try:
    spark = small_session(Path({folder!r}), {settings!r})
    spark.sql("CREATE TABLE t (id INT) USING delta")
    with lakestep.transaction(spark):
        spark.sql("INSERT INTO t VALUES (1)")
    answer(None)
except Exception as e:
    answer(found(e) if hasattr(e, "getCondition") and e.getCondition() else str(e))
"""


@pytest.fixture
def start(python, tmp_path):
    def run(settings=None, **environment):
        code = START.format(folder=str(tmp_path), settings=settings or {})
        return python(code, **environment)

    return run


def jar_that_says(folder, *, relies_on="", **properties):
    """Return a copy of the JAR that was built as, or for, another version.

    `relies_on` is something that it looks for in Spark or Delta by its name besides.
    """
    copy = folder / Path(lakestep.jar_path()).name
    with zipfile.ZipFile(lakestep.jar_path()) as ours, zipfile.ZipFile(copy, "w") as other:
        for item in ours.infolist():
            content = ours.read(item)
            if item.filename == "lakestep-build.properties":
                lines = dict(line.split("=", 1) for line in content.decode().splitlines())
                lines.update(properties)
                content = "\n".join(f"{key}={value}" for key, value in lines.items()).encode()
            if item.filename == "lakestep-contract.tsv":
                content += relies_on.encode()
            other.writestr(item, content)
    return str(copy)


@pytest.mark.parametrize(
    ("properties", "condition", "parameters"),
    [
        (
            {"version": "9.9.9"},
            "LAKESTEP_VERSION_MISMATCH",
            {"jar": "9.9.9", "wheel": lakestep.__version__},
        ),
        pytest.param(
            {"spark": "4.9.0"},
            "LAKESTEP_UNSUPPORTED_RUNTIME",
            {"component": "Spark", "found": pyspark.__version__, "spark": "4.9.x"},
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"delta": "4.3.0"},
            "LAKESTEP_UNSUPPORTED_RUNTIME",
            {"component": "Delta", "found": "4.4.0", "delta": "4.3.x"},
            marks=pytest.mark.long,
        ),
        (
            {"relies_on": "org.apache.spark.sql.delta.DeltaLog\tnever\t()V\tthis test\n"},
            "LAKESTEP_RUNTIME_CHANGED",
            {"missing": "org.apache.spark.sql.delta.DeltaLog.never()V", "breaks": "this test"},
        ),
    ],
)
def test_jar_that_does_not_fit(start, tmp_path, properties, condition, parameters):
    jar = jar_that_says(tmp_path, **properties)
    found, sql_state, told = start(LAKESTEP_JAR=jar, **kept())
    assert (found, sql_state) == (condition, "55000")
    assert parameters.items() <= told.items()


def test_jar_of_other_patch_releases_works_where_all_that_it_relies_on_is_there(start, tmp_path):
    jar = jar_that_says(tmp_path, spark=f"{_build.line()}.9", delta="4.4.9")
    assert start(LAKESTEP_JAR=jar, **kept()) is None


@pytest.mark.parametrize(
    ("settings", "condition", "sql_state"),
    [
        (
            {"spark.delta.logStore.class": "io.delta.storage.HDFSLogStore"},
            "LAKESTEP_LOG_STORE_CLASS_CONFLICT",
            "F0000",
        ),
        (
            {"spark.delta.logStore.file.impl": "io.delta.storage.HDFSLogStore"},
            "LAKESTEP_LOG_STORE_NOT_OURS",
            "F0000",
        ),
        pytest.param(
            {"spark.sql.catalog.spark_catalog": "org.example.Catalog"},
            "LAKESTEP_CATALOG_NOT_SET",
            "55000",
            marks=pytest.mark.long,
        ),
    ],
)
def test_setting_that_does_not_fit(start, settings, condition, sql_state):
    found = start(settings, **kept())
    assert found[:2] == [condition, sql_state]


def kept():
    """Return where Delta's JARs are, if that is not where `make setup` puts them."""
    name = "LAKESTEP_DELTA_JARS"
    return {name: os.environ[name]} if name in os.environ else {}
