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

import itertools
import re
from dataclasses import dataclass, replace
from hashlib import sha256
from json import dumps
from math import prod
from typing import TYPE_CHECKING, Any, Final

from harness.sim.sweep.build import build, parts, unknown
from harness.unified.errors import ScenarioError
from harness.unified.loader import read_yaml
from mongowire.documents.marks import Location, Mark, Marked, join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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
            scenario = _placed(scenario, _steps(name), value)
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


def _steps(path: str) -> list[str | int]:
    """Return the steps of `servers.limit[0].rate`."""
    return [name or int(index) for name, index in _STEP.findall(path)]


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
