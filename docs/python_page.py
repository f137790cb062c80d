"""The page python.md, from the sources of the Python package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import docstrings

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "src" / "lakestep"

HEAD = """\
# Python

The package `lakestep` configures a Spark session, runs transactions in it, and raises an exception
of its own for each kind of error. It works alike on Spark Classic and on Spark Connect. Everything
goes through SQL: a plain `spark.sql("BEGIN")` does the same as `lakestep.transaction`, and both may
be mixed; see [SQL](sql.md).

## What the import does

`import lakestep` changes PySpark in two ways, once and until the process ends:

- **Exceptions.** PySpark raises [Lakestep's exceptions](#exceptions) for Lakestep's errors, also
  from a plain `spark.sql("COMMIT")`. For this, PySpark's exception converter is wrapped. Every
  other error goes to the converter that was there before, and stays as it is.
- **`withTransaction`.** `DataFrameReader`, `DataFrameWriter`, `DataFrameWriterV2` and
  `MergeIntoWriter` get the method [`withTransaction`](#withtransaction).

Spark Connect's classes get the same by `configure` of a Connect session, or by the first
`transaction`, `run` or `recover` on one. Nothing else in PySpark is changed, and no JVM is started.

A session that was set up [without Python](index.md#on-a-cluster) works without the import, too.
Spark Classic then raises Lakestep's errors as `Py4JJavaError`, as it does with errors that PySpark
does not know.

## Public names
"""

VARIABLES = "settings.md#environment-variables"

# The public names but for the exceptions, by section.
SECTIONS = {
    "Sessions": ["configure", "jar_path"],
    "Transactions": [
        "transaction",
        "run",
        "foreach_batch",
        "run_dbt",
        "recover",
        "revert",
        "restore",
        "Undone",
        "Transaction",
        "Savepoint",
        "Recovered",
        "FailedAssertion",
    ],
}

EXCEPTIONS_HEAD = """\
## Exceptions

The SQLSTATE chooses the exception. Decide by the exception, by `getCondition()` or by
`getSqlState()`, never by the text of the message. [Errors](errors.md) lists all conditions, each
with its next step; [Conflicts and retries](retries.md) says what to do after which.
"""

EXCEPTIONS_EXAMPLE = """\
try:
    with lakestep.transaction(spark):
        spark.sql("UPDATE stock SET n = n - 1 WHERE item = 'apple'")
except lakestep.ConflictError as conflict:
    print(conflict.getCondition())  # LAKESTEP_CONFLICT.SAME_FILE
    print(conflict.getMessageParameters()["table"])  # spark_catalog.default.stock"""

COMMANDS_HEAD = """\
## Command line

The wheel installs the command `lakestep`. It exits with 0; with 1 after an error, which it prints
to stderr; with 2 when it was called in a wrong way. Only `run`, `dbt`, `recover` and, if asked,
`doctor` start Spark; see [A file of SQL](operations.md#a-file-of-sql), [dbt](dbt.md) and
[From the shell](operations.md#from-the-shell).
"""


def page(notice: str, conditions: Iterable[str], exceptions: Mapping[str, str]) -> str:
    """Return python.md.

    `conditions` are the error conditions that errors.md has headings for; `exceptions` gives the
    exception of each SQLSTATE.
    """
    names = docstrings.definitions(PACKAGE)
    errors = ["LakestepError", *dict.fromkeys(exceptions.values())]
    shown = [name for section in SECTIONS.values() for name in section]
    if sorted(shown + errors) != sorted(public := _public_names()):
        raise ValueError(f"python.md shows {sorted(shown + errors)}, public are {sorted(public)}")
    links = {name: f"#{_heading(names[name]).replace(' ', '-').lower()}" for name in public}
    links |= {f"Transaction.{method}": f"#{method}" for method in ("commit", "rollback")}
    links |= {"commit": "#commit", "rollback": "#rollback", "withTransaction": "#withtransaction"}
    links |= {name: f"errors.md#{name.lower()}" for name in conditions}
    links |= dict.fromkeys(("LAKESTEP_JAR", "LAKESTEP_DELTA_JARS"), VARIABLES)
    sections = _Sections(links)
    rows = [f"| {sections.link(name)} | {sections.summary(names[name])} |" for name in shown]
    parts = [notice, HEAD, "| name | purpose |", "|---|---|", *rows, ""]
    for title, members in SECTIONS.items():
        parts += [f"## {title}\n", *(sections.definition(names[name]) for name in members)]
    parts += ["## Readers and writers\n", sections.added(names["_with_transaction"])]
    parts += [EXCEPTIONS_HEAD, _tree(), docstrings.fenced("python", EXCEPTIONS_EXAMPLE), ""]
    for error in errors:
        states = [state for state, name in exceptions.items() if name == error]
        parts.append(sections.exception(names[error], states))
    return "\n".join([*parts, COMMANDS_HEAD, _commands()])


def _public_names() -> list[str]:
    module = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    names = next(
        ast.literal_eval(node.value)
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return [name for name in names if name != "__version__"]


def _heading(node: docstrings.Definition) -> str:
    """Return the heading of a section: `transaction` and `Transaction` must have different ones."""
    is_class = isinstance(node, ast.ClassDef) and not node.name.endswith("Error")
    return f"class {node.name}" if is_class else node.name


class _Sections:
    """Sections of the page. What stands in `links` is a link wherever a docstring names it."""

    def __init__(self, links: Mapping[str, str]) -> None:
        self._links = links

    def link(self, name: str) -> str:
        target = self._links.get(name.removeprefix("lakestep."))
        return f"`{name}`" if target is None else f"[`{name}`]({target})"

    def summary(self, node: docstrings.Definition) -> str:
        return docstrings.prose(docstrings.first_paragraph(node), self.link)

    def definition(self, node: docstrings.Definition) -> str:
        parts = [f"### {_heading(node)}"]
        if isinstance(node, ast.FunctionDef):
            return _joined(*parts, docstrings.signature(node), self._text(node))
        parts.append(self._text(node))
        attributes = [
            f"| `{member.name}` | {_type(member)} | {self.summary(member)} |"
            for member in docstrings.members(node, properties=True)
        ]
        if attributes:
            parts.append("\n".join(["| attribute | type | |", "|---|---|---|", *attributes]))
        for method in docstrings.members(node, properties=False):
            parts += [f"#### {method.name}", docstrings.signature(method), self._text(method)]
        return _joined(*parts)

    def added(self, node: docstrings.Definition) -> str:
        """Return the section of the method that is added to PySpark's classes."""
        if not isinstance(node, ast.FunctionDef):
            raise ValueError(f"{node.name} is not a function")
        # It returns whatever it is called on.
        node.name, node.returns = "withTransaction", None
        return self.definition(node)

    def exception(self, node: docstrings.Definition, states: list[str]) -> str:
        if node.name == "TransactionStateError":
            states = ["25xxx", *states]
        parts = [f"### {node.name}"]
        if states:
            page = f"errors.md#{node.name.lower()}"
            parts.append(f"SQLSTATE {', '.join(states)}. Its conditions: [Errors]({page}).")
        parts.append(self._text(node))
        if isinstance(node, ast.ClassDef):
            rows = [
                f"| `{method.name}()` | {self.summary(method)} |"
                for method in docstrings.members(node, properties=False)
            ]
            parts += ["\n".join(["| method | |", "|---|---|", *rows])] if rows else []
        return _joined(*parts)

    def _text(self, node: docstrings.Definition) -> str:
        return docstrings.markdown(docstrings.docstring(node), self.link)


def _joined(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


def _type(member: ast.FunctionDef) -> str:
    return "" if member.returns is None else ast.unparse(member.returns).replace("|", "or")


def _tree() -> str:
    """Return the exceptions as `_errors.py` draws them."""
    text = docstrings.docstring(ast.parse((PACKAGE / "_errors.py").read_text("utf-8")))
    tree = text.split("::\n\n")[1].split("\n\n")[0]
    return docstrings.fenced("text", re.sub("^ {4}", "", tree, flags=re.MULTILINE)) + "\n"


def _commands() -> str:
    """Return the commands as the modules declare them."""
    rows = [
        f"| `lakestep {ast.literal_eval(decorator.args[0])}` | {docstrings.first_paragraph(node)} |"
        for module in ("_cli.py", "_inspect.py")
        for node in ast.parse((PACKAGE / module).read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "app.command"
    ]
    return "\n".join(["| command | what it does |", "|---|---|", *rows, ""])
