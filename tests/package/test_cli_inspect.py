"""The commands that look at a timeline, held against what SQL says of the same root."""

import json
import shutil
from datetime import datetime, timezone
from typing import Any, NamedTuple

import pytest
from test_run import command, without_traces

from asked import agrees, ms
from driver import SETTINGS
from lake import Lake, rewrite
from lakestep import _cli
from s3 import BUCKET, S3

UPDATE = "UPDATE {} SET v = 'new' WHERE id = 1"
INSERT = "INSERT INTO {} VALUES (3, 'more')"
UNKNOWN = "t" + "f" * 32


class Scene(NamedTuple):
    """A timeline with a bit of everything, and a session that has not met it before."""

    lake: Lake
    ids: dict[str, str]
    driver: Any
    session: Any


pytestmark = pytest.mark.sliced(3)

# What stands in the timeline.


@pytest.fixture(scope="module")
def scene(pool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scene") / "a lake"
    lake = Lake(folder, tables=3)
    driver = pool.start()
    owner, other = driver.session(lake.root), driver.session(lake.root)
    ids = {}

    def run(name, *statements, begin="BEGIN {}", client=owner):
        [[ids[name], *_]] = client.sql(begin.format(name))
        client.sql(*statements)

    def rolled_back(name, between):
        run(name)
        with driver.halts("beforePublish:2") as halts:
            commit = halts.during(owner.start_sql(*lake.sql(UPDATE), "COMMIT"))
            assert halts.reached() == "beforePublish:2"
            between()
            halts.go()
            while halts.reached():
                halts.go()
            assert commit.exception() is not None
        owner.sql("ROLLBACK")

    def build_on_what_was_published():
        rewrite(lake.tables[0], 1)
        rewrite(lake.tables[1], 1)

    labels = "COMMENT 'of the night' TAGS ('job' = 'load', 'run' = '7')"
    run("plain", *lake.sql(INSERT), "COMMIT", begin=f"BEGIN {{}} {labels}")
    run(
        "serializable",
        *lake.sql("SELECT * FROM {} WHERE id = 1", lake.tables[:1]),
        *lake.sql(INSERT, lake.tables[1:]),
        *lake.sql("ASSERT (SELECT count(*) > 0 FROM {}) AS some", lake.tables[:1]),
        "COMMIT",
        begin="BEGIN {} ISOLATION LEVEL SERIALIZABLE",
    )
    batch = "BEGIN {} FOR BATCH 7 OF QUERY 'sales'"
    run("batch", *lake.sql(INSERT), "COMMIT", begin=batch)
    names = "CREATE TABLE made (id INT) USING delta", "CREATE VIEW seen AS SELECT 1 AS one"
    run("names", *names, "INSERT INTO made VALUES (1)", "COMMIT")
    run("aborted", *lake.sql(INSERT), client=other)
    owner.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")
    other.sql("ROLLBACK")
    rolled_back("conflict", lambda: rewrite(lake.tables[1], 1))
    lake.tables[:] = [lake.table(f"more {i}") for i in range(2)]
    rolled_back("residue", build_on_what_was_published)
    lake.tables[:] = [lake.table(f"last {i}") for i in range(2)]
    run("open", *lake.sql(INSERT), client=other)
    run("flight", *lake.sql(UPDATE))
    with driver.halts("published:1") as halts:
        halts.during(owner.start_sql("COMMIT"))
        assert halts.reached() == "published:1"
        driver.kill()
    heir = pool.start()
    yield Scene(lake, ids, heir, heir.session(lake.root))
    heir.kill()


@pytest.fixture
def cli(scene, capsys):
    """Runs a command in this process; returns its exit code and its lines of JSON."""

    def run(name, *arguments):
        code = _cli.main([name, str(scene.lake.root), *arguments, "--json"])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


# The two readers.


def test_timeline_is_that_of_show_timeline(scene, cli):
    code, rows = cli("timeline")
    expected = scene.session.call("asked:told", statement="SHOW TIMELINE")
    agrees(rows, expected)
    assert code == 0
    assert list(rows[0]) == list(expected[0])
    states = {row["transaction_id"]: row["state"] for row in rows}
    ids = scene.ids
    assert {states[ids[name]] for name in ("plain", "serializable", "batch", "names")} == {
        "COMPLETED"
    }
    assert [states[ids[name]] for name in ("aborted", "conflict", "residue", "flight")] == [
        *("ABORTED", "ROLLED_BACK", "ROLLED_BACK", "INFLIGHT")
    ]


@pytest.mark.parametrize(
    ("options", "clause"),
    [
        (["--last", "2"], "LAST 2"),
        (["--from", "2", "--to", "4"], "FROM 2 TO 4"),
        (["--from", "3"], "FROM 3"),
        (["--to", "3"], "TO 3"),
        (["--from", "4", "--to", "100"], "FROM 4 TO 100"),
    ],
)
def test_parts_of_the_timeline_are_those_of_show_timeline(scene, cli, options, clause):
    statement = f"SHOW TIMELINE {clause}"
    agrees(
        cli("timeline", *options)[1],
        scene.session.call("asked:told", statement=statement),
    )


def test_transactions_are_those_of_show_transactions(scene, cli):
    for options, statement in (([], "SHOW TRANSACTIONS"), (["--all"], "SHOW TRANSACTIONS ALL")):
        code, rows = cli("transactions", *options)
        expected = scene.session.call("asked:told", statement=statement)
        # Asked for at two moments.
        assert all(row.pop("age") for row in expected)
        agrees(rows, expected)
        assert code == 0
        assert all(row["age_seconds"] >= 0 for row in rows)
    assert [row["transaction_id"] for row in rows] == [scene.ids["open"], scene.ids["flight"]]


def test_each_transaction_is_as_describe_transaction_has_it(scene, cli):
    for name, id in {**scene.ids, "unknown": UNKNOWN}.items():
        statement = f"DESCRIBE TRANSACTION '{id}'"
        [expected] = scene.session.call("asked:told", statement=statement)
        code, [row] = cli("show", id)
        assert code == (name == "unknown")
        described = dict.fromkeys(expected) | row
        if "tables" in row:
            described["tables"] = ", ".join(table["name"] for table in row["tables"])
            described["residue"] = "; ".join(row["residue"])
            described["undoes"] = ", ".join(row["undoes"])
            described["assertions"] = ", ".join(
                f"{a['name']} {'passed' if a['passed'] else 'failed'}" for a in row["assertions"]
            )
        agrees([described], [expected])
        if row.get("entry") and "tables" in row:
            assert cli("show", str(row["entry"])) == (code, [row])


def test_show_has_versions_reads_names_and_conflicts(scene, cli):
    def show(name):
        return cli("show", scene.ids[name])[1][0]

    plain = show("plain")
    assert plain["tags"] == {"job": "load", "run": "7"}
    for table in plain["tables"]:
        assert (table["ended"], table["pin"], table["versions"]) == ("published", 1, [2])
        assert (table["added_files"], table["added_rows"]) == (1, 1)
    [read] = show("serializable")["reads"]
    assert (read["path"], read["pin"]) == (plain["tables"][0]["path"], 2)
    assert [name.partition(" `")[0] for name in show("names")["names"]] == [
        *("CREATE TABLE", "CREATE VIEW")
    ]
    conflict = show("conflict")
    assert [table["ended"] for table in conflict["tables"]] == ["undone", "closed", "undone"]
    assert conflict["conflict"]["rule"] == "same-file"
    assert conflict["conflict"]["operation"] == "DELETE"
    assert show("residue")["residue"]
    assert show("flight")["tables"][0]["versions"] == []
    [aborted] = cli("show", str(show("aborted")["entry"]))[1]
    assert aborted["aborts"] == [scene.ids["aborted"]]


def test_conflicts_are_those_of_entries_that_were_rolled_back(scene, cli):
    code, rows = cli("conflicts")
    ids = [scene.ids["residue"], scene.ids["conflict"]]
    assert (code, [row["transaction_id"] for row in rows]) == (0, ids)
    for row in rows:
        outcome = scene.lake.outcome(row["entry"])["conflict"]
        same = ("rule", "table", "path", "version", "operation", "files")
        assert {name: row[name] for name in same} == {name: outcome[name] for name in same}
        assert ms(row["time"]) == outcome["timeMs"]
    assert [bool(row["residue"]) for row in rows] == [True, False]
    assert cli("conflicts", "--last", "1") == (0, [])


def test_verify_finds_the_commits_of_all_entries(scene, cli):
    code, rows = cli("verify")
    assert (code, [row["severity"] for row in rows]) == (0, ["note", "ok", "ok"])
    # Of the transactions that ended well or were rolled back: 3 + 2 + 3 + 1 + 3 + 2.
    assert "14 commits in 6 tables" in rows[1]["text"]
    assert rows[2]["what"] == "data of now" and "of 8 tables are there" in rows[2]["text"]
    file = scene.lake.root / "timeline" / f"{2:020}.outcome.json"
    kept = file.read_bytes()
    file.write_bytes(kept.replace(b'"slots":[[', b'"slots":[[9'))
    try:
        code, rows = cli("verify", "--from", "2", "--to", "2")
    finally:
        file.write_bytes(kept)
    assert (code, [row["severity"] for row in rows]) == (1, ["problem"])
    assert rows[0]["what"].endswith("93.json") and rows[0]["next_step"]


def test_doctor_finds_nothing_worse_than_what_is_in_flight(scene, cli):
    code, rows = cli("doctor")
    assert code == 0
    assert {row["severity"] for row in rows} <= {"ok", "note", "warning"}
    assert any("in flight" in row["text"] for row in rows)


# The command itself.


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["timeline"], 2),
        (["timeline", "{root}", "--last", "0"], 2),
        (["timeline", "{root}", "--last", "1", "--from", "1"], 2),
        (["show", "{root}", "x"], 2),
        (["show", "1"], 2),
        (["show", "{root}", "1", "2"], 2),
        (["show", "{root}", "100"], 1),
        (["verify", "{root}/nowhere"], 1),
        (["doctor", "{root}/nowhere"], 1),
        (["recover", "--master", "local", "--remote", "sc://a"], 2),
    ],
)
def test_wrong_usage_is_2_and_errors_are_1(scene, capsys, monkeypatch, arguments, code):
    monkeypatch.delenv("LAKESTEP_ROOT", raising=False)
    words = [word.format(root=scene.lake.root) for word in arguments]
    assert _cli.main(words) == code
    shown = capsys.readouterr()
    assert shown.err or "LAKESTEP_TIMELINE_NOT_FOUND" in shown.out


def test_root_may_stand_in_the_environment_and_rows_are_tables(scene, capsys, monkeypatch):
    monkeypatch.setenv("LAKESTEP_ROOT", str(scene.lake.root))
    assert _cli.main(["timeline", "--last", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if scene.ids["flight"] in line]
    ordered = scene.lake.entry(scene.lake.entry_numbers()[-1])["timeMs"] / 1000
    assert f"{datetime.fromtimestamp(ordered, timezone.utc):%Y-%m-%d %H:%M:%S}" in lines[3]
    # What no row has is left out.
    assert "isolation" not in lines[1] and "tables" in lines[1]
    assert _cli.main(["timeline", "--wide", "--last", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "batch" not in lines[1] and "isolation" in lines[1]
    for words in (["transactions", "--all"], ["conflicts"], ["verify"], ["doctor"]):
        assert _cli.main(words) == 0
    for name in scene.ids.values():
        assert _cli.main(["show", name]) == 0
    shown = capsys.readouterr()
    assert "same-file" in shown.out and "of the night" in shown.out
    assert shown.err == ""


# With Spark.


def arguments_of(scene, name):
    settings = {**SETTINGS, "spark.sql.warehouse.dir": f"file:{scene.lake.folder}/warehouse"}
    settings["spark.lakestep.root"] = f"file:{scene.lake.root}"
    return [name, *(f"--conf={key}={value}" for key, value in settings.items())]


def test_recover_finishes_what_was_left_and_doctor_looks_at_the_session(scene, cli):
    scene.driver.kill()
    root = str(scene.lake.root)
    done = command(*arguments_of(scene, "doctor"), root, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(row["severity"], row["what"]) for row in rows][-4:] == [
        *[("ok", "session")] * 3,
        ("note", "store"),
    ]
    assert scene.lake.outcome(scene.lake.entry_numbers()[-1]) is None

    done = command(*arguments_of(scene, "recover"), root, "--json")
    assert done.returncode == 0, done.stderr
    assert without_traces(done.stderr) == []
    [row] = [json.loads(line) for line in done.stdout.splitlines()]
    assert (row["transaction_id"], row["outcome"]) == (scene.ids["flight"], "COMPLETED")
    assert cli("transactions") == (0, [])
    code, rows = cli("verify")
    assert (code, [row["severity"] for row in rows]) == (0, ["ok", "ok"])

    done = command(*arguments_of(scene, "doctor"), root, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["severity"], row["what"]) for row in rows][-1] == ("ok", "store")
    assert done.returncode == 0
    elsewhere = scene.lake.folder / "elsewhere"
    shutil.copytree(root, elsewhere)
    done = command(*arguments_of(scene, "doctor"), str(elsewhere))
    assert done.returncode == 1
    assert f"Its root is file:{root}" in done.stdout


# On S3.


def test_timeline_and_tables_on_s3(pool, capsys, monkeypatch):
    with S3() as s3:
        root = f"s3a://{BUCKET}/inspected/time line"
        allow = {"spark.lakestep.root": root, "spark.lakestep.foreignWriters": "allow"}
        driver = pool.start(s3.driver_settings)
        session = driver.session(**allow)
        tables = [s3.table(f"inspected/t{i}") for i in range(2)]
        session.sql("BEGIN", *(UPDATE.format(f"delta.`{path}`") for path in tables), "COMMIT")
        expected = session.call("asked:told", statement="SHOW TIMELINE")
        driver.kill()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)

        def rows(name, *arguments):
            assert _cli.main([name, root, *arguments, "--json"]) == 0
            return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

        found = rows("timeline", "--endpoint", s3.url)
        agrees(found, expected)
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
        [shown] = rows("show", found[0]["transaction_id"])
        assert [table["path"] for table in shown["tables"]] == tables
        assert [table["versions"] for table in shown["tables"]] == [[2], [2]]
        assert rows("show", "1") == [shown]
        assert rows("transactions", "--all") == rows("conflicts") == []
        assert _cli.main(["verify", root.replace("s3a:", "s3:")]) == 0
        told = capsys.readouterr().out
        assert "2 commits in 2 tables" in told and "4 files of 2 tables are there" in told
        rows("doctor")
