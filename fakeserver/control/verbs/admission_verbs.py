"""Verbs of admission: rate limits, tickets, service times, load shedding.

The first three set server parameters, all of them on all of the servers or none.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fakeserver.admission.ticket_sizes import ALGORITHM, FIXED, READ, WRITE
from fakeserver.control.verbs.form import Verb
from fakeserver.errors import CommandError
from fakeserver.stages.temporary import LoadShedder, Shed, SheddingParameters
from mongowire.documents.arguments import Argument, Kind
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fakeserver.control.subject import Subject
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.node import Node

Document = dict[str, Any]

_NODES: Final = Argument("nodes", Kind.SERVERS, "the servers", "all")
_OFF: Final = Argument("off", Kind.FLAG, "end it", default=False)
_REQUESTS: Final = "ingressRequest"
_CONNECTIONS: Final = "ingressConnectionEstablishment"
_MILLIS: Final = 1000.0


def _limits(
    subject: Subject,
    *,
    requests: float | None,
    requests_burst: float,
    requests_queue: int,
    connections: float | None,
    connections_burst: float,
    connections_queue: int,
    nodes: list[str],
    off: bool,
) -> Document:
    if off != (requests is None and connections is None):
        raise ControlError("limits takes either requests, connections or both, or off")
    settings: Document = {}
    if off:
        settings[f"{_REQUESTS}RateLimiterEnabled"] = False
        settings[f"{_CONNECTIONS}RateLimiterEnabled"] = False
    if requests is not None:
        settings[f"{_REQUESTS}RateLimiterEnabled"] = True
        settings |= _rate(f"{_REQUESTS}Admission", "requests", requests, requests_burst, requests_queue)
    if connections is not None:
        settings[f"{_CONNECTIONS}RateLimiterEnabled"] = True
        settings |= _rate(_CONNECTIONS, "connections", connections, connections_burst, connections_queue)
    # Empty queues are all that a release without queues has.
    unqueued = {name for name, value in settings.items() if name.endswith("MaxQueueDepth") and not value}
    return _set(subject, nodes, settings, optional=set(settings) if off else unqueued)


def _rate(prefix: str, name: str, rate: float, burst: float, queue: int) -> Document:
    if rate < 1 or not rate.is_integer():
        raise ControlError(
            f"{rate:g}/s is no whole number of at least 1 a second, as a server's parameter is", path=(name,)
        )
    if burst * rate < 1:
        raise ControlError(
            f"with a burst of {burst:g} s there is never a whole token", path=(f"{name}Burst",)
        )
    return {
        f"{prefix}RatePerSec": int(rate),
        f"{prefix}BurstCapacitySecs": burst,
        f"{prefix}MaxQueueDepth": queue,
    }


def _tickets(
    subject: Subject, *, read: int | None, write: int | None, nodes: list[str], off: bool
) -> Document:
    if off != (read is None and write is None):
        raise ControlError("tickets takes either read, write or both, or off")
    if off:
        return _as_at_first(subject, nodes, (READ, WRITE, ALGORITHM))
    counts = {name: count for name, count in ((READ, read), (WRITE, write)) if count is not None}
    # A release that does not probe for tickets has no algorithm to choose.
    return _set(subject, nodes, {**counts, ALGORITHM: FIXED}, optional={ALGORITHM})


def _service_time(
    subject: Subject,
    *,
    seconds: float,
    concurrency: int,
    factor: float,
    workers: int,
    weights: Document | None,
    nodes: list[str],
) -> Document:
    settings = {
        "serviceTimeBaseMillis": seconds * _MILLIS,
        "serviceTimeConcurrencyLimit": concurrency,
        "serviceTimeFactor": factor,
        "serviceTimeWorkers": workers,
        "serviceTimeWeights": weights or {},
    }
    return _set(subject, nodes, settings)


def _set(
    subject: Subject, nodes: Sequence[str], settings: Document, *, optional: Collection[str] = ()
) -> Document:
    """Set parameters on the servers that have them; what is asked of a server by name, it must have.

    Those that are `optional` may be missing.
    """
    chosen: dict[Node, Document] = {}
    for node in subject.nodes(nodes):
        own = {name: value for name, value in settings.items() if name in node.parameters}
        missing = [name for name in settings if name not in own and name not in optional]
        if not missing:
            chosen[node] = own
        elif list(nodes) != ["all"]:
            raise ControlError(f"{node.name} has no parameter {missing[0]}", path=("nodes",))
    if not chosen:
        release = subject.cluster.spec.profile
        raise ControlError(f"no server has the parameter {missing[0]} in release {release}")
    for node, own in chosen.items():
        try:
            node.parameters.check(own)
        except CommandError as error:
            raise ControlError(error.message) from None
    for node, own in chosen.items():
        node.parameters.set(own)
    return {"nodes": [node.name for node in chosen]}


def _as_at_first(subject: Subject, nodes: Sequence[str], names: Sequence[str]) -> Document:
    """Set parameters to what they were at the beginning."""
    reached = []
    for node in subject.nodes(nodes):
        if subject.beginning is None:
            raise ControlError("the deployment has not started")
        before = subject.beginning.parameters_of(node)
        own = {name: before[name] for name in names if name in node.parameters}
        if changed := {name: value for name, value in own.items() if node.parameters[name] != value}:
            node.parameters.set(changed)
        if own:
            reached.append(node.name)
    return {"nodes": reached}


class Shedding:
    """The load shedding of a deployment: one draw for all of its servers."""

    name: ClassVar[str] = "shedding"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stages = ExitStack()
        self._setting: tuple[SheddingParameters, int, Sequence[Node]] | None = None
        self._first: tuple[SheddingParameters, int, Sequence[Node]] | None = None
        self._shedder: LoadShedder | None = None

    def begin(self, parameters: SheddingParameters, seed: int, nodes: Sequence[Node]) -> None:
        """Shed load on some servers from now on, instead of what was shed before."""
        self.end()
        draw = self._cluster.rng.spawn(f"shedding/{seed}").random
        self._setting, self._shedder = (parameters, seed, nodes), LoadShedder(parameters, draw)
        for node in nodes:
            self._stages.enter_context(node.pipeline.installed(Shed(self._shedder)))

    def end(self) -> None:
        """Shed nothing."""
        self._stages.close()
        self._setting = self._shedder = None

    def mark(self) -> None:
        """Take what is shed now as the beginning."""
        self._first = self._setting

    def reset(self) -> None:
        """Shed what was shed at the beginning, with the same draws again."""
        if self._first is not None:
            self.begin(*self._first)
        elif self._setting is not None:
            self.end()

    def describe(self) -> Any:
        """Return the share that is shed, and what was refused."""
        shedder = self._shedder
        if shedder is None or self._cluster.clock.now() >= shedder.parameters.until:
            return None
        refused = {str(code): count for code, count in shedder.refused.items()}
        return {"share": shedder.parameters.share, "seen": shedder.seen, "refused": refused}


def _shed(
    subject: Subject,
    *,
    share: float,
    seed: int,
    codes: list[int],
    retryable: list[int],
    duration: float | None,
    nodes: list[str],
) -> Document:
    servers, shedding = subject.nodes(nodes), subject.part(Shedding)
    if not codes:
        raise ControlError("there is no code", path=("codes",))
    if not share:
        shedding.end()
        return {"share": share}
    until = math.inf if duration is None else subject.cluster.clock.now() + duration
    shedding.begin(SheddingParameters(share, codes, retryable, until), seed, servers)
    return {"share": share, "nodes": [node.name for node in servers]}


VERBS: Final = (
    Verb(
        "limits",
        "limits",
        (
            Argument("requests", Kind.RATE, "rate of requests; more are refused with code 462", None),
            Argument("requestsBurst", Kind.DURATION, "time for which unused requests are saved up", "1s"),
            Argument("requestsQueue", Kind.COUNT, "requests that may wait for their turn", 0),
            Argument("connections", Kind.RATE, "rate of new connections; more are closed", None),
            Argument("connectionsBurst", Kind.DURATION, "time for which unused ones are saved up", "1s"),
            Argument("connectionsQueue", Kind.COUNT, "connections that may wait for their turn", 0),
            _NODES,
            _OFF,
        ),
        _limits,
        "Limit the rate of requests and of new connections, on each server.",
        undone_by="limits",
        example="limits --requests 20/s --requests-queue 10",
    ),
    Verb(
        "tickets",
        "limits tickets",
        (
            Argument("read", Kind.COUNT, "reads at work at a time; more wait", None),
            Argument("write", Kind.COUNT, "writes at work at a time; more wait", None),
            _NODES,
            _OFF,
        ),
        _tickets,
        "Limit how many operations are at work at a time, on each server.",
        undone_by="tickets",
        example="limits tickets --read 8 --write 8",
    ),
    Verb(
        "serviceTime",
        "limits service-time",
        (
            Argument("seconds", Kind.SECONDS, "time of a command on an idle server; 0 ends it"),
            Argument("concurrency", Kind.COUNT, "commands at a time beyond which they take longer", 30),
            Argument("factor", Kind.NUMBER, "how many times longer with every ten more", 2.0),
            Argument("workers", Kind.COUNT, "commands wait for one of so many workers instead; 0: any", 0),
            Argument("weights", Kind.DOCUMENT, "times of commands, as multiples: `{insert: 3}`", None),
            _NODES,
        ),
        _service_time,
        "Have commands take time, and more of it the more are at work.",
        undone_by="serviceTime",
        example="limits service-time 20ms --concurrency 10",
    ),
    Verb(
        "shed",
        "limits shed",
        (
            Argument("share", Kind.SHARE, "the share of operations to refuse; 0 ends it"),
            Argument("seed", Kind.COUNT, "the seed: with the same one the same are refused", 0),
            Argument("codes", Kind.CODES, "the error codes, all as likely", [462, 463]),
            Argument("retryable", Kind.CODES, "those of them that are labelled as retryable", [462]),
            Argument("duration", Kind.DURATION, "time after which it ends, by default never", None),
            _NODES,
        ),
        _shed,
        "Refuse a share of the operations, as a service that sheds load.",
        undone_by="shed",
        example="limits shed 2% --duration 30s",
    ),
)
