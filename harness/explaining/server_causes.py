"""Likely causes where servers saw other connections or counted something else than expected.

Each is a sentence that is yielded only when the connections or the counts prove it.

Called last of all finders (`causes`). `WrongConnections` has the mismatch and the connections that show it; a
pool is told by the client's `appName` and the server, since nothing on the wire names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import EntityKind
from harness.explaining.seen_case import Cause
from harness.unified.matching.matcher import missing
from harness.unified.model import nested
from harness.unified.server_side.connection_judge import NOBODY, ConnectionComparison
from harness.unified.server_side.metrics import MetricComparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.explaining.causes import Evidence
    from harness.unified.model import Case
    from harness.unified.server_side.connection_judge import ConnectionLife, WrongConnections

_AVAILABLE_SECONDS: Final = 0.01
"""How long a connection must have had no request to be called idle: an operation may hold it a little."""

_LIMITS: Final = {"maxConnecting": 2, "maxPoolSize": 100}
"""Options of a pool and their defaults (CMAP: Connection Pool Options)."""


def server_side_causes(evidence: Evidence) -> Iterator[Cause]:
    """Yield the likely causes of a failure of `expectConnections` or `expectMetrics`."""
    for comparison in evidence.outcome.comparisons:
        if isinstance(comparison, ConnectionComparison):
            for find in _OF_CONNECTIONS:
                yield from find(comparison.found, evidence.case)
        elif isinstance(comparison, MetricComparison):
            found = comparison.found
            without = [reading.server for reading in found.readings if reading.after is missing]
            if without:
                yield Cause(
                    "a metric that the release lacks",
                    f"serverStatus of {', '.join(without)} has no {found.expected.path}: releases differ in"
                    " their metrics (runOn.profile limits a case to some)",
                )


def _too_many_at_once(found: WrongConnections, case: Case) -> Iterator[Cause]:
    for field, option, verb, rule in (
        ("atOnce", "maxConnecting", "establishes", "CMAP-39"),
        ("open", "maxPoolSize", "has", "CMAP-38"),
    ):
        shown = found.wrong.shown_by
        if found.wrong.mismatch.path != field or len({_pool(each) for each in shown}) != 1:
            continue
        limit = _option(case, shown[0].seen.app_name, option, _LIMITS[option])
        if limit and len(shown) > limit:
            yield Cause(
                f"{option} not obeyed",
                f"the pool of {shown[0].seen.server} {verb} {len(shown)} connections at the same time:"
                f" it does not obey {option}, which is {limit} (CMAP: Connection Pool)",
                (rule,),
            )


def _pool(connection: ConnectionLife) -> tuple[str | None, str]:
    return connection.seen.app_name, connection.seen.server


def _not_reused(found: WrongConnections, _case: Case) -> Iterator[Cause]:
    """Find a connection that was made while another one of the pool was idle, and is used again later."""
    if found.wrong.mismatch.path not in ("established", "connections", "open"):
        return
    for later in found.connections:
        at = later.seen.accepted
        for earlier in found.connections:
            if _pool(earlier) == _pool(later) and _is_idle(earlier, at) and _is_used_after(earlier, at):
                yield Cause(
                    "idle connections not reused",
                    f"{later.name} was established while {earlier.name} was idle: available connections come"
                    " first (CMAP: Checking Out a Connection)",
                    ("CMAP-59",),
                )
                return


def _stale(found: WrongConnections, _case: Case) -> Iterator[Cause]:
    """Find a connection that is used though one of its pool has broken since it was made: it is stale."""
    for broken in found.connections:
        ends = [request.ended for request in broken.seen.requests if request.end == "server"]
        # The first end counts: a pool is cleared when it learns of that, and everything older is stale from
        # then on.
        for other in found.connections if ends else ():
            is_older = _pool(other) == _pool(broken) and other.seen.accepted < ends[0]
            if other is not broken and is_older and _is_used_after(other, ends[0]):
                yield stale_connection(other, broken)
                return


def stale_connection(used: ConnectionLife, broken: ConnectionLife) -> Cause:
    """Return the cause of a connection that was used although another one of its pool had broken."""
    return Cause(
        "a connection used across a clear",
        f"{used.name} was used after {broken.name} of the same pool had broken: the pool was not"
        " cleared, or a stale connection was lent (CMAP: Clearing a Connection Pool)",
        ("CMAP-78", "CMAP-155"),
    )


def _is_idle(connection: ConnectionLife, at: float) -> bool:
    """Return whether all that a connection was asked before an instant was answered well before it."""
    asked = [request for request in connection.seen.requests if request.at < at]
    return bool(asked) and all(request.ended < at - _AVAILABLE_SECONDS for request in asked)


def _is_used_after(connection: ConnectionLife, at: float) -> bool:
    return any(request.at > at for request in connection.seen.requests)


def _left_open(found: WrongConnections, case: Case) -> Iterator[Cause]:
    path = found.wrong.mismatch.path
    left = [each for each in found.wrong.shown_by if each.closed_by == NOBODY]
    if not left or not (path == "openAtEnd" or path.endswith("closedBy")):
        return
    names = {spec.id: spec.body.get("uriOptions", {}).get("appName") for spec in case.entities}
    closed = {
        names.get(operation.object) for operation in nested(case.operations) if operation.name == "close"
    }
    # Of a client that is still open at the end, open connections are no mistake.
    if {each.seen.app_name for each in left} <= closed:
        whose = "monitors" if left[0].is_monitoring else "pools"
        section = "Server Monitoring" if left[0].is_monitoring else "CMAP: Closing a Connection Pool"
        text = f"the client was closed, and connections of its {whose} stayed open ({section})"
        yield Cause("connections left open", text, () if left[0].is_monitoring else ("CMAP-42", "CMAP-43"))


def _handshake(found: WrongConnections, _case: Case) -> Iterator[Cause]:
    mismatch = found.wrong.mismatch
    if not mismatch.path.endswith("hello.backpressure"):
        return
    if mismatch.actual is missing:
        text = "the handshake does not declare backpressure (Client Backpressure: Handshake changes)"
        yield Cause("handshake without backpressure", text, ("CB-18",))
    else:
        yield Cause(
            "handshake with another backpressure",
            f"the handshake declares backpressure as {mismatch.actual!r}, and the edition's value is"
            f" {mismatch.expected!r} (Client Backpressure: Handshake changes)",
            ("CB-18",),
        )


def _too_idle(found: WrongConnections, case: Case) -> Iterator[Cause]:
    if found.wrong.mismatch.path not in ("idle", "established"):
        return
    for each in found.connections:
        limit = _option(case, each.seen.app_name, "maxIdleTimeMS", 0)
        if limit and each.idle * 1000 > limit:
            yield Cause(
                "maxIdleTimeMS not obeyed",
                f"{each.name} was idle for {each.idle * 1000:.0f} ms and used again: maxIdleTimeMS is {limit}"
                " (CMAP: Connection)",
                ("CMAP-60", "CMAP-154"),
            )
            return


def _closed_after_use(found: WrongConnections, _case: Case) -> Iterator[Cause]:
    """Find connections of one pool that the client closes after one command each."""
    single = [
        each
        for each in found.connections
        if each.closed_by == "client" and len(each.commands) == _HELLO_AND_ONE
    ]
    if len(single) > 1 and len(single) >= len(found.connections) - 1:
        text = "the driver closes a connection after each operation (CMAP: Checking In a Connection)"
        yield Cause("connections not pooled", text, ("CMAP-1", "CMAP-160"))


_HELLO_AND_ONE: Final = 2

_OF_CONNECTIONS: Final[Sequence[Callable[[WrongConnections, Case], Iterator[Cause]]]] = (
    _too_many_at_once,
    _stale,
    _too_idle,
    _left_open,
    _handshake,
    _closed_after_use,
    _not_reused,
)


def _option(case: Case, app_name: str | None, option: str, default: int) -> int:
    """Return an option of the connection string of the client with an application name."""
    for spec in case.entities:
        options: Mapping[str, Any] = spec.body.get("uriOptions", {})
        if spec.kind is EntityKind.CLIENT and options.get("appName") == app_name:
            return int(options.get(option, default))
    return default
