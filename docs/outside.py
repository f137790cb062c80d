"""Links between docs/ and the rest of the repository, for ``mkdocs build``.

The site holds docs/ alone. A link to a file outside becomes a link into the repository where
``repo_url`` is set, else plain text. Files and headings that are not there, also those that the
pages outside name, are warnings, which fail a strict build.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parents[1]
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s:]+)\)")
_log = logging.getLogger("mkdocs.hooks.outside")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the protocol, however many there are, at the end."""
    names = sorted(page.name for page in (REPOSITORY / "docs/protocol").glob("*.md"))
    names.sort(key=lambda name: name != "index.md")
    if names and config.nav is not None:
        config.nav.append({"Protocol": [f"protocol/{name}" for name in names]})
    return config


def on_pre_build(config: MkDocsConfig) -> None:
    """Check the links of the pages outside."""
    for page in OUTSIDE:
        for _, link in _LINK.findall((REPOSITORY / page).read_text("utf-8")):
            _check(page, posixpath.normpath(link))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the links that leave docs/."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def replaced(match: re.Match[str]) -> str:
        text, link = match.groups()
        target = posixpath.normpath(posixpath.join(folder, link))
        if link.startswith("#") or target.startswith("docs/"):
            return match.group()
        _check(f"docs/{page.file.src_uri}", target)
        return f"[{text}]({config.repo_url}/blob/main/{target})" if config.repo_url else text

    return _LINK.sub(replaced, markdown)


def _check(page: str, link: str) -> None:
    name, _, anchor = link.partition("#")
    target = REPOSITORY / (name or page)
    if not target.exists():
        _log.warning("%s links to %s, which is not there", page, name)
    elif anchor and target.suffix == ".md" and anchor not in _anchors(target):
        _log.warning("%s links to the heading #%s, which %s does not have", page, anchor, name)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*?)\s*$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
