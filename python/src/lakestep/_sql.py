"""Names and texts as SQL writes them."""


def literal(text: str) -> str:
    """Return a text between quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(name: str) -> str:
    """Return a name between backquotes."""
    return "`" + name.replace("`", "``") + "`"
