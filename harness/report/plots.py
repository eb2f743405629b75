"""Pictures of numbers over time: small SVG files, the same bytes for the same numbers.

They are drawn by matplotlib, which the extra `plots` installs.
"""

from __future__ import annotations

from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INSTALL: Final = "pip install 'pushbackd[plots]'"
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c")
"""Colours that readers with any kind of sight tell apart, in the order of use."""


class MissingPlotsError(Exception):
    """Pictures need a package that is not installed."""


def check() -> None:
    """Raise `MissingPlotsError`, whose text is one line with the cure, where pictures cannot be drawn."""
    try:
        import matplotlib  # noqa: ICN001, F401, PLC0415 - an extra
    except ImportError as error:
        raise MissingPlotsError(f"pictures need a package that is not installed: {INSTALL}") from error


def svg(
    draw: Callable[[Any], None],
    *,
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] = (7.0, 3.4),
    share_x: bool = False,
    share_y: bool = False,
) -> str:
    """Return the SVG of a figure of `rows` by `columns` panels; `size` is in inches.

    `draw` is called with the axes: one, or an array of them where there are several panels.
    Raises `MissingPlotsError` without the extra `plots`.
    """
    check()
    with _figure() as make:
        figure = make(figsize=size, layout="constrained")
        draw(figure.subplots(rows, columns, sharex=share_x, sharey=share_y))
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


@contextmanager
def _figure() -> Iterator[Any]:
    from matplotlib import figure, rc_context  # noqa: PLC0415 - an extra

    # A fixed salt for the ids, and letters as text: nothing in the file that changes from run to run.
    with rc_context(
        {
            "svg.hashsalt": "pushbackd",
            "svg.fonttype": "none",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
        }
    ):
        yield figure.Figure
