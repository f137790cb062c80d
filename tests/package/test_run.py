"""`lakestep run`: how a file is split, and what the command does with real tables."""

import json
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import deltalake
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from built import TOP
from fast_start import FAST_START, FEW_TABLES, FEW_TASKS, INTERPRETED
from lakestep import _cli, _report, _run_file, _statements
from lakestep._statements import split

# The splitter.


def texts(text):
    return [statement.text for statement in split(text)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 'a;b', 'it''s; fine', 'escaped \\'; quote', '😀;', ';'",
        'SELECT "a;b", "a "";"" quote", "escaped \\"; quote"',
        "SELECT r'raw\\', R\"raw\\\", 1",
        "SELECT $$a; 'b$$, $tag$ ;$$; $tag$, 1",
        "SELECT * FROM `odd;name`, `a``;b`",
        "SELECT 1 -- a comment; with a semicolon\n + 1",
        "SELECT 1 -- it goes \\\n on; here\n + 1",
        "SELECT 1 /* a; /* nested; */ ; 'it' */ + 1",
        "SELECT /*+ BROADCAST(t) */ 1",
        "EXECUTE IMMEDIATE 'SELECT 1; SELECT 2'",
        "BEGIN SELECT 1; SELECT 2; END",
        "begin not atomic select 1; end",
        "BEGIN ATOMIC SELECT 1; SELECT CASE WHEN a THEN 1 END; END",
        "BEGIN END",
        "BEGIN IF a THEN SELECT 1; ELSEIF b THEN SELECT 2; ELSE SELECT 3; END IF; END",
        "BEGIN a: WHILE b DO SELECT 1; END WHILE a; REPEAT SELECT 1; UNTIL b END REPEAT; END",
        "BEGIN REPEAT SELECT 1; UNTIL CASE WHEN a THEN b ELSE c END END REPEAT; SELECT 1; END",
        "BEGIN LOOP SELECT 1; LEAVE a; END LOOP; FOR x AS SELECT 1 DO SELECT 2; END FOR; END",
        "BEGIN CASE a WHEN 1 THEN SELECT 1; ELSE SELECT 2; END CASE; SELECT 3; END",
        "BEGIN CASE WHEN a THEN BEGIN SELECT 1; END; END CASE; SELECT 3; END",
        "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT 1; END; SELECT 2; END",
        "BEGIN a: BEGIN SELECT 1; END a; SELECT 2; END",
        "BEGIN SELECT substring(a FROM CASE WHEN b THEN 1 ELSE 2 END FOR 3); SELECT 1; END",
        "BEGIN SELECT t.begin, t.end, start, end FROM t; SELECT 'END;'; END",
        "BEGIN SELECT CASE WHEN t.case THEN t.end END; SELECT 1; END",
    ],
)
def test_one_statement_stays_one(statement):
    assert texts(f"{statement}; SELECT 2;") == [statement, "SELECT 2"]
    assert texts(f" ;; /* first; */ SELECT 0;\n{statement}") == ["SELECT 0", statement]


@pytest.mark.parametrize("statement", ["", " \n ", ";;", "-- only; a comment", "/* ; */ ; -- ;"])
def test_nothing_is_no_statement(statement):
    assert split(statement) == []


@pytest.mark.parametrize(
    "begin",
    [
        *("BEGIN", "begin transaction", "BEGIN WORK", "BEGIN nightly", "BEGIN `a; b`"),
        *("BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN WORK a READ ONLY", "BEGIN READ ONLY"),
        *("BEGIN t ISOLATION LEVEL READ UNCOMMITTED, READ WRITE", "BEGIN repeat"),
        *("START TRANSACTION", "START TRANSACTION t READ ONLY"),
    ],
)
def test_begin_that_is_no_script_ends_at_its_semicolon(begin):
    found = split(f"{begin}; DELETE FROM t; SELECT 1; COMMIT")
    assert [s.text for s in found] == [begin, "DELETE FROM t", "SELECT 1", "COMMIT"]
    assert [s.is_boundary for s in found] == [True, False, False, True]
    assert [s.is_query for s in found] == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT 1; SELECT 'open; DELETE FROM t; SELECT 2", 4),
        ("SELECT 1; /* open; DELETE FROM t", 2),
        ("SELECT 1; /* open; /* closed */ DELETE FROM t; SELECT 2", 2),
        ("SELECT 1; SELECT $$open; SELECT 2", 3),
        ("SELECT 1; BEGIN SELECT 1; SELECT 2; COMMIT", 2),
    ],
)
def test_what_is_not_closed_is_left_to_spark(text, count):
    found = split(text)
    assert len(found) == count
    assert "open" in found[1].text or found[1].text.endswith("COMMIT")


@pytest.mark.parametrize(
    ("statement", "is_query"),
    [
        ("(SELECT 1)", True),
        ("WITH a AS (SELECT delete FROM t) SELECT * FROM a", True),
        ("WITH a AS (SELECT 1), b AS (SELECT 2) INSERT INTO t SELECT * FROM a", False),
        ("WITH a AS (SELECT 1) DELETE FROM t", False),
        ("FROM t |> WHERE a", True),
        ("FROM t INSERT INTO a SELECT 1 INSERT INTO b SELECT 2", False),
        ("DESCRIBE HISTORY t", True),
        ("SET a = 1", False),
        ("OPTIMIZE t", False),
    ],
)
def test_what_may_have_a_result(statement, is_query):
    assert [s.is_query for s in split(statement)] == [is_query]


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("SELECT :a, f(:b) + :`c d` LIMIT :e", {"a", "b", "c d", "e"}),
        ("SELECT ':a', \":b\", `:c` -- :d\n /* :e */", set()),
        ("SELECT x::int, :a::date", {"a"}),
        ("SELECT CAST(x AS STRUCT<a: INT, b: ARRAY<STRUCT<c: DATE>>, d:INT>), :e", {"e"}),
        ("CREATE TABLE t (s STRUCT<a:INT>)", set()),
        ("SELECT * FROM t WHERE struct < :a AND b > :c", {"a", "c"}),
        ("EXECUTE IMMEDIATE 'SELECT :a' USING :b AS a", {"b"}),
    ],
)
def test_parameters_are_those_of_the_tokens(statement, names):
    assert [s.parameters for s in split(statement)] == [names]


def test_lines_places_and_titles():
    text = "-- first\n\nSELECT 1;\r\n/* a\nb */ SELECT\n  'x\ny' -- c\n FROM t;\n\n;COMMIT"
    found = split(text)
    assert [s.line for s in found] == [3, 5, 10]
    assert [text[s.start : s.start + len(s.text)] for s in found] == [s.text for s in found]
    assert [s.title for s in found] == ["SELECT 1", "SELECT 'x y' FROM t", "COMMIT"]


PIECES = st.sampled_from(
    [
        *("'", "''", '"', "`", "\\", "$$", "$a$", "r'", "/*", "*/", "/*+", "--", "\\\n", "\n", ";"),
        *("BEGIN", "END", "CASE", "END IF", "COMMIT", "SELECT 1", ":a", "::", "<", " ", "😀", "é"),
    ]
)


@given(st.lists(PIECES, max_size=30).map(" ".join) | st.lists(PIECES, max_size=30).map("".join))
@settings(max_examples=500, deadline=None)
def test_statements_and_what_is_between_give_the_text_back(text):
    found = split(text)
    ends = [0, *(s.start + len(s.text) for s in found)]
    starts = [*(s.start for s in found), len(text)]
    gaps = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    assert gaps[0] + "".join(s.text + gap for s, gap in zip(found, gaps[1:], strict=True)) == text
    for gap in gaps:
        assert {token.text for token in _statements.tokens(gap)} <= {";"}
    for first, second in pairwise(range(len(found))):
        assert ";" in gaps[second], (found[first], found[second])
    assert [s.text for s in found if split(s.text)[0].text != s.text] == []


def paragraphs(name):
    file = TOP / "sql-grammar" / "statements" / f"{name}.sql"
    for paragraph in file.read_text().split("\n\n"):
        lines = paragraph.strip().splitlines()
        heads = [line for line in lines if line.startswith("#")]
        if text := "\n".join(lines[len(heads) :]):
            yield (heads or ["#"])[-1].removeprefix("#").strip(), text


@pytest.mark.parametrize(("becomes", "text"), list(paragraphs("ours")))
def test_statements_of_the_grammar(becomes, text):
    found = split(text)
    bounds = [s.is_boundary for s in found]
    if becomes.startswith("block "):
        assert len(found) == 2 + int(becomes.split()[2])
        assert bounds == [True, *[False] * (len(found) - 2), True]
    elif becomes == "unfinished":
        assert bounds == [True, *[False] * (len(found) - 1)]
    else:
        inner = ("begin", "commit", "atomic block", "mode twice")
        ends = becomes.startswith(inner) or becomes == "rollback"
        assert bounds == [ends and not text.startswith("SET")]


@pytest.mark.parametrize("text", [text for _, text in paragraphs("spark")])
def test_texts_that_are_spark_s_are_one_statement(text):
    assert [s.is_boundary for s in split(text)] == [False]


# The command without Spark.


def command(*arguments, **kept):
    program = Path(sys.executable).parent / "lakestep"
    return subprocess.run([program, *arguments], capture_output=True, text=True, **kept)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--var", "a"], 2, "'a' is not name=value"),
        (["--var", "a=1", "--var", "a=2"], 2, "a is given twice"),
        (["--var", "total=1", "--var", "b=1", "--var", "a="], 2, "no parameter :a, :b"),
        (["--master", "local", "--remote", "sc://a"], 2, "one of --master and --remote"),
        (["--no-such"], 2, "--no-such"),
        (["--atomic"], 1, "file.sql:3: COMMIT"),
    ],
)
def test_what_is_refused_before_spark_starts(tmp_path, capsys, arguments, code, message):
    file = tmp_path / "file.sql"
    file.write_text("SELECT :total;\n\nCOMMIT")
    assert _cli.main(["run", str(file), *arguments]) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""


def test_files_that_cannot_be_read_and_empty_ones(tmp_path, capsys):
    assert _cli.main(["run", str(tmp_path / "nowhere.sql")]) == 2
    (tmp_path / "latin.sql").write_bytes("SELECT 'é'".encode("latin-1"))
    assert _cli.main(["run", str(tmp_path / "latin.sql")]) == 2
    (tmp_path / "empty.sql").write_text("-- nothing;\n;")
    assert _cli.main(["run", str(tmp_path / "empty.sql")]) == 0
    assert _cli.main(["run"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("state", "text", "message"),
    [
        (
            "22012",
            "[A] a\nb. SQLSTATE: 22012\n== SQL (line 2, position 2) ==\n x",
            "[A] a\nb. SQLSTATE: 22012",
        ),
        ("22012", "[A] a. SQLSTATE: 22012\n\n\nJVM stacktrace:\n\tat b", "[A] a. SQLSTATE: 22012"),
        ("22012", "[DELTA_A] a.\n\nJVM stacktrace:\n\tat b", "[DELTA_A] a. SQLSTATE: 22012"),
        (None, "a;\n'Project [*]\n+- b", "a;"),
    ],
)
def test_message_of_an_error_ends_with_its_sql_state(state, text, message):
    class Raised(PySparkException):
        def getSqlState(self):
            return state

        def getMessage(self):
            return text

    assert _report.message_of(Raised("")) == message


def test_import_of_the_package_leaves_the_command_line_alone(python):
    code = "import sys; answer(sorted({'rich', 'typer', 'pydantic'} & sys.modules.keys()))"
    assert python(code) == []


# The command in a process of its own.

SETTINGS = {
    **FEW_TABLES,
    **FEW_TASKS,
    **INTERPRETED,
    "spark.driver.extraJavaOptions": FAST_START,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("command")


def arguments_of(folder, *arguments):
    warehouse = {"spark.sql.warehouse.dir": f"file:{folder}/warehouse"}
    conf = [f"--conf={key}={value}" for key, value in {**SETTINGS, **warehouse}.items()]
    return ["run", *arguments, "--master", "local[2]", *conf]


def rows(folder, name):
    table = deltalake.DeltaTable(folder / name).to_pyarrow_table()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def without_traces(text):
    assert not re.search(r"Traceback|^\s+at |Exception: |\"stacktrace\"", text, re.MULTILINE), text
    return [
        line for line in text.splitlines() if re.match(r"\[\d|(\S+\.sql|<stdin>):|The open", line)
    ]


FIRST = """\
-- orders and stock; as ever
CREATE TABLE orders (id INT, total INT, note STRING) USING delta LOCATION '{folder}/orders';
CREATE TABLE stock (item STRING, n INT) USING delta LOCATION '{folder}/stock';
INSERT INTO stock VALUES ('apple; red', 5), ("pear", 3);
BEGIN;
INSERT INTO orders VALUES (1, CAST(:total AS INT), :note);  -- one; two
UPDATE stock SET n = n - 2 WHERE item = 'apple; red';
SAVEPOINT s; DELETE FROM stock; ROLLBACK TO s;
COMMIT;
BEGIN ATOMIC
  DECLARE i INT DEFAULT 2;
  WHILE i < 4 DO INSERT INTO orders VALUES (i, i * 10, NULL); SET i = i + 1; END WHILE;
  SELECT count(*) AS count FROM orders;
END;
SELECT * FROM stock ORDER BY item;
OPTIMIZE orders;
"""


def test_file_from_stdin_with_transactions_scripts_variables_and_results(folder):
    options = ["--var", "total=20", "--var", "note=it's ; 😀 :total", "--results"]
    done = command(*arguments_of(folder, "-", *options), input=FIRST.format(folder=folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *("+-------+", "| count |", "+-------+", "| 3     |", "+-------+"),
        *("+------------+---+", "| item       | n |", "+------------+---+"),
        *("| apple; red | 3 |", "| pear       | 3 |", "+------------+---+"),
    ]
    lines = without_traces(done.stderr)
    assert [line.split()[0] for line in lines] == [f"[{n}/13]" for n in range(1, 14)]
    assert re.fullmatch(r"\[4/13\] \d+\.\d s  BEGIN", lines[3])
    assert rows(folder, "orders") == [(1, 20, "it's ; 😀 :total"), (2, 20, None), (3, 30, None)]
    assert rows(folder, "stock") == [("apple; red", 3), ("pear", 3)]


def test_atomic_file_that_fails_in_the_middle_changes_nothing(folder):
    before = rows(folder, "orders"), rows(folder, "stock")
    file = folder / "fails.sql"
    file.write_text(
        f"DELETE FROM delta.`{folder}/orders`;\n"
        f"UPDATE delta.`{folder}/stock`\n"
        "  SET n = CASE item\n"
        "    WHEN 'pear' THEN 1 / 0 ELSE 0 END;\n"
        f"DELETE FROM delta.`{folder}/stock`;\n"
    )
    done = command(*arguments_of(folder, str(file), "--atomic", "--quiet"))
    assert (done.returncode, done.stdout) == (1, "")
    first, second, third = without_traces(done.stderr)
    assert first.startswith(f"{file}:4: [DIVIDE_BY_ZERO] ") and first.endswith("SQLSTATE: 22012")
    assert second.startswith(f"{file}:2: in statement 2 of 3: UPDATE delta.`")
    assert third == "The open transaction was rolled back."
    assert (rows(folder, "orders"), rows(folder, "stock")) == before


def test_atomic_file_is_committed_and_its_result_is_json(folder):
    file = folder / "commits.sql"
    file.write_text(
        f"DELETE FROM delta.`{folder}/orders` WHERE id > 1;\n"
        f"INSERT INTO delta.`{folder}/stock` VALUES ('plum', NULL);\n"
        f"SELECT count(*) FROM delta.`{folder}/orders`;\n"
        f"SELECT *, id AS `a;b` FROM delta.`{folder}/stock` CROSS JOIN range(50) ORDER BY item, id;"
    )
    done = command(*arguments_of(folder, str(file), "--atomic", "--json"))
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 150
    assert found[-1] == {"item": "plum", "n": None, "id": 49, "a;b": 49}
    assert [row[0] for row in rows(folder, "orders")] == [1]
    assert [row[0] for row in rows(folder, "stock")] == ["apple; red", "pear", "plum"]
    history = deltalake.DeltaTable(folder / "stock").history(1)
    assert history[0]["operation"] == "WRITE"


def test_interrupted_file_is_rolled_back(folder):
    before = rows(folder, "stock")
    file = folder / "slow.sql"
    wait = "java_method('java.lang.Thread', 'sleep', 100L)"
    file.write_text(
        f"DELETE FROM delta.`{folder}/stock`;\n"
        f"INSERT INTO delta.`{folder}/stock` SELECT {wait}, 1 FROM range(100000);\n"
        f"DELETE FROM delta.`{folder}/orders`"
    )
    program = Path(sys.executable).parent / "lakestep"
    process = subprocess.Popen(
        [program, *arguments_of(folder, str(file), "--atomic")], stderr=subprocess.PIPE, text=True
    )
    messages = ""
    assert process.stderr is not None
    for line in process.stderr:
        messages += line
        if line.startswith("[1/3]"):
            process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    first, second, _ = split(file.read_text())
    stopped, ended = without_traces(messages)[-2:]
    # The signal may come before the second statement has begun.
    assert stopped in (
        f"{file}:1: interrupted after statement 1 of 3: {first.title}",
        f"{file}:2: interrupted in statement 2 of 3: {second.title}",
    )
    assert ended == "The open transaction was rolled back."
    assert rows(folder, "stock") == before


# What runs in the session of the other tests.


@pytest.fixture
def run(spark, capsys):
    """Runs a text; returns the exit code, what it prints, and its messages."""

    def ran(text, **options):
        job = _run_file.Job("f.sql", split(text), quiet=True, **options)
        code = _run_file.run_job(spark, job)
        shown = capsys.readouterr()
        return code, shown.out.splitlines(), without_traces(shown.err)

    yield ran
    assert spark.sql("SHOW TRANSACTIONS").collect() == []


def test_unfinished_transaction_is_rolled_back_and_is_an_error(run, spark, table, rows):
    name = table("unfinished")
    code, printed, messages = run(
        f"BEGIN;\nCOMMIT;\n\nBEGIN work_of_mine;\nDELETE FROM {name};\nSELECT count(*) FROM {name};"
    )
    assert code == 1
    assert "| 0        |" in printed
    assert messages == [
        "f.sql:4: the transaction that begins here has no COMMIT and no ROLLBACK.",
        "The open transaction was rolled back.",
    ]
    assert rows(spark, name) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("statement", "line", "condition"),
    [
        ("SELECT 1,\n 2\n FROM ) t", 5, "PARSE_SYNTAX_ERROR"),
        ("SELECT *\nFROM\n nowhere", 5, "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT id,\n raise_error('no')\n FROM range(9)", 3, "USER_RAISED_EXCEPTION"),
        ("SELECT assert_true(id < 8)\n FROM range(9); SELECT 1", 3, "USER_RAISED_EXCEPTION"),
        ("SELECT\n assert_true(id < 300)\n FROM range(400)", 3, "USER_RAISED_EXCEPTION"),
        ("/* never\n closed; SELECT 1", 3, "UNCLOSED_BRACKETED_COMMENT"),
        ("SELECT 'never\n closed", 3, "PARSE_SYNTAX_ERROR"),
        ("BEGIN\n SELECT 1;\n SELECT 1 / 0;\nEND", 5, "DIVIDE_BY_ZERO"),
        ("BEGIN\n SELECT 1;\n SELECT 1 FROM;\n", 5, "PARSE_SYNTAX_ERROR"),
        ("SELECT\n :unset", 4, "UNBOUND_SQL_PARAMETER"),
        ("ALTER TABLE errors\n ADD CONSTRAINT c CHECK (id > 2)", 3, "DELTA_NEW_CHECK_CONSTRAINT"),
        ("SELECT * FROM\n failing_view", 3, "DIVIDE_BY_ZERO"),
        ("COMMIT", 3, "LAKESTEP_NO_ACTIVE_TRANSACTION"),
    ],
)
def test_errors_have_line_condition_and_sql_state(
    run, spark, table, rows, statement, line, condition
):
    name = table("errors")
    spark.sql("CREATE OR REPLACE TEMP VIEW failing_view AS\n\nSELECT\n1 / 0")
    code, printed, messages = run(f"DELETE FROM {name} WHERE id = 1;\n\n{statement}")
    assert (code, printed) == (1, [])
    assert re.match(rf"f\.sql:{line}: \[{condition}", messages[0]), messages
    assert messages[1].startswith("f.sql:3: in statement 2 of ")
    assert len(messages) == 2
    assert rows(spark, name) == [(2, "b")]
    spark.catalog.dropTempView("failing_view")


def test_sql_state_ends_the_message_and_lines_of_ours_are_the_file_s(run, capsys):
    text = "SELECT 1;\nBEGIN ATOMIC\n SELECT 1;\n COMMIT;\nEND"
    _, _, messages = run(text)
    assert messages[0].startswith("f.sql:4: [LAKESTEP_STATEMENT_IN_BLOCK] COMMIT (line 4) ")
    assert messages[0].endswith("SQLSTATE: 25001")


def test_conflict_at_the_commit_of_an_atomic_file(
    run, spark, other_session, table, rows, monkeypatch
):
    name, show = table("contested_file"), _report.table_of

    def meanwhile(frame):
        other_session.sql(f"UPDATE {name} SET v = 'theirs' WHERE id = 1")
        return show(frame)

    monkeypatch.setattr(_report, "table_of", meanwhile)
    text = f"UPDATE {name} SET v = 'mine'; SELECT count(*) FROM {name}"
    code, _, messages = run(text, atomic=True)
    assert (code, len(messages)) == (1, 1)
    assert messages[0].startswith("f.sql: [LAKESTEP_CONFLICT.")
    code, _, messages = run(f"BEGIN;\n{text};\nCOMMIT")
    assert code == 1
    assert messages[0].startswith("f.sql:3: [LAKESTEP_CONFLICT.")
    assert rows(spark, name) == [(1, "theirs"), (2, "b")]


def test_tables_are_cut_and_only_the_last_query_is_shown(run):
    text = "SELECT 'first'; SELECT id, NULL AS id, '[b]x' AS `[c]` FROM range(101); SET a.b = 1"
    code, printed, _ = run(text)
    assert code == 0
    assert printed[:4] == [
        *("+----+------+------+", "| id | id   | [c]  |", "+----+------+------+"),
        "| 0  | NULL | [b]x |",
    ]
    assert (len(printed), printed[-1]) == (105, "There are more than these 100 rows.")
    types = "INTERVAL '1' MONTH, X'41', array(1, NULL), map(1, struct(2)), DATE '2020-01-01'"
    code, printed, _ = run(f"BEGIN READ ONLY; SELECT {types}; SELECT {types}; COMMIT")
    assert code == 0
    assert "INTERVAL '1' MONTH | A     | [1, null]      | {1 -> {2}}" in printed[3]


def test_example_of_the_page(run, spark):
    page = (TOP / "docs" / "operations.md").read_text()
    example = re.search(
        r"^<!-- load.sql -->\n\n```sql\n(.*?)```\n\n```text\n\$ (.*?)\n(.*?)```", page, re.M | re.S
    )
    assert example is not None
    text, typed, shown = example.groups()
    assert typed == "lakestep run load.sql --atomic --var total=20"
    spark.sql("CREATE TABLE orders (id INT, total INT) USING delta")
    spark.sql("CREATE TABLE stock (item STRING, n INT) USING delta")
    spark.sql("INSERT INTO stock VALUES ('apple', 5), ('pear', 3)")
    code, printed, _ = run(text, atomic=True, variables={"total": "20"})
    steps = [f"[{n}/3] {s.title}" for n, s in enumerate(split(text), 1)]
    assert code == 0
    assert re.sub(r"\d\.\d s  ", "", shown).splitlines() == steps + printed
    for name in ("orders", "stock"):
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.classic
def test_tokens_end_where_those_of_spark_s_lexer_do(spark):
    jvm = spark._jvm
    text = (
        "SELECT 'it''s \\' a', \"x\"\"y\", r'raw\\', R\"raw\\\", `a``b`, "
        "$$ ; $$, $t$ $$ $t$, é, x_1\n"
        "-- comment \\\n goes on\n/* a /* b */ c */ :name ::INT, '😀' /* x /*+ y */ 'open"
    )
    stream = jvm.org.antlr.v4.runtime.CharStreams.fromString(text)
    parser = jvm.org.apache.spark.sql.catalyst.parser
    lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(stream))
    theirs = [t for t in lexer.getAllTokens() if t.getChannel() == 0]
    edges = {t.getStartIndex() for t in theirs} | {t.getStopIndex() + 1 for t in theirs}
    ours = list(_statements.tokens(text))
    assert {t.start for t in ours} | {t.end for t in ours} <= edges
    words = [
        t for t in theirs if re.fullmatch(r"[\wé]+", text[t.getStartIndex() : t.getStopIndex() + 1])
    ]
    assert {t.getStartIndex() for t in words} <= {t.start for t in ours}
    strings = {(t.start, t.end) for t in ours if t.kind in ("string", "name") and "$" not in t.text}
    assert strings <= {(t.getStartIndex(), t.getStopIndex() + 1) for t in theirs}
