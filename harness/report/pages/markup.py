"""Markup: escaped text, an SVG that says what it is to those who do not see it, and the style sheets."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources

from harness.explaining.text import for_xml


def escaped(text: str) -> str:
    """Return a text as the content of an element, or the value of an attribute in double quotes."""
    # An apostrophe needs no escape within double quotes, and texts of scenarios are full of them.
    return escape(for_xml(text)).replace("&#x27;", "'")


def fitted(text: str, room: float, letter: float) -> str:
    """Return a text, escaped and cut to `room`; a letter is `letter` wide, in the same unit."""
    most = max(4, int(room / letter))
    return escaped(text if len(text) <= most else f"{text[: most - 1]}…")


def svg(
    body: str, *, size: tuple[float, float], title: str, description: str, kind: str, style: str = ""
) -> str:
    """Return an SVG element with its role, title and description; `kind` is its class, `size` in pixels."""
    width, height = (f"{side:g}" for side in size)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" role="img" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}"><title>{escaped(title)}</title>'
        f"<desc>{escaped(description)}</desc>{style}{body}</svg>\n"
    )


# The style sheets: one palette, which the live page serves as well, and what is drawn in its colours.


@cache
def palette() -> str:
    """Return the colours, light and dark, as variables of the root."""
    page = resources.files("fakeserver") / "control" / "web" / "page"
    return (page / "palette.css").read_text(encoding="utf-8")


@cache
def sheet(name: str) -> str:
    """Return one of the sheets of this folder: `page`, `chart` or `sequence`."""
    return (resources.files("harness.report.pages") / f"{name}.css").read_text(encoding="utf-8")


def of_picture(name: str) -> str:
    """Return what an SVG file needs that stands alone: the colours and the sheet of its kind."""
    return f"<style>{palette()}{sheet(name)}</style>"
