"""The site: Sphinx reads the Markdown files of the project where they lie (`tox -e docs`).

The source folder is the root of the project, so that a link means the same on the site and on a forge.
Two things are made here: the navigation, from the shelves of docs/README.md, and a page for each source file
that a document links to.
"""

from __future__ import annotations

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
INDEX = "docs/README"
"""The page that the shelves stand on, and where the site begins."""
DECISIONS = "docs/adr/README"

project = "pushbackd"
author = "the authors of pushbackd"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
include_patterns = ["*.md", "docs/*.md", "docs/adr/*.md"]
exclude_patterns = [".*", "build", "dist", "reports", "driver", "fakeserver", "harness", "mongowire"]
root_doc = INDEX
nitpicky = True
smartquotes = False  # "--uri" is an option, no dash

html_theme = "furo"
html_title = "pushbackd"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["site/static"]
html_css_files = ["pushbackd.css"]
html_extra_path = ["site/index.html"]  # leads to the page above

myst_heading_anchors = 4
highlight_language = "none"

SHELF = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^\| \[(.+?)\]\(([\w./-]+)\.md\) \|", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([\w./-]+)\)")
LANGUAGES = {".py": "python", ".yml": "yaml", ".cjs": "javascript", ".toml": "toml"}


def shelves(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each shelf of the index: its heading, and the titles and files of its pages."""
    for heading, body in SHELF.findall(text):
        if entries := ENTRY.findall(body):
            yield heading, entries


def drop_links_to_folders(app: Sphinx, docname: str, source: list[str]) -> None:
    """Leave the text of a link to a folder, which a forge shows and the site has no page for."""
    here = Path(app.srcdir, docname).parent
    source[0] = LINK.sub(lambda link: link[1] if (here / link[2]).is_dir() else link[0], source[0])


def add_navigation(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Add a table of contents for each shelf to the index, which shows them in the margin of every page."""
    if docname == DECISIONS:
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"
    if docname != INDEX:
        return
    for heading, entries in shelves(source[0]):
        lines = "\n".join(f"{title.replace('`', '')} <{path}>" for title, path in entries)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{lines}\n```\n"


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
    app.connect("html-collect-pages", source_pages)
    app.add_transform(SourceLinks)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
