"""The commands that look at a timeline, on HDFS: a small cluster, read without a JVM."""

import json
import subprocess
import sys
from typing import NamedTuple

import pyarrow
import pytest
from hdfs_native import Client, WriteOptions
from pyarrow import parquet

from asked import agrees
from hdfs import Hdfs
from lakestep import _cli
from lakestep._storage import Place, Stores
from transactions import refused

pytestmark = pytest.mark.sliced(3)

UPDATE = "UPDATE {} SET v = 'new' WHERE id = 1"
FOLDER = "/inspected"
ROOT = f"{FOLDER}/time line"


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(hdfs):
    return Client(hdfs.uri)


def put(client, path, content):
    with client.create(path, WriteOptions(overwrite=True)) as file:
        file.write(content)


class Told(NamedTuple):
    """What SQL says of the timeline."""

    root: str
    timeline: list
    open: list


@pytest.fixture(scope="module")
def told(hdfs, pool):
    """A timeline with a snapshot, and an entry in flight, whose client has died."""
    root = f"{hdfs.uri}{ROOT}"
    driver = pool.start()
    place = {"spark.lakestep.root": root, "spark.lakestep.foreignWriters": "allow"}
    session = driver.session(**place)
    tables = [
        f"delta.`{hdfs.table(session, f'inspected/{name}')}`" for name in ("t", "odd tä=1+2%20")
    ]
    every = [UPDATE.format(table) for table in tables]
    session.sql("BEGIN first", *every, "COMMIT", "CREATE SNAPSHOT kept")
    session.sql("BEGIN second", *(f"DELETE FROM {table} WHERE id = 2" for table in tables))
    session.sql("COMMIT")
    with driver.halts("published:1") as halts:
        halts.during(session.start_sql("BEGIN third", *every, "COMMIT"))
        assert halts.reached() == "published:1"
        other = driver.session(**place)
        answers = [
            other.call("asked:told", statement=f"SHOW {what}")
            for what in ("TIMELINE", "TRANSACTIONS")
        ]
        driver.kill()
    assert all(row.pop("age") for row in answers[1])
    return Told(root, *answers)


@pytest.fixture
def cli(capsys):
    """Runs a command in this process; returns its exit code and its lines of JSON."""

    def run(*arguments):
        code = _cli.main([*arguments, "--json"])
        shown = capsys.readouterr()
        assert shown.err == "" or code
        return code, [json.loads(line) for line in shown.out.splitlines()]

    return run


def test_commands_say_what_sql_says(told, cli):
    code, rows = cli("timeline", told.root)
    assert code == 0
    agrees(rows, told.timeline)
    assert [row["name"] for row in rows] == ["third", "second", "first"]
    shown = [cli("show", told.root, row["transaction_id"]) for row in rows]
    assert shown == [cli("show", told.root, str(row["entry"])) for row in rows]
    assert [[len(t["versions"]) for t in row["tables"]] for _, [row] in shown] == [
        *([0, 0], [1, 1], [1, 1])
    ]
    code, rows = cli("transactions", told.root, "--all")
    assert code == 0
    agrees(rows, told.open)
    assert [row["name"] for row in rows] == ["third"]
    assert cli("conflicts", told.root) == (0, [])
    for options in ([], ["--snapshot", "kept"], ["--from", "1", "--to", "2"]):
        code, rows = cli("verify", told.root, *options)
        assert code == 0 and {row["severity"] for row in rows} <= {"ok", "note"}, rows
    code, rows = cli("doctor", told.root)
    assert code == 0 and {row["severity"] for row in rows} <= {"ok", "note", "warning"}, rows


def test_an_edited_entry_and_a_data_file_that_is_gone_are_found(told, cli, client):
    """Also the other way round: made as they were, nothing is found."""
    entry = f"{ROOT}/timeline/{1:020}.json"
    whole = client.read(entry).read()
    put(client, entry, whole.replace(b"first", b"fifth"))
    code, rows = cli("verify", told.root)
    assert code == 1 and "problem" in [row["severity"] for row in rows]
    put(client, entry, whole)
    folder = f"{FOLDER}/odd tä=1+2%20"
    found = []
    for file in [s.path for s in client.list_status(folder) if s.path.endswith(".parquet")]:
        client.rename(file, f"{FOLDER}/away")
        options = [], ["--snapshot", "kept"]
        found.append(tuple(cli("verify", told.root, *some)[0] for some in options))
        client.rename(f"{FOLDER}/away", file)
    # One that the newest version and the snapshot have, and one of the snapshot alone; the others
    # were removed before, or are staged.
    *others, old, live = sorted(found)
    assert (old, live) == ((0, 1), (1, 1)) and others and set(others) == {(0, 0)}
    assert cli("verify", told.root)[0] == 0


def test_commands_start_no_jvm(told, tmp_path):
    """With no `java` to be found."""
    environment = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    paths = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    code = "import sys; from lakestep import _cli; sys.exit(_cli.main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "verify", told.root],
        env=environment | paths,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Entries 1 to 3" in done.stdout


def test_name_services_and_the_default_file_system_are_those_of_hadoop(
    hdfs, told, cli, tmp_path, monkeypatch
):
    """The name node that is named first is down."""
    node = "dfs.namenode.rpc-address.lake"
    settings = {
        "core-site.xml": {"fs.defaultFS": "hdfs://lake"},
        "hdfs-site.xml": {
            "dfs.ha.namenodes.lake": "down,up",
            f"{node}.down": "127.0.0.1:1",
            f"{node}.up": hdfs.uri.removeprefix("hdfs://"),
        },
    }
    for name, pairs in settings.items():
        properties = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in pairs.items()
        )
        (tmp_path / name).write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    for start in ("hdfs://lake", "hdfs://", "hdfs:"):
        code, rows = cli("timeline", f"{start}{ROOT}")
        assert code == 0
        agrees(rows, told.timeline)
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with Stores() as stores, refused("LAKESTEP_STORE_READ_FAILED"):
        stores.get(Place.named(f"hdfs://lake{ROOT}"))


# The reader of files.

NAMES = ["plain", "a b", "odd tä=1+2%20", "50%", "a#b?c;d", "[x]*{y}", "q'\"\\"]


def test_files_and_folders_are_found_as_on_a_local_disk(hdfs, client, tmp_path):
    content = "first line\nübrige\n".encode()
    table = pyarrow.table({"a": list(range(1000)), "b": ["text"] * 1000})
    parquet.write_table(table, tmp_path / "rows.parquet")
    for name in NAMES:
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.json").write_bytes(content)
    (tmp_path / "empty").mkdir()
    (tmp_path / "nothing").write_bytes(b"")
    for path in sorted(tmp_path.rglob("*")):
        remote = f"/files/{path.relative_to(tmp_path)}"
        if path.is_dir():
            client.mkdirs(remote, 0o755, True)
        else:
            put(client, remote, path.read_bytes())

    def seen(top, stores):
        def below(place):
            return str(place).removeprefix(str(top))

        paths = [top / name / f"{name}.json" for name in NAMES] + [
            top / name
            for name in ("nothing", "missing", "missing/deep", "nothing/below", "rows.parquet")
        ]
        folders = [top, *paths, *(top / name for name in [*NAMES, "empty"])]
        listed = [stores.list(folder) for folder in folders]
        assert all(found.modified is not None for folder in listed for found in folder)
        return [
            [(stores.get(path), stores.first_line(path)) for path in paths],
            [(stores.exists(path), stores.size(path)) for path in paths],
            [[(f.name, f.is_file, f.is_file and f.size) for f in found] for found in listed],
            {below(place): size for place, size in stores.tree(top).items()},
            stores.tree(top / "missing"),
            list(stores.rows(top / "rows.parquet", ["b", "c"])),
        ]

    with Stores() as stores:
        here = seen(Place.named(str(tmp_path)), stores)
        there = seen(Place.named(f"{hdfs.uri}/files"), stores)
    assert here == there


def test_what_cannot_be_read_is_said_without_a_trace(hdfs, client, monkeypatch):
    put(client, "/closed/file", b"closed")
    client.set_permission("/closed", 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "reader")
    with Stores() as stores:
        closed = Place.named(f"{hdfs.uri}/closed")
        for ask in (stores.list, stores.tree, lambda folder: stores.get(folder / "file")):
            with refused("LAKESTEP_STORE_READ_FAILED", "58030") as raised:
                ask(closed)
            reason = raised.value.getMessageParameters()["reason"]
            assert "reader" in reason and ".java:" not in reason
        # Nobody listens; in seconds, not in minutes.
        with refused("LAKESTEP_STORE_READ_FAILED"):
            stores.get(Place.named("hdfs://127.0.0.1:1/closed/file"))


def test_without_the_package_the_next_step_is_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    monkeypatch.delitem(sys.modules, "lakestep._hdfs", raising=False)
    with Stores() as stores, refused("LAKESTEP_PACKAGE_NOT_FOUND", "55000") as raised:
        stores.get(Place.named("hdfs://anywhere/file"))
    assert raised.value.getMessageParameters()["extra"] == "hdfs"
