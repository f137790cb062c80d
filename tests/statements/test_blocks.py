"""A whole transaction in one call, and statements with parameters."""

import pytest

import files_on_disk
import table_state
from built import LINE
from transactions import begin, commit, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]


def column(frame):
    return sorted(row[0] for row in frame.collect())


def is_idle(spark):
    return spark.sql("SHOW TRANSACTIONS").collect() == []


def test_block_commits_and_gives_the_rows_of_its_last_query(spark, arena):
    one, two = arena.table("plain"), arena.table("partitioned")
    frame = spark.sql(f"""
        BEGIN tx1;
        INSERT INTO {one.sql} (id, part, v, n) VALUES (71, 'a', 'x;y', 1); -- a comment; with COMMIT
        SELECT count(*) FROM {one.sql};
        /* and one; more */
        UPDATE {two.sql} SET v = 'it''s; "so"' WHERE id < 3;
        SELECT id, v FROM {one.sql} WHERE id > 70;
        OPTIMIZE {arena.table("plain").sql};
        COMMIT;
    """)
    assert [tuple(row) for row in frame.collect()] == [(71, "x;y")]
    assert is_idle(spark)
    assert column(spark.sql(f"SELECT v FROM {one.sql} WHERE id = 71")) == ["x;y"]
    changed = spark.sql(f"SELECT DISTINCT v FROM {two.sql} WHERE id < 3")
    # Spark 4.0 takes two quotes for the end of a text and the begin of another.
    assert column(changed) == ['its; "so"' if LINE == "4.0" else 'it\'s; "so"']
    assert [tuple(row) for row in frame.collect()] == [(71, "x;y")]


def test_block_that_rolls_back_shows_its_rows_and_changes_nothing(spark, arena):
    target = arena.table("plain")
    files = files_on_disk.prints(target.path)
    before = table_state.view(spark, target.sql)
    frame = spark.sql(
        f"BEGIN; DELETE FROM {target.sql}; SELECT count(*) FROM {target.sql}; ROLLBACK"
    )
    assert column(frame) == [0]
    files_on_disk.assert_log_untouched(target.path, files)
    assert table_state.view(spark, target.sql) == before
    assert is_idle(spark)


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("UPDATE {t} SET v = raise_error('stop') WHERE id = 3", "TASK_WRITE_FAILED"),
        ("SELECT raise_error('stop') FROM {t}", "USER_RAISED_EXCEPTION"),
        ("SELECT nothing FROM {t}", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("INSERT INTO missing VALUES (1)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("VACUUM {t}", "LAKESTEP_UNSUPPORTED_IN_TRANSACTION.VACUUM"),
        ("SELEC 1", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_failing_block_rolls_back_and_raises_the_error_of_its_statement(
    spark, arena, statement, condition
):
    target = arena.table("plain")
    files = files_on_disk.prints(target.path)
    before = table_state.view(spark, target.sql)
    text = f"BEGIN; DELETE FROM {{t}} WHERE id = 1; {statement}; DELETE FROM {{t}}; COMMIT"
    with refused(condition):
        spark.sql(text.format(t=target.sql))
    files_on_disk.assert_log_untouched(target.path, files)
    assert table_state.view(spark, target.sql) == before
    assert is_idle(spark)


def test_block_without_its_end_is_refused_before_it_begins(spark, arena):
    target = arena.table("plain")
    with refused("LAKESTEP_BLOCK_NOT_FINISHED", "42601"):
        spark.sql(f"BEGIN; DELETE FROM {target.sql}")
    assert is_idle(spark)
    assert spark.table(target.sql).count() == 8


def test_block_inside_a_transaction_is_refused_and_the_transaction_goes_on(spark, arena):
    target = arena.table("plain")
    begin(spark)
    spark.sql(f"DELETE FROM {target.sql} WHERE id = 1")
    with refused("LAKESTEP_TRANSACTION_ALREADY_ACTIVE", "25001"):
        spark.sql(f"BEGIN; DELETE FROM {target.sql}; COMMIT")
    commit(spark)
    assert spark.table(target.sql).count() == 7


def test_block_takes_named_parameters(spark, arena):
    target = arena.table("plain")
    frame = spark.sql(
        f"BEGIN; INSERT INTO {target.sql} VALUES (:id, :part, :v, :n); "
        f"DELETE FROM {target.sql} WHERE v <> '\U0001f600' AND id = (: gone); "
        f"SELECT v FROM {target.sql} WHERE id = :id; COMMIT",
        args={"id": 80, "part": "a", "v": "don't; :id", "n": 1, "gone": 2},
    )
    assert column(frame) == ["don't; :id"]
    assert column(spark.sql(f"SELECT id FROM {target.sql} WHERE id IN (2, 80)")) == [80]
    ours, sparks = "LAKESTEP_POSITIONAL_PARAMETERS_IN_BLOCK", "UNSUPPORTED_FEATURE"
    with refused(sparks if LINE == "4.0" else ours):
        spark.sql(f"BEGIN; DELETE FROM {target.sql} WHERE id = ?; COMMIT", args=[1])
    assert is_idle(spark)


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
def test_statements_of_spark_and_delta_take_parameters(spark, arena, inside):
    target = arena.table("plain")
    t = target.sql
    other = arena.table("partitioned").sql
    if inside:
        begin(spark)
    assert column(spark.sql("SELECT :x + 1", args={"x": 1})) == [2]
    assert column(spark.sql("SELECT ? + 1", args=[2])) == [3]
    assert column(spark.sql(f"SELECT id FROM {t} WHERE id < ? AND v = ?", args=[9, "one"])) == [1]
    assert spark.sql("SELECT * FROM {table}", table=spark.table(t)).count() == 8
    spark.sql(f"INSERT INTO {t} VALUES (:id, 'a', :v, 1)", args={"id": 81, "v": "ç"})
    spark.sql(f"UPDATE {t} SET v = :v WHERE id = :id", args={"id": 1, "v": "set"})
    # Characters that are two of Java's.
    smiling = f"UPDATE {t} SET v = '\U0001f600' || :v WHERE v <> '\U0001f600' AND id = :id"
    spark.sql(smiling, args={"id": 4, "v": "\U0001f601"})
    assert column(spark.sql(f"SELECT v FROM {t} WHERE id = 4")) == ["\U0001f600\U0001f601"]
    spark.sql(f"DELETE FROM {t} WHERE id = ?", args=[2])
    spark.sql(
        f"MERGE INTO {t} t USING (SELECT :id AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = :n",
        args={"id": 3, "n": 33},
    )
    text = f"OPTIMIZE {other} WHERE part = :part -- not a marker: 'à :part"
    if LINE == "4.0":
        with refused("PARSE_SYNTAX_ERROR"):
            spark.sql(f"DESCRIBE HISTORY {t} LIMIT :n", args={"n": 2})
        with refused("UNBOUND_SQL_PARAMETER"):
            spark.sql(text, args={"part": "a"})
    else:
        assert spark.sql(f"DESCRIBE HISTORY {t} LIMIT :n", args={"n": 2}).count() == 2
        assert spark.sql(f"DESCRIBE HISTORY {t} LIMIT ?", args=[1]).count() == 1
        spark.sql(text, args={"part": "a"})
        with refused("UNBOUND_SQL_PARAMETER"):
            spark.sql(text, args={"other": "a"})
    found = spark.sql(
        f"SELECT id, v, n FROM {t} WHERE id IN (:a, :b, 2, 81)", args={"a": 1, "b": 3}
    )
    assert sorted(map(tuple, found.collect())) == [(1, "set", 1), (3, "three", 33), (81, "ç", 1)]
    with refused("UNBOUND_SQL_PARAMETER"):
        spark.sql("SELECT :missing", args={"other": 1})
    if inside:
        rollback(spark)
        assert spark.table(t).count() == 8


def test_scripts_of_spark_stay_spark_s(spark):
    # Off by default before 4.1.
    spark.conf.set("spark.sql.scripting.enabled", "true")
    assert column(spark.sql("BEGIN DECLARE x INT DEFAULT 3; SET x = x + 1; SELECT x; END")) == [4]
    assert column(spark.sql("BEGIN SELECT 1; END")) == [1]
    assert is_idle(spark)


def test_block_by_execute_immediate_is_refused_before_it_runs(spark, arena):
    target = arena.table("plain").sql
    block = f"BEGIN; DELETE FROM {target}; COMMIT"
    with refused(
        "SQL_SCRIPT_IN_EXECUTE_IMMEDIATE"
        if LINE == "4.0"
        else "LAKESTEP_BLOCK_IN_EXECUTE_IMMEDIATE"
    ):
        spark.sql(f"EXECUTE IMMEDIATE '{block}'")
    assert spark.table(target).count() == 8
    assert is_idle(spark)
