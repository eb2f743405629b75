"""YAML text to values with their places. A mapping like `{$oid: …}` is what relaxed Extended JSON means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bson import json_util
from bson.errors import BSONError

from fakeserver.control.scenario.places import FileProblem, Place, PlacedValue, ScenarioFileError
from mongowire.documents import reader
from mongowire.documents.errors import DocumentError, dotted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mongowire.documents.marks import Mark


def read(path: Path | str, *, shown: str = "") -> PlacedValue:
    """Read a file, which errors call `shown`, by default its path. Raises `ScenarioFileError`."""
    file = shown or str(path)
    try:
        text = reader.text_of(Path(path))
    except DocumentError as error:
        raise _file_error(error, file) from None
    return read_text(text, file)


def read_text(text: str, file: str) -> PlacedValue:
    """Read the text of a file. Raises `ScenarioFileError`."""
    try:
        document, _ = reader.read_yaml(text, Path(file), keys=True)
    except DocumentError as error:
        raise _file_error(error, file) from None
    if document.value is None:
        start = Place(file, 1, 1)
        raise ScenarioFileError(
            [FileProblem(start, "", 'is empty; a scenario begins with `pushbackd: "1.0"`')]
        )
    return _placed(document.value, document.mark, file, ())


def _file_error(error: DocumentError, file: str) -> ScenarioFileError:
    found = error.location
    place = Place(file, (found and found.line) or 1, (found and found.column) or 1)
    message = f"{error.message}; {error.fix}" if error.fix else error.message
    return ScenarioFileError([FileProblem(place, found.field if found else "", message)])


def _placed(value: Any, mark: Mark, file: str, path: tuple[str | int, ...]) -> PlacedValue:
    place = Place(file, mark.line, mark.column)
    if not isinstance(value, (dict, list)):
        return PlacedValue(value, place, path)
    steps: Mapping[str | int, Any] = value if isinstance(value, dict) else dict(enumerate(value))
    members = {
        step: _placed(inner, mark.child(step) or mark, file, (*path, step)) for step, inner in steps.items()
    }
    if isinstance(value, list):
        return PlacedValue([each.value for each in members.values()], place, path, members)
    plain: Any = {str(name): each.value for name, each in members.items()}
    if any(name.startswith("$") for name in plain):
        try:
            plain = json_util.object_hook(plain, json_util.RELAXED_JSON_OPTIONS)
        except (BSONError, TypeError, ValueError, OverflowError) as error:
            message = f"is no Extended JSON: {error}"
            raise ScenarioFileError([FileProblem(place, dotted(path), message)]) from None
    return PlacedValue(
        plain, place, path, members, {name: Place(file, *position) for name, position in mark.keys.items()}
    )
