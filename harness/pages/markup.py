"""Text into markup: escaped, cut to a width, and an SVG that says what it is to those who do not see it."""

from __future__ import annotations

from html import escape

from harness.explaining.text import for_xml


def escaped(text: str) -> str:
    """Return a text as the content of an element, or the value of an attribute in double quotes."""
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
