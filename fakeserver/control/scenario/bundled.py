"""Scenario files by path, and those that are installed with the package by name."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fakeserver.control.errors import ControlError
from fakeserver.control.scenario.building import load

if TYPE_CHECKING:
    import os

    from fakeserver.control.scenario.model import Scenario
    from fakeserver.deployment.spec import ClusterSpec

FOLDER: Final = Path(__file__).parent / "bundled"


def bundled() -> dict[str, Path]:
    """Return the scenarios of the package by name, in their order."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yml"))}


def find(name: str | os.PathLike[str]) -> Path:
    """Return the file of a path, or of a name of the package. Raises `ControlError`."""
    path = Path(name)
    if path.exists() or path.suffix in {".yml", ".yaml"} or len(path.parts) > 1:
        return path
    known = bundled()
    if str(name) not in known:
        close = get_close_matches(str(name), known, n=1, cutoff=0.5)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise ControlError(
            f"there is no file and no scenario {str(name)!r}; {meant}scenarios are {', '.join(known)}"
        )
    return known[str(name)]


def load_scenario(path: str | os.PathLike[str], *, spec: ClusterSpec | None = None) -> Scenario:
    """Return the scenario of a file, or of a name among those of the package.

    With `spec` it is for that deployment instead of the file's own; parameters and users of the file come on
    top. Raises `ScenarioFileError`, whose text has a line `FILE:LINE:COLUMN: FIELD: message` for each
    problem, and `ControlError` for a name that does not exist.
    """
    file = find(path)
    return load(file, shown=file.name if file.parent == FOLDER else "", spec=spec)
