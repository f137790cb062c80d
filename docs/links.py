"""Links of Markdown pages that lead nowhere; for the site and for the tests."""

from __future__ import annotations

import re
from pathlib import Path


def dead(page: Path) -> list[str]:
    """Return the links of a page to files or headings that are not there."""
    return [link for link in _links(page) if not _leads_somewhere(page, link)]


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in _anchors(target))


def _links(page: Path) -> list[str]:
    """Return the links of a page that lead to files."""
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", _without_code(page)))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def _anchors(page: Path) -> list[str]:
    """Return the anchors that a code host makes of the headings."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} (.*?)\s*$", _without_code(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = sum(re.sub(r"-\d+$", "", other) == slug for other in found)
        found.append(f"{slug}-{count}" if count else slug)
    return found


def _without_code(page: Path) -> str:
    text = page.read_text("utf-8")
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
