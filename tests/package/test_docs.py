"""The documentation: generated pages are up to date, links lead somewhere, examples are true."""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import links
from transactions import abandon, condition_of

TOP = Path(__file__).resolve().parents[2]
DOCS = TOP / "docs"
SQL = DOCS / "sql.md"
MAIN = TOP / "scala" / "src" / "main"

FOLDERS = (".", "benchmarks", "docs", "docs/*", "python", "scala", "tests")
PAGES = sorted(page for folder in FOLDERS for page in TOP.glob(f"{folder}/*.md"))

# The alternatives of the grammar's singleStatement, and where sql.md describes them.
DROPPED = "UNDROP TABLE, SHOW DROPPED TABLES, VACUUM DROPPED TABLES"

SECTIONS = {
    "beginTransaction": "BEGIN, START TRANSACTION",
    "setTransaction": "SET TRANSACTION",
    "commitTransaction": "COMMIT",
    "rollbackTransaction": "ROLLBACK",
    "transactionBlock": "Block: BEGIN; …; COMMIT",
    "unfinishedBlock": "Block: BEGIN; …; COMMIT",
    "showTransactions": "SHOW TRANSACTIONS",
    "showTimeline": "SHOW TIMELINE",
    "describeTransaction": "DESCRIBE TRANSACTION",
    "explainConflict": "EXPLAIN CONFLICT",
    "recover": "RECOVER",
    "undropTable": DROPPED,
    "showDroppedTables": DROPPED,
    "vacuumDroppedTables": DROPPED,
    "vacuumTransactions": "VACUUM TRANSACTIONS",
    "setSavepoint": "SAVEPOINT, ROLLBACK TO, RELEASE",
    "rollbackToSavepoint": "SAVEPOINT, ROLLBACK TO, RELEASE",
    "releaseSavepoint": "SAVEPOINT, ROLLBACK TO, RELEASE",
    "atomicBlock": "BEGIN ATOMIC … END",
    "forgetBatchKeys": "FORGET BATCH KEYS",
    "assertion": "ASSERT",
    "showAssertions": "SHOW ASSERTIONS",
    "createSnapshot": "CREATE SNAPSHOT, SHOW SNAPSHOTS",
    "showSnapshots": "CREATE SNAPSHOT, SHOW SNAPSHOTS",
    "verifyDatabase": "VERIFY DATABASE",
    "dropSnapshot": "DROP SNAPSHOT",
    "revertTransaction": "REVERT TRANSACTION",
    "restore": "RESTORE",
    "passThrough": "Statements inside a transaction",
}


def test_generated_pages_are_what_the_generator_writes():
    command = [sys.executable, str(DOCS / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}Run docs/generate.py."


# Links.


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_links_lead_to_files_and_headings(page):
    assert links.dead(page) == []


def test_every_page_is_in_the_menu_and_in_the_list_of_pages():
    menu, listed = (TOP / "mkdocs.yml").read_text(), (DOCS / "index.md").read_text()
    pages = {page.name for page in DOCS.glob("*.md")} - {"index.md"}
    assert {page for page in pages if f": {page}\n" not in menu} == set()
    assert {page for page in pages if f"]({page})" not in listed} == set()


# Names.


def test_classes_that_the_pages_name_exist():
    kinds = "class|object|trait|interface|enum"
    classes = {
        f"{package}.{name}"
        for source in [*MAIN.rglob("*.scala"), *MAIN.rglob("*.java")]
        for package in re.findall(r"^package ([\w.]+)", source.read_text(), re.MULTILINE)
        for name in re.findall(rf"^[\w\[\] ]*\b(?:{kinds}) (\w+)", source.read_text(), re.MULTILINE)
    }
    named = {
        (name, page.name)
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"\bio\.lakestep(?:\.[a-z]\w*)*\.[A-Z]\w*", page.read_text())
    }
    assert {name for name, page in named if page == "scala.md"}
    assert [found for found in sorted(named) if found[0] not in classes] == []


def test_signatures_of_the_scala_page_are_those_of_the_sources():
    page = (DOCS / "scala.md").read_text()
    transaction = (MAIN / "scala/io/lakestep/api/Lakestep.scala").read_text()
    members = re.findall(r"^\| `(\w+(?:\(\))?: \w+)` \|", page, re.MULTILINE)
    assert len(members) == 4
    assert [member for member in members if member not in transaction] == []
    strategy = (MAIN / "scala/io/lakestep/commit/ConflictStrategy.scala").read_text()
    methods = re.findall(r"override (def \w+\([^)]*\): [\w.]+)", page)
    assert len(methods) == 1
    assert all(" ".join(method.split()) in " ".join(strategy.split()) for method in methods)


# SQL.


def sections():
    """The parts of sql.md by their headings."""
    parts = re.split(r"^## (.*)$", SQL.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_statement_of_the_grammar_has_a_section_with_syntax_and_an_example():
    grammar = (TOP / "sql-grammar" / "LakestepSql.g4").read_text()
    rule = re.search(r"^singleStatement$.*?^ {4};$", grammar, re.MULTILINE | re.DOTALL)
    assert rule is not None
    assert set(re.findall(r"#(\w+)$", rule[0], re.MULTILINE)) == set(SECTIONS)
    for label, heading in SECTIONS.items():
        section = sections()[heading]
        assert label == "passThrough" or "\n```text\n" in section, heading
        assert "\n```sql\n" in section, heading


class Call(NamedTuple):
    """One call of `spark.sql`, or some lines of Python, and what the page says of it."""

    line: int
    language: str
    where: str
    text: str
    expected: list[str]


def calls(of=SQL):
    """The calls of a page in their order.

    In a block of SQL, a line of comment is a row of the result of the statement above. A comment of
    HTML in front says of a block that it is one call, or where it runs.
    """
    page = of.read_text()
    blocks = r"^(?:<!-- ([\w ]+) -->\n\n)?```(\w+)\n(.*?)^```$"
    for block in re.finditer(blocks, page, re.MULTILINE | re.DOTALL):
        where, language, code = block[1] or "", block[2], block[3]
        line = page.count("\n", 0, block.start(3)) + 1
        if language == "python":
            yield Call(line, language, where, code, [])
        if language == "sql":
            pattern = r"(?:^(?!-- ).*\n)+" if where == "one call" else r"(?:^(?!-- ).*\n)+?(?<=;\n)"
            ends = re.sub(r"; +--.*$", ";", code, flags=re.MULTILINE)
            for call in re.finditer(rf"({pattern})((?:^-- .*\n)*)", ends, re.MULTILINE):
                text = call[1].strip().removesuffix(";")
                at = line + ends.count("\n", 0, call.start())
                rows = [row.removeprefix("-- ") for row in call[2].splitlines()]
                yield Call(at, language, where, text, rows)


def result_columns():
    """By the first words of a statement, the columns and types that its section lists."""
    found = {}
    for heading, section in sections().items():
        table = re.search(
            r"^\| column \| type \| \|\n\|[-|]+\n((?:\|.*\n)+)", section, re.MULTILINE
        )
        if table:
            rows = re.findall(r"^\| `(\w+)` \| `?([\w<>, ]+?)`? \|", table[1], re.MULTILINE)
            assert len(rows) == table[1].count("\n"), heading
            found |= dict.fromkeys(heading.split(", "), rows)
    return found


@pytest.fixture
def sessions(spark, tmp_path):
    """Two sessions with a timeline, and a schema, of their own."""

    def session():
        made = spark.newSession()
        made.conf.set("spark.lakestep.root", f"file:{tmp_path}/timeline")
        # The default.
        made.conf.set("spark.lakestep.commit.redoStatements", "true")
        made.sql("USE sql_page")
        return made

    spark.sql("CREATE SCHEMA sql_page")
    both = {"": session(), "another session": session()}
    both["one call"] = both[""]
    yield both
    for each in both.values():
        abandon(each)
    spark.sql("DROP SCHEMA sql_page CASCADE")


@pytest.mark.classic
def test_examples_of_sql_give_what_the_page_says(sessions):
    columns = result_columns()
    assert run(sessions, SQL, columns) == set(columns)


@pytest.mark.classic
def test_tour_of_undo_is_of_a_real_run(sessions):
    run(sessions, DOCS / "undo.md", {})


def run(sessions, page, columns):
    """Run the calls of a page; the statements whose columns were looked at."""
    last_id = ""
    seen = set()
    for call in calls(page):
        session, place = sessions[call.where], f"{page.name}:{call.line}"
        if call.language == "python":
            exec(call.text, {"spark": session})
            continue
        text = call.text.replace("'t…'", f"'{last_id}'")
        try:
            frame = session.sql(text)
            rows = frame.collect() if call.expected else []
        except Exception as failure:
            if not any(line.startswith("error ") for line in call.expected):
                raise AssertionError(f"{place}: {text}") from failure
            state = getattr(failure, "getSqlState", lambda: None)()
            assert [f"error {condition_of(failure)} {state}"] == call.expected, place
            continue
        assert shown(rows, call.expected) == call.expected, f"{place}: {text}"
        if "transaction_id" in frame.columns and rows:
            last_id = rows[-1]["transaction_id"]
        named = [name for name in columns if re.match(rf"{name}\b(?! TO)", text)]
        for name in named if call.where != "one call" else []:
            types = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
            assert types == columns[name], f"{place}: {text}"
            seen.add(name)
    return seen


def shown(rows, expected):
    """Rows as the page writes them; what an ellipsis of the page stands for stays one."""
    if not expected:
        return []
    if expected == ["no rows"] or len(rows) != len(expected):
        return [str(row) for row in rows] or ["no rows"]
    return [as_written(row, line) for row, line in zip(rows, expected, strict=True)]


def as_written(row, line):
    if " " not in line:
        text = value(row[0]) if len(row) == 1 else str(row)
    else:
        names = [piece.split(" ")[0] for piece in line.split(", ")]
        text = ", ".join(f"{name} {value(row[name])}" for name in names)
    pattern = re.escape(line)
    pattern = re.sub(r"(?<!\w)t…", "t[0-9a-f]{32}", pattern).replace("…", ".*")
    return line if re.fullmatch(pattern, text, re.DOTALL) else text


def value(of):
    if of is None:
        return "NULL"
    if isinstance(of, bool):
        return str(of).lower()
    return f"[{', '.join(map(value, of))}]" if isinstance(of, list) else str(of)
