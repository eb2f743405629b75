"""Figures of the documentation: small SVG files, the same bytes for the same numbers."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZE_INCHES = (7.0, 3.4)


@contextmanager
def figure(path: str, panels: int = 1) -> Iterator[Any]:
    """Yield axes to draw on, a sequence of them where there are several panels, and write them to a file.

    Raises `ImportError` without the extra `plots`.
    """
    from matplotlib import rc_context  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    # A fixed salt for the ids, and letters as text: nothing in the file that changes from run to run.
    with rc_context({"svg.hashsalt": "pushbackd", "svg.fonttype": "none"}):
        drawn = Figure(figsize=_SIZE_INCHES, layout="constrained")
        yield drawn.subplots(1, panels)
        drawn.savefig(path, format="svg", metadata={"Date": None})
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    Path(path).write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")
