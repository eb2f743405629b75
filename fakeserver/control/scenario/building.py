"""A scenario file to `model.Scenario`: every part is checked before anything is built."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fakeserver.control.scenario import settings
from fakeserver.control.scenario.checks import ScenarioNames, check_fault, check_rule
from fakeserver.control.scenario.deployment import server_names, spec_of
from fakeserver.control.scenario.entries import Reader
from fakeserver.control.scenario.forms import known_keys, mapping, sequence, shown
from fakeserver.control.scenario.loader import read
from fakeserver.control.scenario.model import RuleOrFault, Scenario, Seed
from fakeserver.control.scenario.places import ProblemReport
from fakeserver.storage.port.engine import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fakeserver.control.scenario.model import TimelineEntry
    from fakeserver.control.scenario.places import PlacedValue
    from fakeserver.deployment.spec import ClusterSpec

_MEMBERS_MAX: Final = 50
"""The members that a replica set may come to have."""


def load(path: Path | str, *, shown: str = "", spec: ClusterSpec | None = None) -> Scenario:
    """Read, check and build a scenario file; with `spec` it is for that deployment instead of its own.

    Errors and logs call the file `shown`, by default by its path.
    Raises `ScenarioFileError`, which has every problem of the file.
    """
    return build(read(path, shown=shown), spec=spec)


def build(root: PlacedValue, *, spec: ClusterSpec | None = None) -> Scenario:
    """Check a file that was read, and build what it describes. Raises `ScenarioFileError`."""
    report = ProblemReport()
    if not mapping(root, "a scenario", report):
        report.end()
    known_keys(root, "field", settings.FIELDS, report)
    _check_version(root, report)
    own = spec_of(root, report, seed=_seed(root, report))
    spec = own if spec is None else _with_settings(spec, own)
    servers = server_names(spec)
    names = ScenarioNames.of(servers)
    data = _data(root, report)
    rules = _items(root, "rules", "a rule", lambda each: check_rule(each, names, report), report)
    faults = _items(root, "faults", "a fault", lambda each: check_fault(each, names, report), report)
    if any("addMember" in each.keys for each in _steps(root, ProblemReport())):
        added = (f"node{number}" for number in range(len(servers), _MEMBERS_MAX))
        names = ScenarioNames((*servers, *added), names.commands)
    reader = Reader(spec, names, report)
    timeline = _timeline(root, reader, report)
    report.end()
    return Scenario(
        file=root.place.file,
        description=_description(root, report),
        spec=spec,
        data=data,
        rules=rules,
        faults=faults,
        timeline=tuple(timeline),
    )


def _with_settings(spec: ClusterSpec, own: ClusterSpec) -> ClusterSpec:
    """Return another deployment with the parameters and the users of the file."""
    return replace(
        spec, parameters={**spec.parameters, **own.parameters}, users=(*spec.users, *own.users), seed=own.seed
    )


def _check_version(root: PlacedValue, report: ProblemReport) -> None:
    given = root.members.get("pushbackd")
    if given is None:
        report.add(root, f'the field pushbackd is missing; begin with `pushbackd: "{settings.VERSION}"`')
    elif str(given.value) != settings.VERSION:
        message = f'version {shown(given.value)} is not known; write "{settings.VERSION}"'
        report.add(given, message)


def _seed(root: PlacedValue, report: ProblemReport) -> int:
    given = root.members.get("seed")
    if given is None:
        return 0
    if not isinstance(given.value, int) or isinstance(given.value, bool):
        report.add(given, f"the seed is a whole number, not {shown(given.value)}")
        return 0
    return given.value


def _description(root: PlacedValue, report: ProblemReport) -> str:
    given = root.members.get("description")
    if given is None:
        return ""
    if not isinstance(given.value, str):
        report.add(given, f"the description is a text, not {shown(given.value)}")
    return " ".join(str(given.value).split())


def _data(root: PlacedValue, report: ProblemReport) -> tuple[Seed, ...]:
    given = root.members.get("data")
    if given is None or not mapping(given, "data", report):
        return ()
    data = []
    for name, marked in given.members.items():
        namespace = Namespace.parse(str(name))
        if not namespace.db or not namespace.collection:
            message = f"{name!r} is no namespace; write database.collection"
            report.add(marked, message, place=given.keys[str(name)])
        documents = sequence(marked, "the documents of a collection", report)
        plain = [each.value for each in documents if mapping(each, "a document", report)]
        data.append(Seed(str(name), plain, marked.place))
    return tuple(data)


def _items(
    root: PlacedValue, name: str, kind: str, check: Callable[[PlacedValue], None], report: ProblemReport
) -> tuple[RuleOrFault, ...]:
    given = root.members.get(name)
    if given is None:
        return ()
    items: list[RuleOrFault] = []
    taken: set[str] = set()
    for each in sequence(given, name, report):
        if not mapping(each, kind, report):
            continue
        check(each)
        own = each.members.get("name")
        if own is not None and str(own.value) in taken:
            report.add(own, f"{kind} has the name {own.value!r} already; choose another one")
        taken |= set() if own is None else {str(own.value)}
        items.append(RuleOrFault(each.value, each.place))
    return tuple(items)


def _steps(root: PlacedValue, report: ProblemReport) -> Sequence[PlacedValue]:
    given = root.members.get("timeline")
    return () if given is None else sequence(given, "the timeline", report)


def _timeline(root: PlacedValue, reader: Reader, report: ProblemReport) -> list[TimelineEntry]:
    return [entry for each in _steps(root, report) if (entry := reader.entry(each)) is not None]
