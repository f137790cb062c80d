"""Which files a version of a table has, by its log, and whether they are there: `TableFiles`.

The log is read here and by no library: those refuse tables with features that they do not know, of
which none but deletion vectors matters for names and sizes, and they read no copy of a log.
"""

from __future__ import annotations

import json
import re
from base64 import b85decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from lakestep import _errors
from lakestep._storage import Place, Stores

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(
    r"(?P<version>\d{20})\.checkpoint"
    r"(?:\.\d{10}\.(?P<parts>\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_VECTOR = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes")
_COLUMNS = (
    *("add.path", "add.size", "sidecar.path"),
    *(f"add.deletionVector.{field}" for field in _VECTOR),
)
# Before a vector its size, after it its checksum.
_AROUND_VECTOR = 8

# In Z85 other characters stand for the same digits.
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_AS_B85 = str.maketrans(_Z85, _B85)


class LogCleanedUp(Exception):
    """A version cannot be read any more: the oldest part of the log is gone that it needs."""


@dataclass(frozen=True)
class Needed:
    """How many bytes a file has, or at least has."""

    size: int
    is_least: bool = False

    def fits(self, size: int) -> bool:
        """Return whether a file of that size can be the one."""
        return size >= self.size if self.is_least else size == self.size


class TableFiles:
    """Reads the log of a table, and looks for the files of its versions. Lists the table once.

    Parameters
    ----------
    stores : Stores
        Reads files.
    table : Place
        Its folder.
    """

    def __init__(self, stores: Stores, table: Place) -> None:
        self._stores = stores
        self._table = table
        self._sizes: dict[Place, int] | None = None

    def newest(self) -> int | None:
        """Return the newest version, or None if there is no log."""
        names = [found.name for found in self._stores.list(self._table / "_delta_log")]
        commits = (int(name[1]) for name in map(_COMMIT.fullmatch, names) if name)
        return max((*commits, *checkpoints_of(names)), default=None)

    def of(self, version: int, log: Place | None = None) -> dict[Place, Needed]:
        """Return the files of a version: data files, and those with their deletion vectors.

        Parameters
        ----------
        version : int
            The version.
        log : Place, optional
            A copy of the log.

        Raises
        ------
        LogCleanedUp
            Where it is not there any more.
        LakestepError
            ``LAKESTEP_LOG_CORRUPT``, naming the file, and ``LAKESTEP_STORE_READ_FAILED``.
        """
        live: dict[tuple[str, str], dict[str, Any]] = {}
        log = log or self._table / "_delta_log"
        for kind, action in self._actions(log, version):
            key = (unquote(action["path"]), _vector_name(action.get("deletionVector")))
            if kind == "add":
                live[key] = action
            else:
                live.pop(key, None)
        needed: dict[Place, Needed] = {}
        for action in live.values():
            needed[self._place(action["path"])] = Needed(action["size"])
            if found := self._vector(action.get("deletionVector")):
                place, end = found
                least = needed.get(place, Needed(0)).size
                needed[place] = Needed(max(end, least), is_least=True)
        return needed

    def look_for(self, needed: dict[Place, Needed]) -> dict[Place, int | None]:
        """Return which of the files are missing, or are not as they should be with their size."""
        if self._sizes is None:
            self._sizes = self._stores.tree(self._table)
        known = self._sizes
        # Listed before it was written, or in another folder.
        asked = [p for p, need in needed.items() if not need.fits(known.get(p, -1))]
        sizes = dict(zip(asked, self._stores.each(self._stores.size, asked), strict=True))
        return {p: s for p, s in sizes.items() if s is None or not needed[p].fits(s)}

    def _actions(self, log: Place, version: int) -> Iterator[tuple[str, dict[str, Any]]]:
        names = [found.name for found in self._stores.list(log)]
        commits = {int(name[1]) for name in map(_COMMIT.fullmatch, names) if name}
        whole = checkpoints_of(names)
        start = max((v for v in whole if v <= version), default=-1)
        parts = whole.get(start, [])
        missing = set(range(start + 1, version + 1)) - commits
        if start < 0 and missing and not any(v < max(missing) for v in commits):
            raise LogCleanedUp
        if missing:
            raise _corrupt(log / f"{min(missing):020}.json", "it is missing")
        if version not in commits:
            # Delta reads no version without its commit.
            raise LogCleanedUp
        for part in parts:
            yield from self._checkpointed(log, log / part)
        files = [log / f"{number:020}.json" for number in range(start + 1, version + 1)]
        for file, content in zip(files, self._stores.each(self._stores.get, files), strict=True):
            if content is None:
                raise _corrupt(file, "it vanished")
            yield from _files(file, content)

    def _checkpointed(self, log: Place, file: Place) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what a part of a checkpoint adds, also in its sidecars."""
        if file.path.endswith(".json"):
            rows: Iterable[dict[str, Any]] = _lines(file, self._stores.get(file) or b"")
        else:
            rows = self._stores.rows(file, _COLUMNS)
        for row in rows:
            if (row.get("add") or {}).get("path"):
                yield "add", row["add"]
            elif (row.get("sidecar") or {}).get("path"):
                name = row["sidecar"]["path"]
                side = Place.of(name) if _SCHEME.match(name) else log / "_sidecars" / name
                yield from self._checkpointed(log, side)

    def _place(self, path: str) -> Place:
        if _SCHEME.match(path):
            return Place.of(path)
        if path.startswith("/"):
            return Place(self._table.scheme, self._table.authority, unquote(path))
        return self._table / unquote(path)

    def _vector(self, vector: dict[str, Any] | None) -> tuple[Place, int] | None:
        """Return the file of a deletion vector, and where the vector ends in it."""
        if not vector or vector["storageType"] == "i":
            return None
        end = (vector.get("offset") or 0) + vector["sizeInBytes"] + _AROUND_VECTOR
        text: str = vector["pathOrInlineDv"]
        if vector["storageType"] == "p":
            return Place.of(text) if _SCHEME.match(text) else self._place(text), end
        prefix, name = text[:-20], UUID(bytes=b85decode(text[-20:].translate(_AS_B85)))
        folder = self._table / prefix if prefix else self._table
        return folder / f"deletion_vector_{name}.bin", end


def _vector_name(vector: dict[str, Any] | None) -> str:
    if not vector:
        return ""
    return f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"


def checkpoints_of(names: Iterable[str]) -> dict[int, list[str]]:
    """Return the files of the checkpoints of a log that have all their parts, by version."""
    found: dict[int, list[str]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            number, count = int(match["version"]), int(match["parts"] or 0)
            if count:
                parts.setdefault((number, count), []).append(name)
            else:
                found[number] = [name]
    whole = {v: some for (v, count), some in parts.items() if len(some) == count}
    return whole | found


def _files(file: Place, content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in _lines(file, content):
        for kind in ("add", "remove"):
            if action := line.get(kind):
                yield kind, action


def _lines(file: Place, content: bytes) -> Iterator[dict[str, Any]]:
    try:
        for line in content.splitlines():
            if line:
                yield dict(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        raise _corrupt(file, "a line of it is no JSON object") from None


def _corrupt(file: Place, reason: str) -> _errors.LakestepError:
    return _errors.error("LAKESTEP_LOG_CORRUPT", file=str(file), reason=reason)
