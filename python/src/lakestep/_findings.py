"""What a check of a timeline has found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from lakestep import _errors


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    severity : str
        ``ok``; ``note``, what could not be checked or is going on; ``warning``; ``problem``.
    what : str
        The file, or what else was looked at.
    text : str
        What there is to say about it.
    next_step : str
        What to do; empty where there is nothing to do.
    """

    severity: Literal["ok", "note", "warning", "problem"]
    what: str
    text: str
    next_step: str = ""

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table."""
        return asdict(self)


def of_error(what: str, error: _errors.LakestepError) -> Finding:
    """Return the problem that an error tells of; its text says what to do."""
    parameters = error.getMessageParameters()
    return Finding("problem", parameters.get("file", what), error.getMessage())
