"""Write the reference pages that repeat what the code says: errors.md, python.md, settings.md.

In pages written by hand it writes the blocks that show a file of examples/.

``python docs/generate.py`` writes them; ``--check`` writes nothing and exits with 1 if one differs.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import docstrings
import python_page

DOCS = Path(__file__).resolve().parent
REPOSITORY = DOCS.parent
MAIN = REPOSITORY / "scala" / "src" / "main"
CONDITIONS = MAIN / "resources" / "lakestep-error-conditions.json"
CONF = MAIN / "scala" / "io" / "lakestep" / "LakestepConf.scala"
EXCEPTIONS = python_page.PACKAGE / "_errors.py"

NOTICE = "<!-- Written by docs/generate.py. Do not edit. -->"

# How many sentences at the end of a text say what to do, where it is not one; 0: not told apart.
NEXT_STEPS = {
    "LAKESTEP_CONFLICT_NOT_KNOWN": 0,
    "LAKESTEP_RETENTION_INVALID": 0,
    "LAKESTEP_TRANSACTION_FAILED": 0,
    "LAKESTEP_UNSUPPORTED_IN_TRANSACTION.CREATE_TABLE": 2,
}

# Pages that show files of examples/.
WITH_EXAMPLES = ("dbt.md", "pipelines.md")

ERRORS_HEAD = """\
# Errors

Every error of Lakestep has a condition (`LAKESTEP_…`), an SQLSTATE and a message that says what to
do next. Decide by condition or SQLSTATE, not by the text of the message: conditions are stable,
texts are not.

- The message is `[condition] text SQLSTATE: state`. `<name>` in a text below is a parameter. Python
  gives all of them by `getMessageParameters()`, also some that are in no text.
- A subclass (`LAKESTEP_CONFLICT.SAME_FILE`) has the SQLSTATE of its condition. Its text follows
  that of the condition.
- The SQLSTATE chooses the exception in Python, also for a plain `spark.sql("COMMIT")`; see
  [python.md](python.md#exceptions). In Scala and Java every error is an
  `io.lakestep.LakestepException`, which is a `SparkThrowable`.
"""

ERRORS_NOTES = {
    "ConflictError": """\
A `LAKESTEP_CONFLICT` has further parameters, where they are known: `rule`, `table`, `version`,
`operation`, `user`, `other` (the other transaction), `entry`, `files`.
[`EXPLAIN CONFLICT`](sql.md#explain-conflict) shows the same as a row.
""",
    "LakestepError": "These SQLSTATEs have no exception of their own.\n",
}

SETTINGS_HEAD = """\
# Settings

All settings are settings of a Spark session: on the builder, by `--conf`, in `spark-defaults.conf`,
or by `SET` and `spark.conf.set` while the session runs. A value that means nothing is refused when
it is first used ([LAKESTEP_INVALID_SETTING](errors.md#lakestep_invalid_setting), 22023).

`io.lakestep.LakestepExtensions` in `spark.sql.extensions` is all that a session needs besides the
JARs. It sets the catalog, the file system and the log stores where you did not.

## Scopes

- **A session's settings are its own.** Two sessions of one driver may have different ones.
- **The settings of a transaction are those at `BEGIN`.** A `SET` inside the transaction counts for
  the next one. What is read later:
    - The limits of running statements again are read at `COMMIT`:
      `spark.lakestep.commit.redoStatements`, and for this use `spark.lakestep.commit.maxAttempts`
      and `spark.lakestep.commit.timeoutMs`. A block in one call (`BEGIN; …; COMMIT`) reads the last
      two when it starts, and is run again whatever `redoStatements` is.
    - Three are read by the statement that needs them: `spark.lakestep.reuseSnapshots` when the
      transaction first meets a table, `spark.lakestep.foreignWriters` when it writes a table on S3,
      and `spark.lakestep.commit.syncFiles` once more for the log file that the statement writes.
- **Hadoop settings** (`fs.*`, with credentials). `BEGIN`, `COMMIT` and `RECOVER` use those of the
    **first** session of the process that has the same root and the same commit settings
    (`spark.lakestep.commit.conflictStrategy`, `publishThreads`, `syncFiles` and `timeoutMs`, and
    `spark.lakestep.timeline.checkpointInterval`), and so does what follows them: checksums, and
    deleting what was staged. Users with credentials of their own need a driver
    each.
"""

SETTINGS_TAIL = """\
The root must not be inside the folder of a table, where `VACUUM` would delete it
([LAKESTEP_ROOT_IN_TABLE](errors.md#lakestep_root_in_table)). A conflict strategy of your own is a
class that extends [`io.lakestep.commit.ConflictStrategy`](scala.md#conflictstrategy).

## Read only

Lakestep sets these. Read them, and do not set them.

| setting | meaning |
|---|---|
| `spark.lakestep.version` | the version of the JAR; by it the Python package checks the JAR |
| `spark.lakestep.transaction` | the id of the session's open transaction, while there is one |

## Environment variables

The Python package reads these.

| variable | meaning |
|---|---|
| `LAKESTEP_JAR` | the JAR to use in place of the wheel's |
| `LAKESTEP_DELTA_JARS` | a folder with Delta's JARs |
| `LAKESTEP_ROOT` | the timeline of [`lakestep`](operations.md#from-the-shell) where none is named |
| `AWS_REGION`, `AWS_ENDPOINT_URL_S3`, … | as in AWS's tools, where S3 is read without a JVM |

## Table property lakestep.foreignWriters

Who may write a table beside Lakestep's transactions. The setting `spark.lakestep.foreignWriters` is
something else: by it you vouch for those who write tables on S3.

| value | other writers |
|---|---|
| `allow` (the default) | may commit at any moment; on S3 you vouch for them by stating it |
| `reserve` | may commit, but not while a transaction over several tables is being published |
| `forbid` | are refused by their own engine; they go on reading |

```sql
-- closes the table
ALTER TABLE orders SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid');
-- opens it again
ALTER TABLE orders UNSET TBLPROPERTIES ('lakestep.foreignWriters');
-- fenced while a transaction is published
ALTER TABLE lines SET TBLPROPERTIES ('lakestep.foreignWriters' = 'reserve');
```

- Upper and lower case do not matter, in the name of the property and in its value. Another value is
  refused ([LAKESTEP_FOREIGN_WRITERS_INVALID](errors.md#lakestep_foreign_writers_invalid)).
- Only `SET` and `UNSET TBLPROPERTIES` change the mode; no `RESTORE` and no other `ALTER TABLE`
  does. Closing and opening are transactions, also when they are typed outside of one.
- A new table, a copy or a replaced table cannot be closed by the statement that makes it
  ([LAKESTEP_FOREIGN_WRITERS_OF_NEW_TABLE](errors.md#lakestep_foreign_writers_of_new_table)).
- **`forbid`** adds the writer feature `lakestepTransactions` to the table's protocol. Stock Spark
  and Delta, delta-rs, DuckDB and polars do not know it, and so refuse to write. Once the table is
  open again, protocol and properties are as they were before. On a closed table each statement
  outside a transaction runs as a transaction of its own. Streams into the table are refused
  ([LAKESTEP_TABLE_FORBIDS_FOREIGN_WRITERS](errors.md#lakestep_table_forbids_foreign_writers));
  write it in a transaction inside `foreachBatch`. When all tables that a transaction writes are
  closed, nothing can fail it once it has its entry in the timeline.
- **`reserve`** puts the same feature into the protocol only while a transaction is published that
  changes several tables, by one commit more in each (`LAKESTEP RESERVE`). A write outside a
  transaction, in a session with Lakestep, that runs across it gets
  [LAKESTEP_TABLE_RESERVED](errors.md#lakestep_table_reserved) (40001). After a crash other writers
  stay refused until anybody's next `BEGIN`, `RECOVER` or own statement on the table.
- **`allow`** refuses nobody. A foreign writer that commits a conflicting change in the milliseconds
  between the timeline entry and the last table makes the transaction roll back, also in tables that
  were published already.

What each mode promises and costs is in [Foreign writers](foreign-writers.md).
"""


def main() -> int:
    """Write the pages, or with ``--check`` say which differ; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a page differs")
    check = parser.parse_args().check
    differs = False
    pages = {"errors.md": errors_page, "python.md": python, "settings.md": settings_page}
    pages |= {name: lambda name=name: with_examples(name) for name in WITH_EXAMPLES}
    for name, page in pages.items():
        text = page()
        path = DOCS / name
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        differs = True
        if check:
            print(f"docs/{name} is not what docs/generate.py writes", file=sys.stderr)
        else:
            path.write_text(text, "utf-8")
            print(f"docs/{name} written")
    return 1 if check and differs else 0


def errors_page() -> str:
    """Return errors.md: the conditions, by the exception that Python raises for them."""
    conditions = json.loads(CONDITIONS.read_text("utf-8"))
    names = {name for name, _ in _texts(conditions)}
    if unknown := NEXT_STEPS.keys() - names:
        raise ValueError(f"NEXT_STEPS names conditions that there are not: {sorted(unknown)}")
    exceptions, documented = _exceptions()
    groups: dict[str, list[str]] = {kind: [] for kind in documented}
    for name, condition in conditions.items():
        groups[_exception_for(condition["sqlState"], exceptions)].append(name)
    parts = [NOTICE, ERRORS_HEAD, _index(groups, conditions)]
    for kind, members in groups.items():
        states = sorted({conditions[name]["sqlState"] for name in members})
        parts.append(f"## {kind}\n\nSQLSTATE {', '.join(states)}. {documented[kind]}\n")
        parts += [ERRORS_NOTES[kind]] if kind in ERRORS_NOTES else []
        parts += [_condition(name, conditions[name]) for name in members]
    return "\n".join(parts)


def _texts(conditions: dict[str, dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    for name, condition in conditions.items():
        yield name, condition["message"]
        for subclass, entry in condition.get("subClass", {}).items():
            yield f"{name}.{subclass}", entry["message"]


def _exceptions() -> tuple[dict[str, str], dict[str, str]]:
    """Return the exception of each SQLSTATE, and what each is; the one of the rest comes last."""
    module = ast.parse(EXCEPTIONS.read_text("utf-8"))
    classes = {n.name: n for n in module.body if isinstance(n, ast.ClassDef)}
    table = next(
        node.value
        for node in module.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_BY_SQL_STATE"
    )
    if not isinstance(table, ast.Dict):
        raise ValueError("_BY_SQL_STATE is not a dictionary")
    by_state = {
        ast.literal_eval(key): ast.unparse(value)
        for key, value in zip(table.keys, table.values, strict=True)
        if key is not None
    }
    ordered = [*dict.fromkeys(by_state.values()), "LakestepError"]
    return by_state, {kind: docstrings.first_paragraph(classes[kind]) for kind in ordered}


def _exception_for(sql_state: str, by_state: dict[str, str]) -> str:
    if sql_state.startswith("25"):
        return "TransactionStateError"
    return by_state.get(sql_state, "LakestepError")


def _index(groups: dict[str, list[str]], conditions: dict[str, dict[str, Any]]) -> str:
    kinds = {name: kind for kind, members in groups.items() for name in members}
    rows = [
        f"| [{name}](#{name.lower()}) | {conditions[name]['sqlState']} "
        f"| [{kinds[name]}](#{kinds[name].lower()}) |"
        for name in conditions
    ]
    return "\n".join(["| condition | SQLSTATE | Python |", "|---|---|---|", *rows, ""])


def _condition(name: str, condition: dict[str, Any]) -> str:
    subclasses = condition.get("subClass", {})
    parts = [f"### {name}", f"SQLSTATE {condition['sqlState']}"]
    parts += _message(name, condition["message"], has_step=not subclasses)
    for subclass, entry in subclasses.items():
        full = f"{name}.{subclass}"
        parts += [f"#### {full}", *_message(full, entry["message"], has_step=True)]
    return "\n\n".join(parts) + "\n"


def _message(name: str, lines: list[str], *, has_step: bool) -> list[str]:
    """Return the text and, apart from it, the next step: the last line, else the last sentence."""
    if len(lines) == 1:
        sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", lines[0])
        steps = NEXT_STEPS.get(name, 1) if has_step else 0
        lines = [" ".join(s) for s in (sentences[:-steps], sentences[-steps:])] if steps else lines
    parts = [f"> {_markdown(' '.join(lines[:-1]) if len(lines) > 1 else lines[0])}"]
    return [*parts, f"**Next step.** {_markdown(lines[-1])}"] if len(lines) > 1 else parts


def _markdown(text: str) -> str:
    return re.sub(r"(<\w+>)", r"`\1`", text.replace("*", r"\*"))


def python() -> str:
    """Return python.md."""
    conditions = json.loads(CONDITIONS.read_text("utf-8"))
    return python_page.page(NOTICE, list(conditions), _exceptions()[0])


class Setting(NamedTuple):
    """One ConfKey of LakestepConf.scala."""

    name: str
    type: str
    key: str
    default: str
    doc: str


_STRING = r'"(?:[^"\\]|\\.)*"'
_SETTING = re.compile(
    rf"val (\w+): ConfKey\[(\w+(?:\[\w+\])?)\] = ConfKey\(\s*({_STRING}),"
    rf"\s*(None|true|false|\d+L?|{_STRING}),\s*({_STRING}(?:\s*\+\s*{_STRING})*),"
)


def settings() -> list[Setting]:
    """Return the settings in the order of ``LakestepConf.all``; ValueError if one is not read."""
    text = CONF.read_text("utf-8")
    found = {
        name: Setting(name, kind, _string(key), _default(default), _string(doc))
        for name, kind, key, default, doc in _SETTING.findall(text)
    }
    listed = re.search(r"val all: .*?Seq\(([^)]*)\)", text, re.DOTALL)
    if listed is None:
        raise ValueError(f"{CONF.name} has no list `all`")
    order = [name.strip() for name in listed[1].split(",")]
    if sorted(order) != sorted(found) or text.count("= ConfKey(") != len(found):
        raise ValueError(f"{CONF.name}: `all` has {order}, and these were read: {sorted(found)}")
    return [found[name] for name in order]


def _string(scala: str) -> str:
    return "".join(json.loads(piece) for piece in re.findall(_STRING, scala))


def _default(scala: str) -> str:
    if scala == "None":
        return "none"
    value = _string(scala) if scala.startswith('"') else scala.removesuffix("L")
    return f"`{value}`"


def settings_page() -> str:
    """Return settings.md."""
    kinds = {"Option[String]": "text", "String": "text", "Boolean": "true or false"}
    kinds |= {"Int": "number", "Long": "number"}
    rows = [f"| `{s.key}` | {kinds[s.type]} | {s.default} | {s.doc} |" for s in settings()]
    head = "## Settings of a session\n\n| setting | type | default | meaning |\n|---|---|---|---|"
    return "\n".join([NOTICE, SETTINGS_HEAD, head, *rows, "", SETTINGS_TAIL])


_EXAMPLE = re.compile(r"^<!-- (examples/\S+) -->\n\n```(\w+)\n.*?^```$", re.MULTILINE | re.DOTALL)


def with_examples(name: str) -> str:
    """Return a page with the files of examples/ that it names, as they are."""

    def shown(match: re.Match[str]) -> str:
        text = (DOCS / match[1]).read_text("utf-8")
        return f"<!-- {match[1]} -->\n\n```{match[2]}\n{text}```"

    return _EXAMPLE.sub(shown, (DOCS / name).read_text("utf-8"))


if __name__ == "__main__":
    sys.exit(main())
