"""Tables and timeline on S3: moto's server, real s3a, real drivers, delta-rs beside them."""

import re
import time

import deltalake
import pytest

from driver import DriverError
from process import Died
from s3 import BUCKET, OLD_JARS, S3, depth

pytestmark = pytest.mark.sliced

UPDATE = "UPDATE {} SET v = 'new' WHERE id = 1"
OLD, NEW, OTHER = (1, "old"), (1, "new"), (2, "old")
COMMIT_FILE = re.compile(r"_delta_log/(_lakestep/t[0-9a-f]{32}/)?[0-9]{20}\.json$")
ALLOW = {"spark.lakestep.foreignWriters": "allow"}


@pytest.fixture(scope="module")
def s3():
    with S3() as server:
        yield server


@pytest.fixture(scope="module")
def s3_drivers(pool, s3):
    """Two drivers that reach the server."""
    return [pool.start(s3.driver_settings) for _ in range(2)]


def root(name):
    return {"spark.lakestep.root": f"s3a://{BUCKET}/{name}/timeline", **ALLOW}


def each(statement, tables):
    return [statement.format(f"delta.`{path}`") for path in tables]


def rows(session, tables):
    return [session.sql(*each("SELECT id, v FROM {} ORDER BY id", [path])) for path in tables]


def test_of_many_puts_one_creates(s3_drivers):
    session = s3_drivers[0].session()
    for number in range(5):
        told = session.call("s3:race", path=f"s3a://{BUCKET}/race/{number}", threads=8)
        assert sorted(told) == ["AlreadyExists"] * 7 + ["Created"]


def test_a_listing_begins_at_a_name(s3, s3_drivers):
    session = s3_drivers[0].session()
    names = [f"{number:020}.json" for number in (7, 8, 9, 10, 11)]
    folder = f"s3a://{BUCKET}/listed"
    others = ["_below/file", f"{9:020}.folder/file", "_other"]
    starts = ["", f"{9:020}.json", f"{10:020}", f"{10:020}.", f"{12:020}", "_"]
    asked = {"folder": folder, "names": names + others, "starts": starts}
    found = session.call("s3:listings", **asked)
    later = ["_other"]
    assert (
        found
        == [names + later, names[2:] + later, names[3:] + later, names[3:] + later] + [later] * 2
    )
    assert f"listed/{9:020}.jso" in s3.starts
    assert session.call("s3:listings", **asked | {"folder": f"{folder}-not", "names": []}) == [
        []
    ] * len(starts)


def test_what_a_store_does_is_one_request_each(s3, s3_drivers):
    session = s3_drivers[0].session()
    folder = f"s3a://{BUCKET}/one"

    def requests_of(method, *arguments):
        before = len(s3.requests)
        told = session.call("s3:ask", method=method, arguments=arguments)
        return told, [request.method for request in s3.requests[before:]]

    file, absent = f"{folder}/deep/file", f"{folder}/absent"
    session.call("s3:race", path=file, threads=1)
    assert requests_of("get", absent) == ("None", ["GET"])
    told, requests = requests_of("get", file)
    assert told.startswith("Some(") and requests == ["GET"]
    assert requests_of("delete", file)[1] == ["DELETE"]
    assert requests_of("delete", file)[1] == ["DELETE"]
    assert requests_of("get", file) == ("None", ["GET"])
    for number in range(3):
        session.call("s3:race", path=f"{folder}/deep/{number}", threads=1)
    assert requests_of("deleteFolder", folder)[1] == ["GET", "POST"]
    assert requests_of("list", folder, "")[0] == "Vector()"
    assert requests_of("deleteFolder", folder) == ("None", ["GET"])
    session.call("s3:race", path=file, threads=1)
    assert requests_of("exists", file) == ("True", ["HEAD"])
    assert requests_of("exists", absent) == ("False", ["HEAD"])


@pytest.fixture
def requests_of(s3):
    """Counts the requests of each statement, with what follows it."""

    def count(session, *statements):
        counts = []
        for statement in statements:
            before = len(s3.requests)
            session.sql(statement)
            session.call("transactions:flush")
            counts.append(len(s3.requests) - before)
        return counts

    return count


def test_requests_of_a_transaction(s3, s3_drivers, requests_of):
    path = s3.table("counted/t")
    session = s3_drivers[0].session(**root("counted"))
    insert = f"INSERT INTO delta.`{path}` VALUES (3, 'new')"
    whole = ["BEGIN", insert, insert, "COMMIT"]
    # The table of delta-rs has no checksum: the first one brings it, and the second finds it.
    for _ in range(2):
        session.sql(*whole)
        session.call("transactions:flush")
    assert requests_of(session, *whole) == [2, 12, 7, 19]
    assert requests_of(session, "BEGIN", insert, insert, "ROLLBACK") == [2, 12, 7, 7]


ONE_GROUP = ["INSERT INTO {0} VALUES (3, 'new')", "INSERT INTO {1} VALUES (3, 'new')"]
TWO_GROUPS = [
    ONE_GROUP[0],
    "INSERT INTO {1} SELECT id + 10, v FROM {0}",
    UPDATE.replace("{}", "{1}"),
]


@pytest.mark.parametrize(
    ("statements", "until_it_returns", "in_all"),
    [
        pytest.param(ONE_GROUP, 26, 32, id="one_group"),
        pytest.param(TWO_GROUPS, 28, 34, id="two_groups"),
    ],
)
def test_requests_of_a_commit_of_two_tables(
    s3, s3_drivers, requests_of, statements, until_it_returns, in_all
):
    place = f"counted-{len(statements)}"
    tables = [f"delta.`{s3.table(f'{place}/t{i}')}`" for i in range(2)]
    session = s3_drivers[0].session(**root(place))
    staged = [statement.format(*tables) for statement in statements]
    for _ in range(2):
        session.sql("BEGIN", *staged, "COMMIT")
        session.call("transactions:flush")
    session.sql("BEGIN", *staged)
    before = len(s3.requests)
    session.sql("COMMIT")
    returned = len(s3.requests) - before
    session.call("transactions:flush")
    assert returned <= until_it_returns
    asked = s3.requests[before:]
    assert len(asked) <= in_all
    assert sum(request.method == "PUT" and request.key.endswith(".crc") for request in asked) == 2


def test_requests_outside(s3, s3_drivers, requests_of):
    session = s3_drivers[0].session(**root("counted-outside"))
    path = f"s3a://{BUCKET}/counted-outside/t"
    session.sql(f"CREATE TABLE outside (id BIGINT, v STRING) USING delta LOCATION '{path}'")
    insert, select = "INSERT INTO outside VALUES (3, 'new')", "SELECT count(*) FROM outside"
    for _ in range(2):
        session.sql("BEGIN", insert, "COMMIT")
        session.call("transactions:flush")
    session.sql(insert, select)
    before = len(s3.requests)
    # By plain Delta the INSERT takes 35: benchmarks/stores.py.
    assert requests_of(session, insert, select) == [34, 14]
    # Each asks whether the table is bound, and for the end of the timeline.
    ours = filter(of_ours, s3.requests[before:])
    assert [request.method for request in ours] == ["GET"] * 4


def of_ours(request):
    return re.search("/_lakestep/|/timeline/", request.key) is not None


def of_delta(request):
    """Whether plain Delta asks for it as well: a data file, or the content of a commit."""
    is_data = request.key.endswith(".parquet") and "_delta_log" not in request.key
    return is_data or (request.method == "GET" and bool(COMMIT_FILE.search(request.key)))


def test_how_many_requests_wait_for_one_another(s3, pool):
    """The least of five: what follows other statements may come between."""
    with S3(latency_ms=20) as slow:
        tables = [s3.table(f"deep/t{i}") for i in range(2)]
        eight = {"spark.lakestep.commit.publishThreads": "8"}
        session = pool.start(slow.driver_settings).session(**root("deep"), **eight)

        def least(*statements, of=of_delta):
            """The depth of each, and that of what plain Delta asks for."""
            found = []
            for _ in range(5):
                depths = []
                for statement in statements:
                    before = len(slow.requests)
                    session.sql(statement)
                    had = slow.requests[before:]
                    depths.append((depth(had), depth(list(filter(of, had)))))
                    session.call("transactions:flush")
                found.append(depths)
            return [min(each) for each in zip(*found, strict=True)]

        # By name: a path is looked at three times in each statement.
        for i, path in enumerate(tables):
            session.sql(f"CREATE TABLE deep{i} USING delta LOCATION '{path}'")
        first, second = (f"INSERT INTO deep{i} VALUES (3, 'new')" for i in range(2))
        session.sql("BEGIN", first, second, "COMMIT")
        session.call("transactions:flush")

        path = f"s3a://{BUCKET}/deep/outside"
        session.sql(f"CREATE TABLE outside (id BIGINT, v STRING) USING delta LOCATION '{path}'")
        insert, select = "INSERT INTO outside VALUES (3, 'new')", "SELECT count(*) FROM outside"
        session.sql("BEGIN", insert, "COMMIT", insert, select)
        insertion, selection = least(insert, select, of=lambda request: not of_ours(request))
        # By plain Delta 35: benchmarks/stores.py.
        assert insertion[0] <= 34
        assert selection[0] - selection[1] <= 1

        update, count = "UPDATE deep0 SET v = 'newer' WHERE id = 3", "SELECT count(v) FROM deep0"
        transaction = ["BEGIN", first, first, second]
        begin, touch, again, _, commit = least(*transaction, "COMMIT")
        *_, changed, read, rollback = least(*transaction, update, count, "ROLLBACK")
        found = [begin[0], touch[0], commit[0], rollback[0]]
        assert list(map(min, found, [2, 7, 8, 1])) == found
        beyond = [whole - own for whole, own in (again, changed, read)]
        assert list(map(min, beyond, [2, 3, 2])) == beyond


def test_how_many_requests_of_an_earlier_version_wait_for_one_another(s3, s3_drivers, pool):
    """The least of five versions that are not in memory, beyond what plain Delta's way costs."""
    tables = [s3.table(f"deep-past/t{i}") for i in range(2)]
    place = root("deep-past") | {"spark.lakestep.timeline.checkpointInterval": "2"}
    writer = s3_drivers[0].session(**place)
    for _ in range(7):
        writer.sql("BEGIN", *each("INSERT INTO {} VALUES (3, 'new')", tables), "COMMIT")
        writer.call("transactions:flush")
    with S3(latency_ms=20) as slow:
        eight = {"spark.lakestep.commit.publishThreads": "8"}
        # Each is a client of its own.
        sessions = [pool.start(slow.driver_settings).session(**place, **eight) for _ in range(2)]
        for session in sessions:
            for i, path in enumerate(tables):
                session.sql(f"CREATE TABLE past{i} USING delta LOCATION '{path}'")
        count = "SELECT count(v) FROM past0 {0} UNION ALL SELECT count(v) FROM past1 {0}"

        def asked(session, statement):
            before = len(slow.requests)
            shown = session.sql(statement)
            return depth(slow.requests[before:]), shown

        found = []
        one, two = sessions
        for entry in range(1, 6):
            plain, then = asked(one, count.format(f"VERSION AS OF {entry + 1}"))
            outside, same = asked(one, count.format(f"VERSION AS OF 'db:{entry}'"))
            begin, _ = asked(two, f"BEGIN READ ONLY AS OF VERSION {entry}")
            inside, again = asked(two, count.format(""))
            two.sql("ROLLBACK")
            assert then == same == again == [(2 + entry,)] * 2
            found.append((begin, outside - plain, inside - plain))
        # For the version of the database 6, and then 5 for those of both tables, at once.
        begin, outside, inside = zip(*found, strict=True)
        assert max(begin) <= 6 and min(outside) <= 11 and min(inside) <= 2, found


def test_requests_of_names(s3, s3_drivers, requests_of):
    """The metastore is none of the store: what is counted is what names ask of S3."""
    session = s3_drivers[0].session(**root("counted-names"))
    made = "CREATE TABLE {0} (id INT) USING delta LOCATION 's3a://" + BUCKET + "/names/{0}'"
    # The first transaction of a driver also loads classes and finds its metastore. The first one
    # that knows of names looks for what others have left, and so does one every ten minutes.
    session.sql("BEGIN", made.format("first_name"), "COMMIT")
    session.sql("BEGIN", "ROLLBACK")
    session.call("transactions:flush")
    assert requests_of(session, "BEGIN", made.format("counted_name"), "COMMIT") == [2, 14, 27]
    rename = "ALTER TABLE counted_name RENAME TO other_name"
    drop = "DROP TABLE other_name"
    assert [
        requests_of(session, "BEGIN", rename, drop, "ROLLBACK"),
        requests_of(session, "BEGIN", rename, "COMMIT"),
        requests_of(session, "BEGIN", drop, "COMMIT"),
    ] == [[2, 9, 0, 2], [2, 8, 11], [2, 0, 10]]


@pytest.mark.parametrize("timeline", ["s3", "local"])
def test_transaction_over_tables_on_s3(s3, s3_drivers, tmp_path, timeline):
    tables = [s3.table(f"{timeline}/{name}") for name in ("t0", "odd tä=1+2")]
    place = (
        root(timeline) if timeline == "s3" else ALLOW | {"spark.lakestep.root": f"file:{tmp_path}"}
    )
    session, other = (driver.session(**place) for driver in s3_drivers)
    session.sql("BEGIN", *each(UPDATE, tables))
    assert rows(session, tables) == [[NEW, OTHER]] * 2
    assert rows(other, tables) == [[OLD, OTHER]] * 2 == [s3.rows(path) for path in tables]
    s3.append(tables[0], (3, "foreign"))
    session.sql("COMMIT")
    expected = [[NEW, OTHER, (3, "foreign")], [NEW, OTHER]]
    assert rows(other, tables) == expected == [s3.rows(path) for path in tables]
    other.sql("BEGIN", *each("DELETE FROM {} WHERE id = 2", tables))
    session.sql(*each("UPDATE {} SET v = 'mine' WHERE id = 2", tables[1:]))
    with pytest.raises(DriverError) as raised:
        other.sql("COMMIT")
    assert raised.value.main_condition == "LAKESTEP_CONFLICT"
    other.sql("ROLLBACK")
    assert s3.rows(tables[0]) == expected[0]


def test_the_past_of_tables_on_s3_is_kept_read_and_brought_back(s3, s3_drivers):
    tables = [s3.table(f"past/t{i}") for i in range(2)]
    at_once = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
    session, other = (driver.session(**root("past"), **at_once) for driver in s3_drivers)
    session.sql("BEGIN", *each(UPDATE, tables), "COMMIT")
    assert session.sql("CREATE SNAPSHOT kept")[0][-1] == "KEPT"
    session.sql("BEGIN", *each("DELETE FROM {} WHERE id = 2", tables), "COMMIT")
    ((deleted,),) = session.sql("SELECT max_by(transaction_id, entry) FROM lakestep_timeline()")
    before, after = [[NEW, OTHER]] * 2, [[NEW]] * 2
    assert rows(other, tables) == after
    session.sql(*each("VACUUM {} RETAIN 0 HOURS", tables))
    for clause in ("snapshot:kept", "db:1"):
        query = f"SELECT id, v FROM {{}} VERSION AS OF '{clause}' ORDER BY id"
        assert [other.sql(*each(query, [path])) for path in tables] == before
    other.sql("BEGIN AS OF SNAPSHOT kept")
    assert rows(other, tables) == before
    other.sql("COMMIT")
    other.sql(f"REVERT TRANSACTION '{deleted}'")
    assert rows(session, tables) == before == [s3.rows(path) for path in tables]
    session.sql("BEGIN", *each("DELETE FROM {}", tables), "COMMIT")
    other.sql("RESTORE DATABASE TO SNAPSHOT kept")
    assert rows(session, tables) == before == [s3.rows(path) for path in tables]
    assert {row[0] for row in other.sql("VERIFY DATABASE")} == {"ok"}
    session.sql("DROP SNAPSHOT kept")


def test_a_log_may_hold_files_of_others(s3, s3_drivers):
    """Some writers leave such a file before the first commit, in the order of names."""
    path = s3.table("others/t")
    s3.put("others/t/_delta_log/.s3-optimization-0", b"")
    s3.put("others/t/_delta_log/_others/file", b"")
    session = s3_drivers[0].session(**root("others"))
    session.sql("BEGIN", *each(UPDATE, [path]), *each("DELETE FROM {} WHERE id = 2", [path]))
    assert rows(session, [path]) == [[NEW]]
    session.sql("COMMIT")
    assert s3.rows(path) == [NEW]


def test_one_table_by_s3_and_by_s3a_is_one_table(s3, s3_drivers):
    path = s3.table("alias/t")
    alias = path.replace("s3a://", "s3://")
    session = s3_drivers[0].session(**root("alias"))
    # For the other client the timeline has the other spelling, too.
    place = {"spark.lakestep.root": f"s3://{BUCKET}/alias/timeline", **ALLOW}
    other = s3_drivers[1].session(**place)
    session.sql("BEGIN", *each(UPDATE, [path]))
    assert rows(session, [alias]) == [[NEW, OTHER]]
    session.sql(*each("DELETE FROM {} WHERE id = 2", [alias]))
    assert rows(session, [path, alias]) == [[NEW]] * 2
    assert [row["tables"] for row in session.call("s3:commit")] == [1]
    assert rows(other, [alias, path]) == [[NEW]] * 2
    other.sql("BEGIN", *each("INSERT INTO {} VALUES (3, 'alias')", [alias]))
    session.sql(*each("INSERT INTO {} VALUES (4, 'outside')", [alias]))
    other.sql("COMMIT")
    expected = [NEW, (3, "alias"), (4, "outside")]
    assert rows(session, [path, alias]) == [expected] * 2 == [s3.rows(path)] * 2


@pytest.fixture(scope="module", params=["classic", "analytics"])
def stream_drivers(request, pool, s3):
    """Two drivers that read objects by one kind of stream."""
    kind = {"spark.hadoop.fs.s3a.input.stream.type": request.param}
    return request.param, [pool.start(s3.driver_settings | kind) for _ in range(2)]


def test_table_that_is_dropped_and_made_anew_within_a_second(s3, stream_drivers):
    kind, drivers = stream_drivers
    place = root(f"anew-{kind}")
    session, other = (driver.session(**place) for driver in drivers)
    path, beside = (f"s3a://{BUCKET}/anew-{kind}/{name}" for name in ("t", "beside"))
    s3.table(f"anew-{kind}/beside")
    s3.append(path, OLD)
    session.sql("BEGIN", *each(UPDATE, [path, beside]), "COMMIT")
    assert rows(session, [path]) == [[NEW]]
    session.sql("BEGIN", *each("INSERT INTO {} VALUES (5, 'mine')", [path, beside]))
    assert rows(session, [path]) == [[NEW, (5, "mine")]]
    began = time.monotonic()
    s3.remove(path)
    s3.append(path, (7, "anew"))
    assert time.monotonic() - began < 1
    assert rows(other, [path]) == [[(7, "anew")]]
    with pytest.raises(DriverError) as raised:
        session.sql("COMMIT")
    assert raised.value.main_condition == "LAKESTEP_CONFLICT"
    assert raised.value.parameters["rule"] == "table-is-gone"
    session.sql("ROLLBACK")
    assert rows(session, [path, beside]) == [[(7, "anew")], [NEW, OTHER]]
    session.sql("BEGIN")
    assert rows(session, [path]) == [[(7, "anew")]]
    session.sql(*each("INSERT INTO {} VALUES (8, 'after')", [path]), "COMMIT")
    assert rows(other, [path]) == [[(7, "anew"), (8, "after")]] == [s3.rows(path)]


def test_store_that_ignores_the_condition_of_a_put_is_refused(pool):
    with S3(ignores_conditions=True) as liar:
        tables = [liar.table(f"liar/t{i}") for i in range(2)]
        session = pool.start(liar.driver_settings).session(**root("liar"))
        with pytest.raises(DriverError) as raised:
            session.sql("BEGIN")
        assert raised.value.condition == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT"
        assert raised.value.sql_state == "0A000"
        assert "ignores it" in raised.value.parameters["reason"]
        assert rows(session, tables) == [[OLD, OTHER]] * 2


def test_s3a_without_conditional_create_is_refused(s3_drivers, pool):
    if not any(OLD_JARS.glob("*.jar")):
        pytest.skip("the s3a of this Spark's own Hadoop has one")
    with S3() as server:
        tables = [server.table(f"old/t{i}") for i in range(2)]
        bound = server.table("old/bound")
        session = pool.start(server.settings_of_old_s3a).session(**root("old"))
        with pytest.raises(DriverError) as raised:
            session.sql("BEGIN")
        assert raised.value.condition == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT"
        assert "Hadoop 3.4.2 or later" in raised.value.parameters["reason"]
        assert rows(session, tables) == [[OLD, OTHER]] * 2
        # Outside transactions a table that none of ours has written is plain Delta's.
        session.sql(*each(UPDATE, tables))
        assert rows(session, tables) == [[NEW, OTHER]] * 2 == [server.rows(path) for path in tables]
        s3_drivers[0].session(**root("old")).sql("BEGIN", *each(UPDATE, [bound]), "COMMIT")
        with pytest.raises(DriverError) as raised:
            session.sql(*each("DELETE FROM {} WHERE id = 2", [bound]))
        assert raised.value.condition == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT"
        assert server.rows(bound) == [NEW, OTHER]


def test_nobody_has_vouched_for_foreign_writers(s3, s3_drivers):
    tables = [s3.table(f"undecided/t{i}") for i in range(2)]
    place = {"spark.lakestep.root": f"s3a://{BUCKET}/undecided/timeline"}
    session = s3_drivers[0].session(**place)
    session.sql("BEGIN")
    with pytest.raises(DriverError) as raised:
        session.sql(*each(UPDATE, tables))
    assert raised.value.condition == "LAKESTEP_FOREIGN_WRITERS_UNDECIDED"
    assert rows(session, tables) == [[OLD, OTHER]] * 2
    session.sql("SET spark.lakestep.foreignWriters = allow", *each(UPDATE, tables), "COMMIT")
    assert [s3.rows(path) for path in tables] == [[NEW, OTHER]] * 2


def test_closing_a_table_says_who_else_writes_it(s3, s3_drivers):
    path = s3.table("closed/t")
    session = s3_drivers[0].session(**{"spark.lakestep.root": f"s3a://{BUCKET}/closed/timeline"})
    closing = "ALTER TABLE {} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')"
    session.sql(*each(closing, [path]))
    session.sql("BEGIN", *each(UPDATE, [path]), "COMMIT")
    session.sql(*each("INSERT INTO {} VALUES (3, 'alone')", [path]))
    with pytest.raises(deltalake.exceptions.DeltaError, match="lakestepTransactions"):
        s3.append(path, (4, "foreign"))
    assert s3.rows(path) == [NEW, OTHER, (3, "alone")]
    opening = "ALTER TABLE {} UNSET TBLPROPERTIES ('lakestep.foreignWriters')"
    session.sql("BEGIN", *each(opening, [path]))
    with pytest.raises(DriverError) as raised:
        session.sql(*each(UPDATE, [path]))
    assert raised.value.condition == "LAKESTEP_FOREIGN_WRITERS_UNDECIDED"
    session.sql("ROLLBACK")


STEPS = ["requested:1", "pinned:2", "flattened:1", "helped:1", "validated:1", "beforeOrder:1"]
STEPS_AFTER = [
    "ordered:1",
    "beforePublish:1",
    "published:1",
    "published:2",
    "beforeDecision:1",
    "decided:1",
    "beforeCleanUp:1",
]


@pytest.mark.parametrize(
    "step",
    [
        step
        if step in {"beforeOrder:1", "published:1"}
        else pytest.param(step, marks=pytest.mark.long)
        for step in STEPS + STEPS_AFTER
    ],
)
def test_what_a_dead_driver_left_on_s3_is_finished_by_another(s3, s3_drivers, pool, step):
    tables = [s3.table(f"dead/{step.replace(':', '-')}/t{i}") for i in range(2)]
    place = root(f"dead/{step.replace(':', '-')}")
    dying = pool.start(s3.driver_settings)
    with dying.halts(step) as halts:
        commit = halts.during(
            dying.session(**place).start_sql("BEGIN", *each(UPDATE, tables), "COMMIT")
        )
        assert halts.reached() == step
        dying.kill()
    with pytest.raises(Died):
        commit.result()
    session = s3_drivers[0].session(**place)
    session.sql("RECOVER")
    expected = [[NEW if step in STEPS_AFTER else OLD, OTHER]] * 2
    assert rows(session, tables) == expected == [s3.rows(path) for path in tables]
    session.sql("BEGIN", *each("DELETE FROM {} WHERE id = 2", tables), "COMMIT")
    assert [s3.rows(path) for path in tables] == [table[:1] for table in expected]


def test_what_a_commit_without_an_answer_has_made_is_there_when_it_lands_late(pool):
    with S3() as server:
        tables = [server.table(f"late/t{i}") for i in range(2)]
        soon = {"spark.hadoop.fs.s3a.attempts.maximum": "1", "spark.hadoop.fs.s3a.retry.limit": "1"}
        session = pool.start(server.driver_settings | soon).session(**root("late"))
        inserts = each("INSERT INTO {} VALUES (3, 'late')", tables)
        with server.losing(r"/timeline/0{19}1\.json$"):
            with pytest.raises(DriverError) as raised:
                session.sql("BEGIN", *inserts, *each(UPDATE, tables), "COMMIT")
            assert raised.value.main_condition == "LAKESTEP_TRANSACTION_STATE_UNKNOWN"
            assert raised.value.sql_state == "08007"
            session.call("transactions:flush")
            assert [server.rows(path) for path in tables] == [[OLD, OTHER]] * 2
        other = pool.start(server.driver_settings).session(**root("late"))
        other.sql("RECOVER")
        expected = [[NEW, OTHER, (3, "late")]] * 2
        assert rows(other, tables) == expected == [server.rows(path) for path in tables]


@pytest.mark.parametrize(
    "every", [pytest.param(23, id="some"), pytest.param(1, id="all", marks=pytest.mark.long)]
)
def test_client_that_halts_at_a_request_leaves_all_or_nothing(s3, every):
    commit, rollback, fenced_commit, fenced_rollback = s3.halted(f"halted/{every}", every)
    assert commit * every >= 60
    assert rollback * every >= 80
    assert fenced_commit * every >= 65
    assert fenced_rollback * every >= 80
