"""Names and texts as SQL writes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from operator import index

_LEVELS = ("SNAPSHOT", "SERIALIZABLE")


def literal(text: str) -> str:
    """Return a text between quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(name: str) -> str:
    """Return a name between backquotes."""
    return "`" + name.replace("`", "``") + "`"


def begin(
    name: str | None,
    isolation: str | None,
    read_only: bool,
    as_of: int | datetime | str | None,
    batch: tuple[str | None, int] | None,
    comment: str | None,
    tags: Mapping[str, str],
) -> str:
    """Return the BEGIN of such a transaction."""
    statement = "BEGIN TRANSACTION"
    if name is not None:
        statement += f" {quoted(name)}"
    if isolation is not None:
        if isolation.upper() not in _LEVELS:
            raise ValueError(f"isolation must be one of {', '.join(_LEVELS)}, not {isolation!r}")
        statement += f" ISOLATION LEVEL {isolation.upper()}"
    if read_only:
        statement += " READ ONLY"
    if isinstance(as_of, datetime):
        statement += f" AS OF TIMESTAMP {literal(as_of.isoformat())}"
    elif isinstance(as_of, str):
        statement += f" AS OF SNAPSHOT {quoted(as_of)}"
    elif as_of is not None:
        if isinstance(as_of, bool):
            raise TypeError("as_of is a version, a time or the name of a snapshot")
        statement += f" AS OF VERSION {index(as_of)}"
    if batch is not None:
        query, number = batch
        statement += f" FOR BATCH {int(number)}"
        statement += "" if query is None else f" OF QUERY {literal(query)}"
    if comment is not None:
        statement += f" COMMENT {literal(comment)}"
    if tags:
        pairs = (f"{literal(key)} = {literal(value)}" for key, value in tags.items())
        statement += f" TAGS ({', '.join(pairs)})"
    return statement
