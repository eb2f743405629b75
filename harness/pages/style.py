"""The style sheets: one palette, which the live page serves as well, and what is drawn in its colours."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def palette() -> str:
    """Return the colours, light and dark, as variables of the root."""
    page = resources.files("fakeserver") / "control" / "web" / "page"
    return (page / "palette.css").read_text(encoding="utf-8")


@cache
def sheet(name: str) -> str:
    """Return one of the sheets of this folder: `page`, `chart` or `sequence`."""
    return (resources.files("harness.pages") / f"{name}.css").read_text(encoding="utf-8")


def of_picture(name: str) -> str:
    """Return what an SVG file needs that stands alone: the colours and the sheet of its kind."""
    return f"<style>{palette()}{sheet(name)}</style>"
