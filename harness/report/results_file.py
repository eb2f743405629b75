"""The results of a run as a file: JSON Lines that are written as results come, and read back later.

The first line says what run it was, the last one that it came to its end; between them each line is a
`Result`. A file whose name ends in `.gz` is compressed.

The schema of a line is derived from the type hints of `Result`, so a new field is read as soon as it is
written; a field that has no default makes older files unreadable, and then `SCHEMA` has to count up. Readers
refuse what is torn: a file without its last line is a run that was killed, and its totals would be wrong.

`JsonLines`, at the end, is another format: what `conform --json` prints for programs, without timelines.
"""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from inspect import Parameter, signature
from math import isfinite
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Self,
    TextIO,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import jsonschema_rs

from harness.planning.plan import Settings
from harness.planning.result import Result
from harness.unified.uri import ConnectionString
from mongowire.package import version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from harness.planning.result import Tally


SCHEMA: Final = "pushbackd-results/1"
_MADE_BY: Final = "is not what `pushbackd conform --results` writes"


class ResultsFileError(Exception):
    """A results file cannot be used; the message has file, line and reason."""


@dataclass(frozen=True, slots=True)
class RunHeader:
    """The first line of the file: start of the run (UTC, in ISO 8601), version of pushbackd, and settings."""

    started: str
    pushbackd: str
    settings: Settings

    @classmethod
    def at(cls, utc: float, settings: Settings) -> RunHeader:
        """Return a run that starts at an instant, in seconds since 1970; passwords are removed."""
        started = datetime.fromtimestamp(utc, UTC).isoformat(timespec="seconds")
        # Results are kept and mailed.
        shown = replace(settings, uri=_shown(settings.uri), uri_multi=_shown(settings.uri_multi))
        return cls(started, version(), shown)


def _shown(uri: str) -> str:
    """Return a connection string as others may read it."""
    return ConnectionString.of(uri).redacted() if uri else ""


class ResultsWriter:
    """Writes results as they come, to a file that is there. Opening raises `OSError`, as writing does.

    A file that is left without `end` has no last line, and will not be read as a whole run. It is compressed
    if `packed`.
    """

    def __init__(self, path: Path, run: RunHeader, *, packed: bool | None = None) -> None:
        self._stream: TextIO = _opened(path, "w", packed=is_packed(path) if packed is None else packed)
        self._count = 0
        try:
            self._write({"schema": SCHEMA, **asdict(run)})
        except BaseException:
            self._close()
            raise

    def add(self, result: Result) -> None:
        """Write the next result."""
        self._count += 1
        self._write(result.to_dict())

    def end(self) -> None:
        """Write that the run is over, and close the file."""
        self._write({"end": self._count})
        self._stream.close()

    def _write(self, document: object) -> None:
        self._stream.write(json.dumps(document, separators=(",", ":")) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        with suppress(OSError):  # writing has raised the error of a full disk already
            self._stream.close()


class ResultsReader:
    """A file of results, checked line by line while it is read. Every method raises `ResultsFileError`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._stream: TextIO = _opened(path, "r", packed=is_packed(path))
        except OSError as error:
            raise ResultsFileError(f"{path}: {error.strerror}") from error
        self._lines = self._numbered()
        try:
            self.run: RunHeader = self._header()
        except BaseException:
            self._stream.close()
            raise

    def results(self) -> Iterator[Result]:
        """Yield the results, once."""
        count = 0
        for number, document in self._lines:
            if "end" in document:
                if document["end"] != count:
                    raise self._error(
                        number, f"end: announces {document['end']} results, but the file has {count}"
                    )
                if next(self._lines, None) is not None:
                    raise self._error(number + 1, "a line follows the end of the run: a file holds one run")
                return
            count += 1
            self._check(number, document, _RESULT, "no result of a case")
            yield Result.from_dict(document)
        raise self._error(
            count + 2, "the last line is missing: the run was ended from outside, or the file was cut off"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def _numbered(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        number = 0
        try:
            for number, line in enumerate(self._stream, 1):
                if not line.endswith("\n"):
                    raise self._error(number, "the line has no end: the file was cut off")
                document = json.loads(line, parse_float=_finite, parse_constant=_finite)
                if not isinstance(document, dict):
                    raise self._error(number, f"the line is no JSON object: the file {_MADE_BY}")
                yield number, document
        except (OSError, EOFError, zlib.error) as error:
            raise self._error(number + 1, f"cannot be read on: {error}") from error
        except (ValueError, RecursionError) as error:
            here = number + 1 if isinstance(error, UnicodeDecodeError) else number
            raise self._error(here, f"no JSON in UTF-8 ({error}): the file {_MADE_BY}") from error

    def _header(self) -> RunHeader:
        number, document = next(self._lines, (1, {}))
        schema = document.get("schema")
        if schema != SCHEMA:
            if isinstance(schema, str) and schema.startswith(SCHEMA.partition("/")[0]):
                raise self._error(
                    number, f"schema: is {schema!r}, and this version of pushbackd reads {SCHEMA!r}"
                )
            raise self._error(number, f"schema: must be {SCHEMA!r}, the file {_MADE_BY}")
        self._check(number, document, _HEADER, "the first line does not describe a run")
        try:
            settings = Settings.from_dict(document["settings"])
        except TypeError as error:
            raise self._error(number, f"the first line does not describe a run: {error}") from error
        return RunHeader(document["started"], document["pushbackd"], settings)

    def _check(self, number: int, document: Mapping[str, Any], schema: _Schema, otherwise: str) -> None:
        try:
            schema.validate(document)
        except jsonschema_rs.ValidationError as error:
            where = "".join(f"{key}." for key in error.instance_path)[:-1]
            message = f"{where}: {error.message}" if where else error.message
            raise self._error(number, f"{otherwise}: {message:.300}") from error

    def _error(self, number: int, reason: str) -> ResultsFileError:
        return ResultsFileError(f"{self._path}:{number}: {reason}")


def _schema_of(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of a type that results are made of."""
    if get_origin(hint) in (UnionType, Union):
        return {"anyOf": [_schema_of(each) for each in get_args(hint)]}
    if get_origin(hint) is tuple:
        first, *others = get_args(hint)
        if others == [Ellipsis]:
            return {"type": "array", "items": _schema_of(first)}
        fields = [_schema_of(each) for each in (first, *others)]
        return {"type": "array", "prefixItems": fields, "items": False, "minItems": len(fields)}
    if issubclass(hint, StrEnum):
        return {"enum": [str(each) for each in hint]}
    return {"type": _JSON_TYPES[hint]} if hint in _JSON_TYPES else _schema_of_record(hint)


def _schema_of_record(record: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(record)
    needed = [
        name
        for name, parameter in signature(record).parameters.items()
        if parameter.default is Parameter.empty
    ]
    return {
        "type": "object",
        "properties": {name: _schema_of(hint) for name, hint in hints.items()},
        "required": needed,
        "additionalProperties": False,
    }


_JSON_TYPES: Final[Mapping[Any, str]] = {
    bool: "boolean",
    float: "number",
    int: "integer",
    str: "string",
    NoneType: "null",
}


_Schema: TypeAlias = jsonschema_rs.Draft202012Validator
_PAIR: Final = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
_SETTINGS: Final = {
    "type": "object",
    "properties": {
        "time": {"enum": ["real", "virtual"]},
        "seed": {"type": "integer"},
        "commands": {"type": "array", "items": _PAIR},
        "drivers": {"type": "array", "items": _PAIR},
    },
    "required": ["commands"],
}
_HEADER: Final = _Schema(
    {
        "type": "object",
        "properties": {
            "started": {"type": "string"},
            "pushbackd": {"type": "string"},
            "settings": _SETTINGS,
        },
        "required": ["started", "pushbackd", "settings"],
    }
)
_RESULT: Final = _Schema(_schema_of(Result))


def _finite(text: str) -> float:
    """Read a number of JSON; there, every number is finite."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def is_packed(path: Path) -> bool:
    """Return whether a file of this name is compressed."""
    return path.suffix == ".gz"


def _opened(path: Path, mode: str, *, packed: bool) -> TextIO:
    if packed:
        return cast("TextIO", gzip.open(path, f"{mode}t", 5, encoding="utf-8", newline="\n"))
    # Line by line: whoever looks into the file during a run finds whole results.
    return cast("TextIO", path.open(mode, buffering=1, encoding="utf-8", newline="\n"))


# Results for programs: one JSON object a case, in the order of the plan, then one with the totals.


_FIELDS = ("id", "status", "reason", "topology", "adapter", "driver", "edition", "duration_ms")


class JsonLines:
    """Writes each result as soon as its turn has come."""

    def __init__(self, stream: TextIO, settings: Settings) -> None:
        self._stream = stream
        self._settings = settings

    def result(self, result: Result) -> None:
        """Write one case."""
        document = result.to_dict()
        document["driver"] = self._settings.driver(result.adapter)
        self._write({name: document[name] for name in _FIELDS})

    def summary(self, tally: Tally, *, unusable_files: int = 0) -> None:
        """Write the totals, under the names of the statuses, and how many files could not be used."""
        counts = {status.value: count for status, count in tally.counts.items()}
        self._write({"summary": {**counts, "unusable-files": unusable_files}})

    def _write(self, document: object) -> None:
        self._stream.write(json.dumps(document, ensure_ascii=False) + "\n")
        self._stream.flush()
