"""Where results are kept: `results.json`, and the tables in README.md beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results.json"
README = FOLDER / "README.md"


def known() -> dict[str, Any]:
    """Return all results that are kept."""
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return results


def keep(script: str, results: dict[str, Any], page: str) -> None:
    """Keep what a script found beside the rest, and put its tables between its marks."""
    whole = known() | results
    RESULTS.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")
    begin, end = f"<!-- {script}: written by {script}.py -->", f"<!-- end of {script} -->"
    before, rest = README.read_text("utf-8").split(begin)
    after = rest.split(end)[1]
    README.write_text(f"{before}{begin}\n\n{page}\n\n{end}{after}", "utf-8")


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table as Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
