"""Streams of Spark without Lakestep over tables that transactions write."""

import json

import pytest

from arena import head
from transactions import begin, flush, rollback, write

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]

FEED = "'delta.enableChangeDataFeed' = 'true'"
# Rows of whole files, of deletion vectors, and with ids: each is staged in a way of its own.
FEEDS = {
    "files": FEED,
    "vectors": f"{FEED}, 'delta.enableDeletionVectors' = 'true'",
    "row_ids": f"{FEED}, 'delta.enableRowTracking' = 'true'",
    "all": f"{FEED}, 'delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true'",
}


class Reader:
    """A stream of plain Delta that is stopped, and goes on from its checkpoint."""

    def __init__(self, plain, path, checkpoint, **options):
        self._plain, self._options = plain, options
        self._places = {"path": str(path), "checkpoint": str(checkpoint)}

    def _run(self):
        return self._plain.ask("stream", **self._places, **self._options)

    def next(self):
        """The rows since the last time."""
        found = self._run()
        assert found["failure"] is None
        return [tuple(json.loads(row)) for row in found["rows"]]

    def failure(self):
        found = self._run()
        assert found["rows"] == []
        return found["failure"]

    def start(self):
        """Go on until `end`; the rows that are there."""
        rows = self._plain.ask("start_stream", **self._places, **self._options)
        return [tuple(json.loads(row)) for row in rows]

    def end(self):
        """What has ended the stream, after it has met all that there is."""
        found = self._plain.ask("end_stream")
        assert found["rows"] == []
        return found["failure"]


@pytest.fixture
def table(plain, tmp_path):
    """Make a table of two rows by plain Delta; its name and its streams."""

    def make(properties="'my.note' = 'none'"):
        name = f"delta.`{tmp_path}/t`"
        plain.ask(
            "sql",
            text=f"CREATE TABLE {name} (id INT, v STRING) USING delta TBLPROPERTIES ({properties})",
        )
        plain.ask("sql", text=f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
        return name

    return make


@pytest.fixture
def reader(plain, tmp_path):
    def start(**options):
        folder = tmp_path / ("checkpoint" + "".join(sorted(options)))
        return Reader(plain, tmp_path / "t", folder, **options)

    return start


def test_rows_come_once_each_and_nothing_of_what_was_rolled_back(
    spark, plain, table, reader, tmp_path
):
    t, rows = table(), reader()
    assert rows.next() == [(1, "a"), (2, "b")]
    for number in (10, 20):
        write(spark, *[f"INSERT INTO {t} VALUES ({number + i}, 'ours')" for i in range(3)])
        begin(spark)
        spark.sql(f"INSERT INTO {t} VALUES ({number}, 'never')")
        assert rows.next() == [(number + i, "ours") for i in range(3)]
        rollback(spark)
        assert rows.next() == []
        plain.ask("sql", text=f"INSERT INTO {t} VALUES ({number}, 'theirs')")
        assert rows.next() == [(number, "theirs")]
    write(spark, f"INSERT INTO {t} VALUES (30, 'ours')")
    write(spark, f"INSERT INTO {t} VALUES (31, 'ours')", f"OPTIMIZE {t}")
    assert rows.next() == [(30, "ours"), (31, "ours")]
    flush(spark)
    assert rows.next() == []


STATEMENTS = (
    "UPDATE {} SET v = 'new' WHERE id = 1",
    "INSERT INTO {} VALUES (3, 'c'), (4, 'd')",
    "DELETE FROM {} WHERE id = 2",
    "MERGE INTO {} t USING (SELECT 5 AS id) s ON t.id = s.id "
    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (5, 'e')",
)
CHANGES = [
    (1, "a", "update_preimage"),
    (1, "new", "update_postimage"),
    (2, "b", "delete"),
    (3, "c", "insert"),
    (4, "d", "insert"),
    (5, "e", "insert"),
]


@pytest.mark.parametrize("properties", FEEDS.values(), ids=FEEDS)
def test_change_feed_tells_each_change_of_several_commits_once(
    spark, plain, table, reader, tmp_path, properties
):
    t, changes = table(properties), reader(readChangeFeed="true", startingVersion="1")
    assert [row[:3] for row in changes.next()] == [(1, "a", "insert"), (2, "b", "insert")]
    before = head(tmp_path / "t")
    write(spark, *(statement.format(t) for statement in STATEMENTS))
    # One commit cannot say it all.
    last = head(tmp_path / "t")
    assert last > before + 1
    found = changes.next()
    assert [row[:3] for row in found] == CHANGES
    assert {row[3] for row in found} <= set(range(before + 1, last + 1))
    begin(spark)
    spark.sql(f"DELETE FROM {t}")
    rollback(spark)
    assert changes.next() == []
    write(spark, f"UPDATE {t} SET v = 'x' WHERE id = 4", f"INSERT INTO {t} VALUES (6, 'f')")
    plain.ask("sql", text=f"DELETE FROM {t} WHERE id = 3")
    assert [row[:3] for row in changes.next()] == [
        (3, "c", "delete"),
        (4, "d", "update_preimage"),
        (4, "x", "update_postimage"),
        (6, "f", "insert"),
    ]
    assert changes.next() == []


def test_stream_that_skips_changes_skips_the_inserts_of_the_same_commit(spark, table, reader):
    t, rows, stops = table(), reader(skipChangeCommits="true"), reader()
    assert rows.next() == stops.next() == [(1, "a"), (2, "b")]
    write(spark, f"INSERT INTO {t} VALUES (3, 'c')", f"INSERT INTO {t} VALUES (4, 'd')")
    assert stops.next() == [(3, "c"), (4, "d")]
    write(spark, f"UPDATE {t} SET v = 'x' WHERE id = 1", f"INSERT INTO {t} VALUES (5, 'e')")
    write(spark, f"INSERT INTO {t} VALUES (6, 'f')")
    assert rows.next() == [(3, "c"), (4, "d"), (6, "f")]
    assert "DELTA_SOURCE_TABLE_IGNORE_CHANGES" in stops.failure()


def test_stream_that_skips_changes_reads_the_inserts_of_another_commit(spark, table, reader):
    t, rows = table(FEED), reader(skipChangeCommits="true")
    assert len(rows.next()) == 2
    write(spark, f"UPDATE {t} SET v = 'x' WHERE id = 1", f"INSERT INTO {t} VALUES (5, 'e')")
    assert rows.next() == [(5, "e")]


@pytest.mark.parametrize("options", [{}, {"readChangeFeed": "true", "startingVersion": "1"}])
def test_new_column_stops_a_stream_that_goes_on_when_it_is_started_again(
    spark, plain, table, reader, options
):
    t, rows = table(FEED), reader(**options)
    assert [row[:2] for row in rows.start()] == [(1, "a"), (2, "b")]
    write(
        spark,
        f"INSERT INTO {t} VALUES (3, 'c')",
        f"ALTER TABLE {t} ADD COLUMN w INT",
        f"INSERT INTO {t} VALUES (4, 'd', 7)",
    )
    assert "DELTA_SCHEMA_CHANGED" in rows.end()
    assert [row[:3] for row in rows.next()] == [(3, "c", None), (4, "d", 7)]
    plain.ask("sql", text=f"INSERT INTO {t} VALUES (5, 'e', 8)")
    assert [row[:3] for row in rows.next()] == [(5, "e", 8)]
