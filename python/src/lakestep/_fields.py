"""The fields of a JSON file, read strictly: what is missing or of another type is damage."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

from lakestep import _build, _errors

A = TypeVar("A")


def corrupt(file: str, reason: str) -> _errors.LakestepError:
    """Return the error for a damaged file: ``LAKESTEP_TIMELINE_CORRUPT``."""
    return _errors.error("LAKESTEP_TIMELINE_CORRUPT", file=file, reason=reason)


class Fields:
    """One object of a file.

    Parameters
    ----------
    file : str
        The file as errors name it.
    tree : dict
        The object; fields that are null count as missing.
    """

    def __init__(self, file: str, tree: dict[str, Any]) -> None:
        self.file = file
        self.tree = tree

    @classmethod
    def of(cls, file: str, content: bytes) -> Fields:
        """Return the one object that a file holds."""
        try:
            tree = json.loads(content.decode("utf-8"), parse_constant=_refuse)
        except (ValueError, RecursionError):
            tree = None
        if not isinstance(tree, dict):
            raise corrupt(file, "it is not whole JSON")
        return cls(file, tree)

    def text(self, name: str) -> str:
        """Return a text."""
        return self._needed(name, self.opt_text(name))

    def opt_text(self, name: str) -> str | None:
        """Return a text, or None where there is none."""
        return self._typed(name, self.tree.get(name), str)

    def number(self, name: str) -> int:
        """Return a whole number."""
        return self._needed(name, self.opt_number(name))

    def opt_number(self, name: str) -> int | None:
        """Return a whole number, or None where there is none."""
        number = self._typed(name, self.tree.get(name), int)
        if number is not None and not -(2**63) <= number < 2**63:
            self._missing(name)
        return number

    def flag(self, name: str) -> bool:
        """Return true or false."""
        return self._needed(name, self.opt_flag(name))

    def opt_flag(self, name: str) -> bool | None:
        """Return true or false, or None where there is neither."""
        return self._typed(name, self.tree.get(name), bool)

    def child(self, name: str) -> Fields:
        """Return an object."""
        return self._needed(name, self.opt_child(name))

    def opt_child(self, name: str) -> Fields | None:
        """Return an object, or None where there is none."""
        tree = self._typed(name, self.tree.get(name), dict)
        return None if tree is None else Fields(self.file, tree)

    def children(self, name: str) -> list[Fields]:
        """Return the objects of a list."""
        return [Fields(self.file, tree) for tree in self._list(name, dict)]

    def opt_children(self, name: str) -> list[Fields]:
        """Return the objects of a list that may be missing."""
        return [] if self.tree.get(name) is None else self.children(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list."""
        return tuple(self._list(name, str))

    def opt_texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list that may be missing."""
        return () if self.tree.get(name) is None else self.texts(name)

    def number_lists(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Return the lists of whole numbers of a list."""
        lists = self._list(name, list)
        return tuple(tuple(self._item(name, n, int) for n in numbers) for numbers in lists)

    def all_texts(self) -> dict[str, str]:
        """Return all fields, which are texts."""
        return {name: self.text(name) for name in self.tree}

    def require(self, found: Iterable[str], known: Iterable[str]) -> None:
        """Refuse a file that asks for features that are not known."""
        if unknown := [feature for feature in found if feature not in known]:
            raise self.unknown_features(", ".join(unknown))

    def unknown_features(self, features: str) -> _errors.LakestepError:
        """Return the error for a file that needs a newer reader, whose version it may tell."""
        writer = self.tree.get("writer")
        return _errors.error(
            "LAKESTEP_TIMELINE_FEATURE_UNKNOWN",
            file=self.file,
            features=features,
            version=_build.version(),
            wanted=f"version {writer} or a newer one"
            if isinstance(writer, str)
            else "a newer version",
        )

    def _list(self, name: str, kind: type[A]) -> list[A]:
        values = self._needed(name, self._typed(name, self.tree.get(name), list))
        return [self._item(name, value, kind) for value in values]

    def _item(self, name: str, value: object, kind: type[A]) -> A:
        return self._needed(name, self._typed(name, value, kind))

    def _needed(self, name: str, value: A | None) -> A:
        if value is None:
            self._missing(name)
        return value

    def _typed(self, name: str, value: object, kind: type[A]) -> A | None:
        # True is an int, too.
        if value is None or type(value) is kind:
            return value
        self._missing(name)

    def _missing(self, name: str) -> NoReturn:
        raise corrupt(self.file, f"its field {name} is missing or of another type")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
