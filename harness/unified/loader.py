"""Scenario files in: YAML or JSON text to checked, frozen cases that know their lines.

`load` is the way of a run: the first mistake ends it. Lint and the editor tools call `read…` and ask
`schema.mistakes` themselves, because they want all mistakes, the anchors and the text. Reading stands below,
in `mongowire.documents`, for the scenarios of servers have the same YAML; only the class of the error is
changed here, so that a caller has one class to catch for whatever is wrong with a file.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.unified.build import build
from harness.unified.errors import ScenarioError
from harness.unified.schema import check
from mongowire.documents import reader
from mongowire.documents.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.unified.model import TestFile
    from mongowire.documents.marks import Marked
    from mongowire.documents.reader import Anchor


def load(path: Path | str) -> TestFile:
    """Read, check and build a scenario file. Raises `ScenarioError`, also when the file cannot be read."""
    document = read(Path(path))
    check(document)
    return build(document)


def read(path: Path) -> Marked:
    """Read a YAML or JSON file into plain values with their places. Raises `ScenarioError`."""
    return read_with_anchors(path)[0]


def read_with_anchors(path: Path) -> tuple[Marked, Sequence[Anchor]]:
    """Read a file as `read` does; also return its anchors in their order. Raises `ScenarioError`."""
    with _as_scenario_error():
        return reader.read_with_anchors(path)


def read_text(text: str, path: Path) -> tuple[Marked, Sequence[Anchor]]:
    """Read the text of a file, YAML or JSON by its name. Raises `ScenarioError`."""
    with _as_scenario_error():
        return reader.read_text(text, path)


def read_yaml(text: str, path: Path) -> tuple[Marked, Sequence[Anchor]]:
    """Read the text of a YAML file as `read_with_anchors` does. Raises `ScenarioError`."""
    with _as_scenario_error():
        return reader.read_yaml(text, path, keys=True)


def text_of(path: Path) -> str:
    """Return the text of a file, without its byte order mark. Raises `ScenarioError`."""
    with _as_scenario_error():
        return reader.text_of(path)


@contextmanager
def _as_scenario_error() -> Iterator[None]:
    try:
        yield
    except DocumentError as error:
        raise ScenarioError(error.message, location=error.location, fix=error.fix) from error
