"""BEGIN ATOMIC … END: a script of Spark's as one transaction."""

import pytest

from built import LINE
from settings import setting
from three_rows import ids, three_rows
from transactions import begin, condition_of, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left", "scripts"),
    pytest.mark.sliced(6),
]


@pytest.fixture
def scripts(spark):
    with setting(spark, "spark.sql.scripting.enabled", "true"):
        yield


@pytest.fixture
def table(spark, tmp_path):
    with three_rows(spark, tmp_path) as made:
        yield made


def version(spark, table):
    return spark.sql(f"DESCRIBE HISTORY {table}").collect()[0]["version"]


def is_idle(spark):
    return spark.sql("SHOW TRANSACTIONS").collect() == []


def test_script_is_one_transaction_and_gives_its_last_result(spark, table):
    one, two = table("one"), table("two")
    before = version(spark, one), version(spark, two)
    frame = spark.sql(f"""
        -- what it does
        BEGIN /* as one */ ATOMIC
          DECLARE n INT DEFAULT 0;
          WHILE n < 3 DO
            INSERT INTO {one} (id) VALUES (10 + n);
            SET n = n + 1;
          END WHILE;
          IF (SELECT count(*) FROM {one}) = 6 THEN
            INSERT INTO {two} SELECT id, CASE WHEN id > 11 THEN 'big' ELSE 'small' END FROM {one};
          ELSE
            DELETE FROM {two};
          END IF;
          FOR row AS SELECT id FROM {two} WHERE id = 12 DO
            UPDATE {two} SET v = concat(v, row.id) WHERE id = row.id;
          END FOR;
          EXECUTE IMMEDIATE 'DELETE FROM {one} WHERE id = :id' USING 1 AS id;
          SELECT v FROM {two} WHERE id = 12;
        END
    """)
    assert frame.collect() == [("big12",)]
    assert ids(spark, one) == [2, 3, 10, 11, 12]
    assert ids(spark, two) == [1, 1, 2, 2, 3, 3, 10, 11, 12]
    assert (version(spark, one), version(spark, two)) == (before[0] + 1, before[1] + 1)
    assert is_idle(spark)


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("SELECT 1 / 0", "DIVIDE_BY_ZERO"),
        ("INSERT INTO nowhere VALUES (1)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT raise_error('stop')", "USER_RAISED_EXCEPTION"),
        ("SELECT assert_true(1 = 2)", "USER_RAISED_EXCEPTION"),
    ],
)
def test_failure_rolls_back_and_stays_what_it_was(spark, table, statement, condition):
    one = table("failing")
    with refused(condition):
        spark.sql(f"BEGIN ATOMIC DELETE FROM {one}; {statement}; DELETE FROM {one}; END")
    assert ids(spark, one) == [1, 2, 3]
    assert is_idle(spark)


def test_handler_finds_the_state_before_the_statement_that_failed(spark, table):
    one = table("handled")
    frame = spark.sql(f"""
        BEGIN ATOMIC
          INSERT INTO {one} (id) VALUES (4);
          BEGIN
            DECLARE EXIT HANDLER FOR SQLEXCEPTION
              INSERT INTO {one} SELECT 100 + count(*), 'seen' FROM {one};
            INSERT INTO {one} (id) VALUES (5);
            UPDATE {one} SET v = CASE WHEN id = 3 THEN raise_error('stop') ELSE 'x' END;
            DELETE FROM {one};
          END;
          SELECT count(v) FROM {one};
        END
    """)
    assert frame.collect() == [(1,)]
    assert ids(spark, one) == [1, 2, 3, 4, 5, 105]


def test_bodies_hold_statements_of_delta_and_of_lakestep(spark, table):
    one, two = table("mixed"), table("optimized")
    frame = spark.sql(f"""
        BEGIN ATOMIC
          DECLARE i INT DEFAULT 0;
          BEGIN
            DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK TO SAVEPOINT clean;
            SAVEPOINT clean; DELETE FROM {one} WHERE id = 1;
            SELECT 1 / 0;
          END;
          REPEAT
            SAVEPOINT s;
            INSERT INTO {one} (id) VALUES (10 + i);
            IF i = 1 THEN ROLLBACK TO s; ELSE RELEASE SAVEPOINT s; END IF;
            SET i = i + 1;
          UNTIL i = 3 END REPEAT;
          OPTIMIZE {two};
          ALTER TABLE {one} ADD CONSTRAINT positive CHECK (id > 0);
          SELECT 'OPTIMIZE x; SAVEPOINT y', count(*) FROM {one};
        END;
    """)
    assert frame.collect() == [("OPTIMIZE x; SAVEPOINT y", 5)]
    assert ids(spark, one) == [1, 2, 3, 10, 12]
    with refused("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        spark.sql(f"INSERT INTO {one} (id) VALUES (-1)")


@pytest.mark.skipif(LINE == "4.0", reason="its parameters are filled in after the parser")
def test_parameters_reach_every_statement(spark, table):
    one = table("parameters")
    script = f"""
        BEGIN ATOMIC
          INSERT INTO {one} VALUES (:id, :v);
          OPTIMIZE {table("optimized")} ZORDER BY (id);
          SAVEPOINT s;
          ASSERT NO ROWS SELECT * FROM {one} WHERE id = :id AND v <> :v;
          SELECT v FROM {one} WHERE id = :id;
        END"""
    assert spark.sql(script, {"id": 7, "v": "it's ; 😀"}).collect() == [("it's ; 😀",)]
    declared = "BEGIN ATOMIC DECLARE a INT DEFAULT :v; DECLARE b INT DEFAULT 1; SELECT a + b; END"
    assert spark.sql(declared, {"v": 7}).collect() == [(8,)]
    with refused("LAKESTEP_POSITIONAL_PARAMETERS_IN_BLOCK"):
        spark.sql("BEGIN ATOMIC SELECT ?; END", [1])


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT",
        "ROLLBACK",
        "BEGIN TRANSACTION",
        "START TRANSACTION READ ONLY",
        "BEGIN ATOMIC SELECT 1; END",
        "IF 1 = 2 THEN COMMIT; END IF",
    ],
)
def test_nothing_inside_ends_the_transaction(spark, table, statement):
    one = table("ended")
    with refused("LAKESTEP_STATEMENT_IN_BLOCK", "25001") as failure:
        spark.sql(f"BEGIN ATOMIC\n DELETE FROM {one};\n {statement};\n END")
    assert "line 3" in str(failure.value)
    assert ids(spark, one) == [1, 2, 3]
    assert is_idle(spark)


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("block", ["BEGIN ATOMIC {}; END", "BEGIN; {}; COMMIT"])
def test_nothing_executed_inside_ends_the_transaction(spark, table, statement, block):
    one = table("ended_in_text")
    body = f"DELETE FROM {one}; EXECUTE IMMEDIATE '{statement}'; DELETE FROM {one}"
    with refused("LAKESTEP_STATEMENT_IN_BLOCK", "25001"):
        spark.sql(block.format(body))
    assert ids(spark, one) == [1, 2, 3]
    assert is_idle(spark)


def test_atomic_needs_a_session_without_a_transaction(spark, table):
    one = table("within")
    begin(spark)
    with refused("LAKESTEP_TRANSACTION_ALREADY_ACTIVE", "25001"):
        spark.sql(f"BEGIN ATOMIC DELETE FROM {one}; END")
    assert ids(spark, one) == [1, 2, 3]
    rollback(spark)
    with refused("LAKESTEP_STATEMENT_IN_BLOCK"):
        spark.sql(f"BEGIN; BEGIN ATOMIC DELETE FROM {one}; END; COMMIT")


@pytest.mark.parametrize(
    "script",
    [
        "BEGIN ATOMIC SELECT 1;",
        "BEGIN ATOMIC SELECT 1",
        "BEGIN ATOMIC IF 1 = 1 THEN SELECT 1; END",
        "BEGIN ATOMIC SAVEPOINT; END",
        "BEGIN ATOMIC OPTIMIZE; END",
    ],
)
def test_script_that_does_not_parse_is_spark_s_error(spark, script):
    with refused("PARSE_SYNTAX_ERROR", "42601"):
        spark.sql(script)
    assert is_idle(spark)


def test_errors_name_the_lines_of_the_text(spark, table):
    one = table("lines")
    with refused("TABLE_OR_VIEW_NOT_FOUND") as failure:
        spark.sql(f"BEGIN ATOMIC\n SAVEPOINT s;\n OPTIMIZE\n {one};\n SELECT * FROM nowhere;\nEND")
    assert "LINE:5" in str(failure.value) or "line 5" in str(failure.value)
    # Of what Spark's parser does not know, too.
    with pytest.raises(Exception, match=r"line[: ]3"):
        spark.sql("BEGIN ATOMIC\n SAVEPOINT s;\n OPTIMIZE nowhere;\nEND")
    with refused("PARSE_SYNTAX_ERROR") as failure:
        spark.sql(f"BEGIN ATOMIC\n OPTIMIZE {one};\n SELECT (1;\nEND")
    assert "line 3" in str(failure.value) and f"OPTIMIZE {one};" in str(failure.value)
    assert "lakestep_statement" not in str(failure.value)


def test_conditions_of_a_handler_come_before_its_statement(spark, table):
    one = table("conditions")
    values = ", ".join(f"({i}, 'FOR ; HANDLER')" for i in range(1000))
    for conditions in ("SQLEXCEPTION", "SQLSTATE '22012', SQLSTATE VALUE '42000'"):
        spark.sql(f"""
            BEGIN ATOMIC
              SAVEPOINT clean;
              BEGIN
                DECLARE EXIT HANDLER FOR {conditions} ROLLBACK TO clean;
                INSERT INTO {one} VALUES {values};
                SELECT 1 / 0;
              END;
            END""")
        assert ids(spark, one) == [1, 2, 3]
    long = f"DECLARE EXIT HANDLER FOR SQLEXCEPTION INSERT INTO {one} VALUES {values}; SELECT 1 / 0;"
    spark.sql(f"BEGIN ATOMIC {long} END")
    assert len(ids(spark, one)) == 1003


def test_case_and_loop_hold_statements_of_delta_and_of_lakestep(spark, table):
    one = table("looped")
    spark.sql(f"""
        BEGIN ATOMIC
          DECLARE n INT DEFAULT 0;
          turns: LOOP
            SET n = n + 1;
            CASE n
              WHEN 1 THEN OPTIMIZE {one};
              WHEN 2 THEN SAVEPOINT s; DELETE FROM {one}; ROLLBACK TO s;
              ELSE ALTER TABLE {one} SET TBLPROPERTIES ('mine' = 'yes'); LEAVE turns;
            END CASE;
          END LOOP;
        END""")
    assert ids(spark, one) == [1, 2, 3]
    assert ("mine", "yes") in [tuple(r) for r in spark.sql(f"SHOW TBLPROPERTIES {one}").collect()]


def test_signal_stays_spark_s_error(spark, table):
    one = table("signalled")
    with refused("PARSE_SYNTAX_ERROR"):
        spark.sql(f"BEGIN ATOMIC DELETE FROM {one}; SIGNAL SQLSTATE '45000'; END")
    assert ids(spark, one) == [1, 2, 3]
    assert is_idle(spark)


@pytest.mark.parametrize(
    "body",
    [
        "DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN SELECT 1; END; DELETE FROM {t};",
        "DECLARE c CURSOR FOR SELECT id FROM {t}; OPEN c; DELETE FROM {t}; CLOSE c;",
    ],
    ids=["continue handler", "cursor"],
)
def test_what_spark_has_switched_off_stays_spark_s_error(spark, table, body):
    one = table("switched_off")
    found = []
    for kind in ("BEGIN", "BEGIN ATOMIC"):
        with pytest.raises(Exception) as raised:
            spark.sql(f"{kind} {body.format(t=one)} END")
        found.append(condition_of(raised.value))
    assert found[0] == found[1] and found[0] is not None
    assert ids(spark, one) == [1, 2, 3]
    assert is_idle(spark)


def test_a_dropped_table_comes_back_inside_a_script(spark, table):
    one = table("undropped")
    spark.sql(f"BEGIN ATOMIC DROP TABLE {one}; UNDROP TABLE {one}; END")
    assert ids(spark, one) == [1, 2, 3]
    spark.sql(f"BEGIN ATOMIC RESTORE TABLE {one} TO VERSION AS OF 0; END")
    assert ids(spark, one) == []
    spark.sql(f"INSERT INTO {one} (id) VALUES (5)")
    with refused("LAKESTEP_REVERT_NOT_COMMITTED", "22023"):
        spark.sql(f"BEGIN ATOMIC DELETE FROM {one}; REVERT TRANSACTION 't0'; END")
    assert ids(spark, one) == [5]
    assert is_idle(spark)


@pytest.mark.parametrize("count", [20, pytest.param(2000, marks=pytest.mark.long)])
def test_long_blocks_of_statements(spark, table, count):
    one = table("long_block")
    many = "; ".join(f"SAVEPOINT s{n}; RELEASE SAVEPOINT s{n}" for n in range(count // 2))
    spark.sql(f"BEGIN; INSERT INTO {one} (id) VALUES (4); {many}; COMMIT")
    # Each stands in the script as a placeholder.
    spark.sql(f"BEGIN ATOMIC INSERT INTO {one} (id) VALUES (5); {many}; END")
    assert ids(spark, one) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.long)])
def test_deep_and_long_scripts(spark, table, count):
    one = table("deep")
    nested = "BEGIN " * 49 + f"INSERT INTO {one} (id) VALUES (4);" + " END;" * 49
    spark.sql(f"BEGIN ATOMIC {nested} END")
    assert ids(spark, one) == [1, 2, 3, 4]
    many = "DECLARE n INT DEFAULT 0;" + "SET n = n + 1;" * (count - 2) + "SELECT n;"
    assert spark.sql(f"BEGIN ATOMIC {many} END").collect() == [(count - 2,)]
