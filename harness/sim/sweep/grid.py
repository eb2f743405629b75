"""A grid: one scenario, lists of values for some of its fields, and seeds; every combination is a point.

    scenario:                      # the fields of the scenario
      clients: 1000
      seconds: 60
    sweep:                         # fields by their path, and the values that each takes
      clients: [1000, 10000]
      fleet: [fixed, exponential]
    seeds: 3                       # how many, or a list

A point is known by what it is, not by its place: its key is a digest of its scenario with the seed. So a grid
may grow or change its order, and the points that were run are the same.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from json import dumps
from math import prod
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from harness.unified.errors import ScenarioError
from harness.unified.loader import read_yaml
from mongowire.documents.errors import did_you_mean
from mongowire.documents.marks import Location, Mark, Marked, join

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


POINTS_MAX: Final = 1_000_000
_KEY_DIGITS: Final = 16
_PARTS: Final = ("scenario", "sweep", "seeds")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class GridPoint:
    """One scenario of a grid. `parameters` are the swept fields by their paths, with plain values."""

    key: str
    parameters: Mapping[str, Any]
    seed: int
    scenario: Any

    def __str__(self) -> str:
        swept = "".join(f"{name}={dumps(value)}, " for name, value in self.parameters.items())
        return f"{swept}seed={self.seed}"


def read_grid(path: Path, kind: Any) -> tuple[GridPoint, ...]:
    """Return the points of a grid file, each with a scenario of the dataclass `kind`, which has a `seed`.

    The last field of the file varies fastest, then the seed. Raises `ScenarioError`, with line and field.
    """
    document = _document(path)
    points: dict[str, GridPoint] = {}
    for parameters, point in _combinations(document):
        scenario = build(kind, point)
        # Of the built scenario and not of the text: a default that is written out is the same point.
        key = sha256(dumps(parts(scenario)).encode()).hexdigest()[:_KEY_DIGITS]
        if key in points:
            same = GridPoint(key, parameters, scenario.seed, scenario)
            raise ScenarioError(
                f"asks twice for the point {same}", location=Location(path, 1), fix="remove a repeated value"
            )
        points[key] = GridPoint(key, parameters, scenario.seed, scenario)
    return tuple(points.values())


def _document(path: Path) -> Marked:
    """Return the document of a grid file. Raises `ScenarioError`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror}", location=Location(path)) from error
    except UnicodeDecodeError as error:
        raise ScenarioError("is not UTF-8", location=Location(path), fix="save it as UTF-8") from error
    document = read_yaml(text, path)[0]
    if not isinstance(document.value, dict):
        raise ScenarioError(
            "is no grid",
            location=Location(path, 1),
            fix=f"a grid has {', '.join(_PARTS)}, as docs/SIMULATION.md says",
        )
    for name in document.value:
        if name not in _PARTS:
            raise unknown(document[name], "field", name, _PARTS)
    if "scenario" not in document.value:
        raise ScenarioError(
            "lacks 'scenario'", location=Location(path, 1), fix="its fields are those of one run"
        )
    return document


def _combinations(document: Marked) -> Iterator[tuple[dict[str, Any], Marked]]:
    """Yield the parameters of each point, and its scenario as a document."""
    axes, seeds = _axes(document), _seeds(document)
    _check_count(prod(len(values) for values in axes.values()) * len(seeds), document)
    for values in itertools.product(*axes.values()):
        scenario = document["scenario"]
        for name, value in zip(axes, values, strict=True):
            # The steps of `servers.limit[0].rate`.
            steps = [field or int(index) for field, index in _STEP.findall(name)]
            scenario = _placed(scenario, steps, value)
        parameters = {name: value.value for name, value in zip(axes, values, strict=True)}
        for seed in seeds:
            yield parameters, scenario if seed is None else _placed(scenario, ["seed"], seed)


def _check_count(count: int, document: Marked) -> None:
    if count > POINTS_MAX:
        fix = f"at most {POINTS_MAX:,} are a grid"
        raise ScenarioError(f"makes {count:,} points", location=document.location, fix=fix)


def _axes(document: Marked) -> dict[str, Sequence[Marked]]:
    swept = document.get("sweep")
    if swept is None or swept.value is None:
        return {}
    if not isinstance(swept.value, dict):
        raise ScenarioError("must be a mapping of fields to lists of values", location=swept.location)
    return {name: _values(replace(swept[name], field=f"sweep: {name}")) for name in swept.value}


def _values(values: Marked) -> Sequence[Marked]:
    if not isinstance(values.value, list):
        raise ScenarioError("must be a list of values", location=values.location, fix="write [ ] around it")
    if not values.value:
        raise ScenarioError("is an empty list", location=values.location, fix="give at least one value")
    return values.items()


def _seeds(document: Marked) -> Sequence[Marked | None]:
    """Return the seeds, each a whole number at its place; None alone where the scenario says it."""
    seeds = document.get("seeds")
    if seeds is None:
        return (None,)
    inside = document["scenario"].value
    if isinstance(inside, dict) and "seed" in inside:
        location = document["scenario"]["seed"].location
        raise ScenarioError("stands beside 'seeds'", location=location, fix="remove one of the two")
    if isinstance(seeds.value, int) and not isinstance(seeds.value, bool):
        if seeds.value < 1:
            raise ScenarioError("must be at least 1", location=seeds.location)
        _check_count(seeds.value, seeds)
        return [replace(seeds, value=number) for number in range(seeds.value)]
    return _values(seeds)


def _placed(document: Marked, steps: Sequence[str | int], value: Marked) -> Marked:
    """Return a document with another value at the end of a path; it keeps its own line.

    Raises `ScenarioError` where the path leads nowhere.
    """
    if not steps:
        return replace(value, field=document.field)
    step, inside = steps[0], document.value
    if isinstance(step, int) != isinstance(inside, list) or not isinstance(inside, dict | list):
        raise ScenarioError(
            f"has no {join('', step)} to sweep",
            location=replace(value.location, field=document.field or "scenario"),
        )
    if isinstance(inside, list):
        assert isinstance(step, int)
        if step >= len(inside):
            raise ScenarioError(
                f"has no element {step} to sweep", location=replace(value.location, field=document.field)
            )
        child = _placed(document[step], steps[1:], value)
        marks: Any = [child.mark if at == step else document[at].mark for at in range(len(inside))]
        values: Any = [child.value if at == step else each for at, each in enumerate(inside)]
    else:
        name = str(step)
        there = name in inside
        empty = Marked({}, value.mark, value.path, join(document.field, name))
        child = _placed(document[name] if there else empty, steps[1:], value)
        marks = {each: document[each].mark for each in inside} | {name: child.mark}
        values = {**inside, name: child.value}
    return replace(document, value=values, mark=Mark(document.mark.line, document.mark.column, marks))


# Frozen dataclasses from a document that knows its lines: strict, by their own fields and annotations.
#
# A value that may be one of several classes names its class in lower case: `no_retry`, or with fields
# `fixed: {interval: 0.1}`.


_SOLE_SHARE: Final = 1.0
"""The share of the only member of a mixture."""


def build(kind: Any, document: Marked) -> Any:
    """Return a value of a type, made of a document.

    `kind` may be a dataclass, `bool`, `int`, `float`, `str`, a `Literal`, a tuple or a union of these. A
    tuple of pairs of a number and a value takes a value alone as well: it is the whole of the mixture.
    Raises `ScenarioError`, with line and field, for what does not fit.
    """
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, document)
    origin = get_origin(kind)
    if origin is Literal:
        allowed = get_args(kind)
        if document.value in allowed and type(document.value) in {type(each) for each in allowed}:
            return document.value
        raise unknown(document, "value", document.value, [str(each) for each in allowed])
    if origin is tuple:
        return _tuple(get_args(kind), document)
    if origin in {Union, UnionType}:
        return _union(get_args(kind), document)
    name, fits = _SCALARS[kind]
    if not fits(document.value):
        raise _wrong(document, name)
    return kind(document.value)


def parts(value: Any) -> Any:
    """Return a built value as JSON has it, with the names of classes: equal values give equal documents."""
    if dataclasses.is_dataclass(value):
        fields = {each.name: parts(getattr(value, each.name)) for each in dataclasses.fields(value)}
        return {"is": name_of(type(value)), **fields}
    if isinstance(value, tuple):
        return [parts(each) for each in value]
    return value


def name_of(kind: Any) -> str:
    """Return the name of a class as documents spell it: `no_retry` for `NoRetry`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


def _dataclass(kind: Any, document: Marked) -> Any:
    fields = {each.name: each for each in dataclasses.fields(kind) if each.init}
    if not isinstance(document.value, dict):
        raise _wrong(document, f"a mapping with the fields of {name_of(kind)}")
    for name in document.value:
        if name not in fields:
            raise unknown(document[name], "field", name, fields)
    unset = dataclasses.MISSING
    needed = (name for name, each in fields.items() if each.default is each.default_factory is unset)
    missing = [name for name in needed if name not in document.value]
    if missing:
        raise ScenarioError(
            f"lacks {missing[0]!r}", location=document.location, fix=f"{name_of(kind)} needs it"
        )
    hints = _hints(kind)
    values = {name: build(hints[name], document[name]) for name in document.value}
    try:
        return kind(**values)
    except (ValueError, TypeError) as error:
        raise ScenarioError(str(error), location=document.location) from error


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _union(kinds: Sequence[Any], document: Marked) -> Any:
    if document.value is None and NoneType in kinds:
        return None
    classes = {name_of(each): each for each in kinds if dataclasses.is_dataclass(each)}
    others = [each for each in kinds if each is not NoneType and not dataclasses.is_dataclass(each)]
    if len(classes) == 1 and not others:
        return build(next(iter(classes.values())), document)
    if not classes and len(others) == 1:
        return build(others[0], document)
    if classes and not others:
        return _named(classes, document)
    for kind in others:
        try:
            return build(kind, document)
        except ScenarioError as error:
            last = error
    raise last


def _named(classes: Mapping[str, Any], document: Marked) -> Any:
    """Return the value of a class that the document names, alone or above its fields."""
    value = document.value
    if isinstance(value, str):
        if value not in classes:
            raise unknown(document, "kind", value, classes)
        return _dataclass(classes[value], dataclasses.replace(document, value={}))
    if not isinstance(value, dict) or len(value) != 1:
        raise _wrong(document, f"one of {', '.join(classes)}, with its fields below it")
    (name,) = value
    if name not in classes:
        raise unknown(document[name], "kind", name, classes)
    inside = document[name]
    return _dataclass(classes[name], dataclasses.replace(inside, value=inside.value or {}))


def _tuple(kinds: Sequence[Any], document: Marked) -> tuple[Any, ...]:
    repeated = kinds[-1] is Ellipsis
    inner = get_args(kinds[0]) if get_origin(kinds[0]) is tuple else ()
    if (
        repeated
        and not isinstance(document.value, list)
        and inner[:1] == (float,)
        and inner[1] is not Ellipsis
    ):
        return ((_SOLE_SHARE, build(inner[1], document)),)
    if not isinstance(document.value, list):
        raise _wrong(document, "a list")
    items = document.items()
    if repeated:
        return tuple(build(kinds[0], each) for each in items)
    if len(items) != len(kinds):
        raise _wrong(document, f"a list of {len(kinds)}")
    return tuple(build(kind, each) for kind, each in zip(kinds, items, strict=True))


_Check: TypeAlias = Callable[[Any], bool]

_SCALARS: Final[Mapping[Any, tuple[str, _Check]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    str: ("a text", lambda value: isinstance(value, str)),
}


def _wrong(document: Marked, wanted: str) -> ScenarioError:
    return ScenarioError(f"must be {wanted}, not {_shown(document.value)}", location=document.location)


def unknown(document: Marked, what: str, name: object, allowed: Iterable[str]) -> ScenarioError:
    """Return the error for a name that does not exist, with the one that was meant or all that do."""
    known = [*allowed]
    fix = did_you_mean(name, known, f"there {'are' if len(known) > 1 else 'is'} {', '.join(known)}")
    return ScenarioError(f"unknown {what} {_shown(name)}", location=document.location, fix=fix)


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case _:
            return repr(value)
