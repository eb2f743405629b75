"""`expectMetrics`: what serverStatus counts, before the operations of a case and after them.

Two snapshots are taken by the deployment's own client, on every kind of deployment, also of real servers.
Between them lie the operations and nothing else of the runner's, so a counter of one kind of thing
(`opcounters.insert`) has changed by what the driver did. Counters of everything (`network.numRequests`) have
the commands of monitors and of the snapshots themselves in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.unified.errors import ScenarioError
from harness.unified.matching.matcher import Mismatch, match, missing
from harness.unified.model import UNSET
from harness.unified.outcome import CaseFailedError
from harness.unified.server_side.comparison import SectionComparison, SectionRow, as_text
from harness.unified.server_side.seen import StatusSnapshot
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.adapters.deployment import Deployment
    from harness.unified.matching.matcher import Entities
    from harness.unified.operations.spec import Context
    from harness.unified.server_side.model import ExpectedMetric

PRIMARY: Final = "primary"
EACH: Final = "each"
ANY: Final = "any"


async def begin_metrics(context: Context, expected: Sequence[ExpectedMetric]) -> None:
    """Take the snapshot before the operations, if anything is expected of it."""
    if expected:
        context.seen.before = await snapshot(context.deployment, expected)


async def end_metrics(context: Context, expected: Sequence[ExpectedMetric]) -> None:
    """Take the snapshot after the operations."""
    if context.seen.before is not None:
        primary = context.seen.before.primary
        context.seen.after = await snapshot(context.deployment, expected, primary=primary)


def check_metrics(context: Context, expected: Sequence[ExpectedMetric]) -> None:
    """Judge the section. Raises `CaseFailedError` for the first metric that is not as expected.

    Does nothing without snapshots, which are taken only for a case that expects a metric.
    """
    before, after = context.seen.before, context.seen.after
    if before is None or after is None:
        return
    wrong = judge_metrics(expected, before, after, context.entities)
    if wrong is not None:
        context.comparisons.append(MetricComparison(wrong))
        raise CaseFailedError(wrong.reason, location=wrong.expected.location, mismatch=wrong.mismatch)


@dataclass(frozen=True, slots=True)
class MetricReading:
    """A metric of one server, before and after; `missing` where the server does not have it."""

    server: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.server}: {_text(self.before)} -> {_text(self.after)}"


@dataclass(frozen=True, slots=True)
class WrongMetric:
    """The first metric that is not as expected: why, where it stands, and what each server counted."""

    reason: str
    mismatch: Mismatch
    expected: ExpectedMetric
    readings: tuple[MetricReading, ...]


@dataclass(frozen=True)
class MetricComparison(SectionComparison):
    """The counts of each server beside what is expected of it, for a reader of a failure."""

    found: WrongMetric
    section = "metrics"

    @property
    def name(self) -> str:
        """The document that has the metric."""
        return "serverStatus"

    def rows(self) -> Iterator[SectionRow]:
        """Yield what is expected, then each server's count before and after."""
        mismatch, line = self.found.mismatch, self.found.expected.location.line
        yield SectionRow(
            "differs",
            f"{self.found.expected.path}: {mismatch.path} {as_text(mismatch.expected)}",
            as_text(mismatch.actual),
            line,
        )
        for reading in self.found.readings:
            yield SectionRow("same", str(reading), str(reading))


async def snapshot(
    deployment: Deployment, expected: Iterable[ExpectedMetric], *, primary: str | None = None
) -> StatusSnapshot:
    """Read serverStatus of the servers that are expected to have counted something.

    `primary` is the name of the server that counts as the primary, by default the one that is. Raises
    `ScenarioError` for a name that no server has, and when a server refuses.
    """
    # Names are by the order of the addresses, as scenarios for servers give them.
    servers = dict(zip(server_names(deployment), deployment.addresses, strict=True))
    if not primary:
        # The first server where there is none, or no replica set.
        # Asked once, before the operations: after an election the same server is read again, or a change
        # would be the difference of two servers.
        reply = await deployment.admin("admin", {"isMaster": 1})  # `hello` is not in releases before 4.4.2
        named = (name for name, address in servers.items() if address == reply.get("primary"))
        primary = next(named, next(iter(servers)))
    replies = {}
    for name in dict.fromkeys(name for each in expected for name in _concerned(each, servers, primary)):
        reply = await deployment.admin("admin", {"serverStatus": 1}, address=servers[name])
        if not reply.get("ok"):
            raise ScenarioError(f"{name} refused serverStatus: {reply.get('errmsg')}")
        replies[name] = reply
    return StatusSnapshot(primary, replies)


def server_names(deployment: Deployment) -> list[str]:
    """Return the names of the servers: `node0` … of a replica set or a server alone, or `mongos0` …."""
    kind = "mongos" if deployment.topology.has_mongos else "node"
    return [f"{kind}{index}" for index in range(len(deployment.addresses))]


def _concerned(expected: ExpectedMetric, servers: Iterable[str], primary: str) -> Sequence[str]:
    """Return the names of the servers that an expectation is about."""
    if expected.on in (None, PRIMARY):
        return [primary]
    if expected.on in (EACH, ANY):
        return list(servers)
    if expected.on not in servers:
        raise ScenarioError(
            f"there is no server {expected.on!r} here",
            location=expected.location,
            fix=f"one of {PRIMARY}, {EACH}, {ANY}, {', '.join(servers)}",
        )
    return [expected.on]


def judge_metrics(
    expected: Sequence[ExpectedMetric], before: StatusSnapshot, after: StatusSnapshot, entities: Entities
) -> WrongMetric | None:
    """Return the first metric that is not as expected, or None.

    Raises `ScenarioError` for a `change` of something that is no number.
    """
    for each in expected:
        readings = tuple(
            MetricReading(name, _at(before.replies[name], each.path), _at(after.replies[name], each.path))
            for name in _concerned(each, after.replies, after.primary)
        )
        found = [_judge(each, reading, after.replies[reading.server], entities) for reading in readings]
        wrong = next((one for one in found if one is not None), None)
        if wrong is not None and (each.on != ANY or None not in found):
            reason, mismatch = wrong
            if each.on == ANY and len(readings) > 1:
                reason = f"{each.path} is as expected on no server: {'; '.join(map(str, readings))}"
            return WrongMetric(reason, mismatch, each, readings)
    return None


def _judge(
    expected: ExpectedMetric, reading: MetricReading, reply: Mapping[str, Any], entities: Entities
) -> tuple[str, Mismatch] | None:
    name = f"{expected.path} of {reading.server}"
    if expected.change is not None:
        if reading.after is missing:
            why = f"{reading.server} has no {expected.path}{_hint(reply, expected.path)}"
            return why, Mismatch("change", str(expected.change), missing, "is missing")
        change = _number(reading.after, name) - _number(reading.before, name)
        if change not in expected.change:
            why = f"expected {expected.change}, it changed by {change:+g}"
            mismatch = Mismatch("change", str(expected.change), change, why)
            return (
                f"{name} changed by {change:+g} during the operations"
                f" ({_text(reading.before)} -> {_text(reading.after)}), expected {expected.change}"
            ), mismatch
    if expected.value is UNSET:
        return None
    found = match(expected.value, reading.after, entities=entities)
    if found is None:
        return None
    hint = _hint(reply, expected.path) if reading.after is missing else ""
    return f"{name} is not as expected at the end: {found}{hint}", found.below("value")


def _number(value: Any, name: str) -> float:
    """Return a number; a metric that was not there before has counted from 0."""
    if value is missing:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ScenarioError(f"{name} is no number: {value!r}", fix="use value, which compares anything")
    return value


def _at(document: Any, path: str) -> Any:
    """Return the value at a path with dots."""
    for name in path.split("."):
        if not isinstance(document, dict) or name not in document:
            return missing
        document = document[name]
    return document


def _hint(document: Mapping[str, Any], path: str) -> str:
    """Return the name that was meant where a path first leaves the document, or nothing.

    Looked up in the reply itself: which metrics there are depends on the release of the server.
    """
    inside: Any = document
    for name in path.split("."):
        if not isinstance(inside, dict):
            return ""
        if name not in inside:
            hint = did_you_mean(name, map(str, inside))
            return f" ({hint})" if hint else ""
        inside = inside[name]
    return ""


def _text(value: Any) -> str:
    return "missing" if value is missing else f"{value}"
