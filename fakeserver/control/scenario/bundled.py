"""Scenario files by path, and those that are installed with the package by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from fakeserver.control.scenario.building import load
from mongowire.documents.errors import ControlError, did_you_mean

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
        hint = f"{did_you_mean(name, known)} scenarios are {', '.join(known)}".lstrip()
        raise ControlError(f"there is no file and no scenario {str(name)!r}; {hint}")
    return known[str(name)]


def load_scenario(path: str | os.PathLike[str], *, spec: ClusterSpec | None = None) -> Scenario:
    """Return the scenario of a file, or of a name among those of the package.

    With `spec` it is for that deployment instead of the file's own; parameters and users of the file come on
    top. Raises `ScenarioFileError`, whose text has a line `FILE:LINE:COLUMN: FIELD: message` for each
    problem, and `ControlError` for a name that does not exist.
    """
    file = find(path)
    return load(file, shown=file.name if file.parent == FOLDER else "", spec=spec)
