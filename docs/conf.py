"""The site: Sphinx reads the Markdown files of the project where they lie (`tox -e docs`).

The source folder is the root of the project, so that a link means the same on the site and on a forge.
What is made here: the navigation, from the parts of docs/README.md; the order of search results, by the same
parts; a page for each source file that a document links to; the column of a table that a phone keeps in view.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.highlighting import PygmentsBridge, lexer_classes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
OVERVIEW = "README"
"""Where the site begins."""
INDEX = "docs/README"
"""The page that lists all others, by the parts of the site."""
DECISIONS = "docs/adr/README"

project = "pushbackd"
author = "the authors of pushbackd"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
include_patterns = ["*.md", "docs/*.md", "docs/adr/*.md"]
exclude_patterns = [".*", "build", "dist", "reports", "driver", "fakeserver", "harness", "mongowire"]
root_doc = OVERVIEW
nitpicky = True
smartquotes = False  # "--uri" is an option, no dash

html_theme = "furo"
html_title = "pushbackd"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["site/static"]
html_css_files = ["pushbackd.css"]
html_js_files = ["long-pages.js"]
html_extra_path = ["site/index.html"]  # leads to the page above

myst_heading_anchors = 4
highlight_language = "none"

RANKS = {"How to": 60, "Reference": 30, "Why": 0}
"""What a page's part adds to its score in a search: guides come first, decisions and the changelog last."""
LAST = -100
TITLE_IS_ASKED_FOR = 100

PART = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^\| \[(.+?)\]\(([\w./-]+)\.md\) \|", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([\w./-]+)\)")
LANGUAGES = {".py": "python", ".yml": "yaml", ".cjs": "javascript", ".toml": "toml"}


def parts() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each part of the index: its heading, and the titles and documents of its pages."""
    text = (ROOT / f"{INDEX}.md").read_text(encoding="utf-8")
    for heading, body in PART.findall(text):
        entries = [(title, posixpath.normpath(f"docs/{path}")) for title, path in ENTRY.findall(body)]
        if entries := [(title, page) for title, page in entries if page != OVERVIEW]:
            yield heading, entries


def drop_links_to_folders(app: Sphinx, docname: str, source: list[str]) -> None:
    """Leave the text of a link to a folder, which a forge shows and the site has no page for."""
    here = Path(app.srcdir, docname).parent
    source[0] = LINK.sub(lambda link: link[1] if (here / link[2]).is_dir() else link[0], source[0])


def add_navigation(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Add a table of contents for each part to the overview; the margin of every page shows them."""
    if docname == DECISIONS:
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"
    if docname != OVERVIEW:
        return
    source[0] += f"\n```{{toctree}}\n:hidden:\n\nAll pages </{INDEX}>\n```\n"
    for heading, entries in parts():
        lines = "\n".join(f"{title.replace('`', '')} </{page}>" for title, page in entries)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{lines}\n```\n"


SCORER = """\
const RANKS = %(ranks)s;
const asked = (new URLSearchParams(location.search).get("q") ?? "").trim().toLowerCase();
var Scorer = {
  score: ([page, title, , , score]) =>
    score + (RANKS[page] ?? %(last)d) + (asked && title.toLowerCase() === asked ? %(asked)d : 0),
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
"""
"""What Sphinx adds a page's score with; the numbers below are Sphinx's own."""


def rank_search_results(app: Sphinx) -> None:
    """Have guides found before reference, and both before decisions and the changelog."""
    ranks = {page: RANKS.get(heading, LAST) for heading, entries in parts() for _, page in entries}
    ranks |= {OVERVIEW: max(RANKS.values()), INDEX: 0}
    path = Path(app.doctreedir, "scorer.js")
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = {"ranks": json.dumps(ranks), "last": LAST, "asked": TITLE_IS_ASKED_FOR}
    path.write_text(SCORER % numbers, encoding="utf-8")
    app.config.html_search_scorer = str(path)


def keep_columns_with_links(_app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    """Mark the column of each table that has most of its links: it stays in view while the others scroll."""
    for group in doctree.findall(nodes.tgroup):
        rows = [list(row.findall(nodes.entry)) for row in group.findall(nodes.row)]
        linked = [
            sum(any(True for _ in cell.findall(nodes.reference)) for cell in column)
            for column in zip(*rows, strict=False)
        ]
        if any(linked):
            for row in rows:
                row[linked.index(max(linked))]["classes"].append("keeps")


class SourceLinks(SphinxTransform):
    """Leads a link to a file of the project to a page with its text, instead of to a download."""

    default_priority: ClassVar[int] = 400

    def apply(self, **_kwargs: Any) -> None:
        env = self.app.env
        linked: set[str] = env.__dict__.setdefault("linked_sources", set())
        for node in list(self.document.findall(addnodes.download_reference)):
            path, _ = env.relfn2path(node["reftarget"], env.docname)
            if Path(path).suffix in LANGUAGES:
                linked.add(path)
                uri = "../" * env.docname.count("/") + f"source/{path}.html"
                node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True))


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each source file that a document links to."""
    bridge = PygmentsBridge("html", "default")
    for path in sorted(getattr(app.env, "linked_sources", ())):
        language = LANGUAGES[Path(path).suffix]
        code = bridge.highlight_block((ROOT / path).read_text(encoding="utf-8"), language)
        body = f"<section><h1>{path}</h1>{code}</section>"
        yield f"source/{path}", {"title": path, "body": body}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx of the parts above."""
    lexer_classes["session"] = lexer_classes["none"]
    app.connect("source-read", drop_links_to_folders)
    app.connect("source-read", add_navigation)
    app.connect("builder-inited", rank_search_results)
    app.connect("doctree-resolved", keep_columns_with_links)
    app.connect("html-collect-pages", source_pages)
    app.add_transform(SourceLinks)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
