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

import links

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
    """Check the links of all pages, also of those outside."""
    for page in [*map(REPOSITORY.joinpath, OUTSIDE), *REPOSITORY.glob("docs/**/*.md")]:
        for link in links.dead(page):
            _log.warning("%s links to %s, which is not there", page, link)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the links that leave docs/."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def replaced(match: re.Match[str]) -> str:
        text, link = match.groups()
        target = posixpath.normpath(posixpath.join(folder, link))
        if link.startswith("#") or target.startswith("docs/"):
            return match.group()
        return f"[{text}]({config.repo_url}/blob/main/{target})" if config.repo_url else text

    return _LINK.sub(replaced, markdown)
