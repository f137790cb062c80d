"""Names and texts as SQL writes them."""

from __future__ import annotations


def literal(text: str) -> str:
    """Return a text between quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(name: str) -> str:
    """Return a name between backquotes."""
    return "`" + name.replace("`", "``") + "`"


def for_batch(query: str | None, number: int) -> str:
    """Return the end of BEGIN that names a batch."""
    return f" FOR BATCH {int(number)}" + ("" if query is None else f" OF QUERY {literal(query)}")
