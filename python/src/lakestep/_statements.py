"""The statements of a file: where each begins and ends, what kind it is, which parameters it has.

The tokens are those of Spark's lexer, as far as they matter here: strings, names and comments may
hold semicolons. A script (``BEGIN … END``) is one statement with semicolons of its own, by the same
rules as in ``LakestepSql.g4``. Whatever is not closed goes to Spark as it is, which says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+ | --(?:\\\n|[^\r\n])*\r?\n?)
  | (?P<comment>/\*(?!\+))
  | (?P<string>
        '(?:[^'\\]|\\.|'')*' | r'[^']*'
      | "(?:[^"\\]|\\.|"")*" | r"[^"]*"
      | (?P<dollars>\$[a-z]*\$).*?(?P=dollars))
  | (?P<name>`(?:[^`]|``)*`)
  | (?P<word>\w+)
  | (?P<other>::|.)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")

# Words that cannot name a transaction, as in LakestepSql.g4.
_RESERVED = "ATOMIC|BEGIN|CASE|COMMIT|END|FOR|IF|LOOP|NOT|ROLLBACK|TRANSACTION|WHILE|WORK"
_MODE = (
    "(?:ISOLATION LEVEL (?:SERIALIZABLE|SNAPSHOT|REPEATABLE READ|READ (?:UN)?COMMITTED)"
    "|READ ONLY|READ WRITE) "
)
_AS_OF = r"AS OF (?:VERSION \w+|TIMESTAMP '|SNAPSHOT (?:\w+|`|')) "
_BATCH = r"FOR BATCH \w+ (?:OF QUERY ' )?"
_LABELS = r"(?:COMMENT ' )?(?:TAGS \( ' = ' (?:, ' = ' )*\) )?"
# Over the words of a statement, each with a blank after it: BEGIN that is not a script.
_BEGIN = re.compile(
    rf"BEGIN (?:(?:TRANSACTION|WORK) )?(?:(?!(?:{_RESERVED}) )(?:\w+|`) )?"
    rf"(?:{_MODE}(?:(?:, )?{_MODE})*)?(?:{_AS_OF})?(?:{_BATCH})?{_LABELS}"
)

_QUERIES = {
    *("SELECT", "VALUES", "TABLE", "FROM", "WITH", "MAP", "REDUCE", "("),
    *("SHOW", "DESCRIBE", "DESC", "EXPLAIN", "LIST", "EXECUTE"),
}
_CHANGES = {"INSERT", "UPDATE", "DELETE", "MERGE"}
_TITLE_WIDTH = 60


class Token(NamedTuple):
    """A piece of text that is no blank and no comment."""

    kind: str
    start: int
    end: int
    text: str

    @property
    def word(self) -> str:
        """A word in upper case, a quoted name as a backquote, a string as its quote."""
        if self.kind == "name":
            return "`"
        return "'" if self.kind == "string" else self.text.upper()


@dataclass(frozen=True)
class Statement:
    """One statement of a file.

    Attributes
    ----------
    text : str
        From its first token to its last one, without the semicolon.
    start, line : int
        Where it begins in the file: the character, from 0 on, and the line, from 1 on.
    title : str
        Its first words, on one line and without comments.
    is_boundary : bool
        Whether it begins or ends a transaction, or is one (``BEGIN ATOMIC``).
    is_query : bool
        Whether it may have a result to show.
    parameters : frozenset of str
        The names behind its colons: each parameter, and perhaps a field of a variant (``v:name``).
    """

    text: str
    start: int
    line: int
    title: str
    is_boundary: bool
    is_query: bool
    parameters: frozenset[str]


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text; between them are only blanks and comments."""
    at = 0
    while match := _TOKEN.match(text, at):
        kind, end = match.lastgroup or "", match.end()
        if kind == "comment":
            closed = _comment_end(text, at)
            # Spark takes the rest of the text as a comment, and refuses it.
            kind, end = ("blank", closed) if closed is not None else ("other", len(text))
        if kind != "blank":
            yield Token(kind, at, end, text[at:end])
        at = end


def _comment_end(text: str, start: int) -> int | None:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return None


def split(text: str) -> list[Statement]:
    """Return the statements of a text in their order; empty ones are left out."""
    found = []
    all_tokens = list(tokens(text))
    first, line, counted = 0, 1, 0
    while first < len(all_tokens):
        end = _end(all_tokens, first)
        if end > first:
            start = all_tokens[first].start
            line, counted = line + text.count("\n", counted, start), start
            found.append(_statement(text, all_tokens[first:end], line))
        first = end + 1
    return found


def _end(found: list[Token], first: int) -> int:
    """Return where the statement ends that begins at `first`: its semicolon, or the text's end."""
    end = _semicolon(found, first)
    if found[first].word == "BEGIN" and not _is_begin(found[first:end]):
        return _semicolon(found, _script_end(found, first))
    return end


def _semicolon(found: list[Token], first: int) -> int:
    return next((i for i in range(first, len(found)) if found[i].text == ";"), len(found))


def _script_end(found: list[Token], first: int) -> int:
    """Return what follows the END of the script that begins at `first`."""
    open_parts: list[str] = []
    before, at = "", first
    while at < len(found):
        word = found[at].word
        following = found[at + 1].word if at + 1 < len(found) else ""
        if _opens_part(word, before):
            open_parts.append(word)
        elif word == "END" and _ends_loop(before, following):
            at, word = at + 1, following
        elif word == "END" and _ends_part(open_parts[-1], before):
            is_case = open_parts.pop() == "CASE"
            if not open_parts:
                return at + 1
            if is_case and following == "CASE":
                at, word = at + 1, following
        before, at = word, at + 1
    return at


def _opens_part(word: str, before: str) -> bool:
    """Whether the word is BEGIN or CASE, and no column of that name."""
    return (word == "BEGIN" and before not in (".", ",", "(")) or (word == "CASE" and before != ".")


def _ends_loop(before: str, following: str) -> bool:
    """Whether END and the next word end IF or a loop: `CASE … END FOR` in `substring` does not."""
    return following == "REPEAT" or (before == ";" and following in ("IF", "WHILE", "FOR", "LOOP"))


def _ends_part(part: str, before: str) -> bool:
    """Whether END is no column of that name."""
    if part == "BEGIN":
        return before in (";", "BEGIN", "ATOMIC")
    return before not in (".", ",", "(")


def _is_begin(found: list[Token]) -> bool:
    return _BEGIN.fullmatch("".join(f"{token.word} " for token in found)) is not None


def _statement(text: str, found: list[Token], line: int) -> Statement:
    start = found[0].start
    return Statement(
        text=text[start : found[-1].end],
        start=start,
        line=line,
        title=_title(found),
        is_boundary=_is_boundary(found),
        is_query=_is_query(found),
        parameters=frozenset(_parameters(found)),
    )


def _is_boundary(found: list[Token]) -> bool:
    first, second, third = [*(token.word for token in found[:3]), "", ""][:3]
    if first == "ROLLBACK":
        return (third if second in ("WORK", "TRANSACTION") else second) != "TO"
    if first == "BEGIN":
        return second == "ATOMIC" or _is_begin(found)
    return first == "COMMIT" or (first, second) == ("START", "TRANSACTION")


def _is_query(found: list[Token]) -> bool:
    first = found[0].word
    if first == "BEGIN":
        return not _is_begin(found)
    return first in _QUERIES and not (first in ("WITH", "FROM") and _changes_tables(found))


def _changes_tables(found: list[Token]) -> bool:
    """Whether the tables of WITH or FROM are followed by INSERT, UPDATE, DELETE or MERGE."""
    depth = 0
    for before, token, after in zip(found, found[1:], found[2:], strict=False):
        depth += {"(": 1, ")": -1}.get(before.text, 0)
        is_insert = token.word == "INSERT" and after.word in ("INTO", "OVERWRITE")
        if depth == 0 and (is_insert or (before.text == ")" and token.word in _CHANGES)):
            return True
    return False


def _parameters(found: list[Token]) -> Iterator[str]:
    """Yield the names behind colons, but for the types of STRUCT<name: type>."""
    brackets = 0
    for i, token in enumerate(found):
        if token.text == "<" and (brackets or (i and found[i - 1].word == "STRUCT")):
            brackets += 1
        elif token.text == ">" and brackets:
            brackets -= 1
        elif token.text == ":" and i + 1 < len(found):
            is_field = brackets and i >= 2 and found[i - 2].text in ("<", ",")
            name = found[i + 1]
            if name.kind == "word" and not is_field:
                yield name.text
            elif name.kind == "name" and not is_field:
                yield name.text[1:-1].replace("``", "`")


def _title(found: list[Token]) -> str:
    title, end = "", found[0].start
    for token in found:
        title += (" " if token.start > end else "") + token.text
        end = token.end
        if len(title) > _TITLE_WIDTH:
            break
    line = " ".join(title.split())
    return line if len(line) <= _TITLE_WIDTH else line[: _TITLE_WIDTH - 1] + "…"
