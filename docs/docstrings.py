"""Functions and classes of a Python package as Markdown, from their numpydoc docstrings.

The sources are parsed and never imported, so neither PySpark nor a JVM is needed.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

Definition = ast.FunctionDef | ast.ClassDef

# Longer signatures have a line for each argument.
_WIDTH = 88


def definitions(package: Path) -> dict[str, Definition]:
    """Return the functions and classes at the top of the package's modules, by name."""
    return {
        node.name: node
        for path in sorted(package.glob("*.py"))
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, Definition)
    }


def members(node: ast.ClassDef, *, properties: bool) -> list[ast.FunctionDef]:
    """Return the public methods of a class, or its properties."""
    return [
        member
        for member in node.body
        if isinstance(member, ast.FunctionDef)
        and not member.name.startswith("_")
        and (_decorators(member) == ["property"]) == properties
    ]


def first_paragraph(node: Definition | ast.Module) -> str:
    """Return what comes before the first empty line of the docstring, as one line."""
    return " ".join(docstring(node).split("\n\n")[0].split())


def docstring(node: Definition | ast.Module) -> str:
    """Return the docstring without its indentation; ValueError if there is none."""
    text = ast.get_docstring(node)
    if text is None:
        raise ValueError(f"{getattr(node, 'name', 'a module')} has no docstring")
    return text


def signature(node: ast.FunctionDef) -> str:
    """Return a block of code: ``def name(arguments) -> result``."""
    name = node.name
    arguments = list(_arguments(node.args))
    result = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    line = f"def {name}({', '.join(arguments)}){result}"
    if len(line) > _WIDTH:
        line = "\n".join(
            [f"def {name}(", *(f"    {argument}," for argument in arguments), f"){result}"]
        )
    decorators = "".join(f"@{decorator}\n" for decorator in _decorators(node))
    # The names of type variables are private.
    return fenced("python", decorators + re.sub(r"\b_(?=[A-Z])", "", line))


def fenced(language: str, text: str) -> str:
    """Return a block of code."""
    return f"```{language}\n{text}\n```"


def _decorators(node: ast.FunctionDef) -> list[str]:
    return [ast.unparse(decorator) for decorator in node.decorator_list]


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    if arguments.posonlyargs or arguments.vararg or arguments.kwarg:
        raise ValueError(f"no way to show ({ast.unparse(arguments)})")
    required = len(arguments.args) - len(arguments.defaults)
    for argument, default in zip(
        arguments.args, [*[None] * required, *arguments.defaults], strict=True
    ):
        if argument.arg != "self":
            yield _argument(argument, default)
    if arguments.kwonlyargs:
        yield "*"
        yield from map(_argument, arguments.kwonlyargs, arguments.kw_defaults)


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    if default is None:
        return text
    equals = " = " if argument.annotation else "="
    return f"{text}{equals}{ast.unparse(default)}"


def markdown(text: str, link: Callable[[str], str]) -> str:
    """Return a docstring as Markdown; `link` turns a name between backticks into Markdown."""
    intro, *sections = re.split(r"^(\w+)\n-{3,}\n", text, flags=re.MULTILINE)
    parts = [prose(intro, link)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        lines = _code(body) if title == "Examples" else "\n".join(_items(title, body, link))
        parts += [f"**{title}**", lines]
    return "\n\n".join(parts)


def prose(text: str, link: Callable[[str], str]) -> str:
    """Return text with the two kinds of backticks of a docstring as Markdown has them."""
    return re.sub(r"``(.+?)``|`(.+?)`", lambda m: link(m[1] or m[2]), text.strip())


def _items(title: str, body: str, link: Callable[[str], str]) -> Iterator[str]:
    for head, lines in _entries(body.strip().splitlines()):
        meaning = prose(" ".join(lines), link)
        name, colon, kind = head.partition(" : ")
        if colon:
            names = ", ".join(f"`{each}`" for each in name.split(", "))
            yield f"- {names} ({kind}): {meaning}"
        elif title == "Raises":
            yield f"- {', '.join(map(link, head.split(', ')))}: {meaning}"
        else:
            yield f"- {head}: {meaning}"


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    head, meaning = "", list[str]()
    for line in lines:
        if line.startswith(" ") or not line:
            meaning.append(line.strip())
        else:
            if head:
                yield head, meaning
            head, meaning = line, []
    yield head, meaning


def _code(body: str) -> str:
    """Return the examples without prompts; what they print becomes comments."""
    lines = []
    for line in inspect.cleandoc(body).splitlines():
        if line.startswith((">>> ", "... ")):
            lines.append(re.sub(r"\s*# doctest:.*", "", line[4:]))
        else:
            lines.append(f"# {line}" if line else "")
    return fenced("python", "\n".join(lines))
