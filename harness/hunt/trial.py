"""One run of the command: a deployment of its own, the strikes that it is to meet, and what came of it.

The deployment runs in a thread with its own loop; everything that touches it is called there
(`server.call`), also the look at what is left, which is taken before the deployment ends. An `Outcome` holds
nothing of the deployment, so it can be judged later and in another thread. A command that is run again after
a failure goes on over the same data, and is not struck anew, as under a supervisor.
"""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from fakeserver.assembly.background import BackgroundCluster
from fakeserver.deployment.spec import ClusterSpec
from fakeserver.storage.port.engine import Query
from fakeserver.storage.port.oplog import OpTime
from harness.hunt.documents import SPARED, net_changes
from harness.hunt.faults import OUTAGE_SECONDS
from harness.hunt.wire import HuntRecord
from mongowire.system import SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Container, Mapping, Sequence

    from fakeserver.control.scenario.model import Scenario
    from fakeserver.deployment.cluster import Cluster
    from harness.hunt.documents import Contents, Field
    from harness.hunt.places import Numbers, Place, Request
    from harness.hunt.program import Ended, Programs
    from harness.hunt.wire import Strike

VARIABLE: Final = "MONGODB_URI"
NUMBER_VARIABLE: Final = "PUSHBACKD_TRIAL"
"""The number of the trial, for programs that want a port or a folder of their own."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The parts that all trials share: the deployment, the processes, and the variables besides."""

    started: ClusterSpec | Scenario
    programs: Programs
    variables: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0
    """The most times that a command that failed is run again, over the same data."""
    outage: float = OUTAGE_SECONDS
    """The seconds for which an outage lasts: to the end, where the user says by when the command must end."""


@dataclass(slots=True)
class Outcome:
    """The outcome of a trial."""

    strikes: tuple[Strike, ...]
    ended: Ended
    requests: list[Request]
    contents: Contents
    net: Counter[Field]
    """The net change of each number that updates have changed."""
    idle: float
    """Seconds between the last request or reply and the end."""
    after: float
    """Seconds between the first fault and the end."""
    open_transactions: int
    open_cursors: int
    connections: int
    unreached: list[Strike]
    restarts: int = 0
    left: float = 0.0
    """Seconds between the end and the moment when the last connection was closed; 0 if one was open."""
    size: int = 0
    """The number of its requests, also when they are forgotten."""

    @property
    def code(self) -> int | None:
        """The exit code, None for a command that was ended because it took too long."""
        return self.ended.code

    @property
    def waited(self) -> float:
        """The seconds until its work was over: a timer of a driver may keep a process that is done."""
        return max(0.0, self.ended.seconds - self.left)

    def forget(self, known: Container[Place]) -> None:
        """Drop what is not asked for after the judgement, but for requests at places that are not known."""
        self.size = len(self.requests)
        self.requests = [request for request in self.requests if request.place not in known]
        self.contents = {}
        self.ended = replace(self.ended, output="", errors="")

    @property
    def quiet(self) -> float:
        """Seconds from the last write, and the last request of a kind that was struck, to the end."""
        tried = {each.place.kind for each in self.requests if each.struck}
        busy = [each for each in self.requests if each.is_write or each.place.kind in tried]
        if not busy:
            return self.idle
        return self.idle + max(map(_over, self.requests)) - max(map(_over, busy))

    @property
    def struck(self) -> list[Request]:
        """The requests that met a fault."""
        return [request for request in self.requests if request.struck]


def run(setting: Setting, strikes: Sequence[Strike], limit: float, number: int, known: Numbers) -> Outcome:
    """Run the command once. Raises `OSError` where it cannot start, and what went wrong in the record."""
    record = recording()
    record.outage = setting.outage
    with BackgroundCluster(at_its_own(setting.started), network=record) as server:
        server.call(lambda: _begin(record, server.cluster, strikes, known))
        variables = {**setting.variables, VARIABLE: server.uri, NUMBER_VARIABLE: str(number)}
        ended, restarts = setting.programs.run(variables, limit), 0
        while strikes and ended.code and restarts < setting.restarts:
            ended, restarts = setting.programs.run(variables, limit), restarts + 1
        outcome = server.call(lambda: outcome_of(record, server.cluster, tuple(strikes), ended, restarts))
    if record.failures:
        raise record.failures[0]
    return outcome


def recording() -> HuntRecord:
    """Return a record over TCP."""
    return HuntRecord(TcpNetwork(), SystemClock(), itertools.count(1).__next__, on=True)


def _begin(record: HuntRecord, cluster: Cluster, strikes: Sequence[Strike], known: Numbers) -> None:
    record.cluster = cluster
    record.aim(strikes, known)


def outcome_of(
    record: HuntRecord, cluster: Cluster, strikes: tuple[Strike, ...], ended: Ended, restarts: int = 0
) -> Outcome:
    """Return what came of a trial, on the deployment's loop and while it runs."""
    instants = list(map(_over, record.requests))
    end = cluster.clock.now()
    struck = next((each.at for each in record.requests if each.struck), end)
    return Outcome(
        strikes,
        ended,
        list(record.requests),
        contents_of(cluster),
        net_changes(cluster.oplog.since(OpTime(0, 0, 0))),
        max(0.0, end - max(instants)) if instants else ended.seconds,
        end - struck,
        len(cluster.transactions.open),
        sum(len(node.cursors.cursors) for node in cluster.servers),
        record.connections,
        record.unreached,
        restarts,
        0.0 if record.open or not record.connections else end - record.closed_at,
    )


def _over(request: Request) -> float:
    """Return the instant of a request's reply, or its own."""
    return request.at if request.replied_at is None else request.replied_at


def contents_of(cluster: Cluster) -> Contents:
    """Return the documents of every collection of the user's."""
    engine = cluster.catalog.engine
    found: dict[str, list[dict[str, Any]]] = {}
    for collection in cluster.catalog:
        ns = collection.ns
        if not collection.is_view and ns.db not in SPARED and not ns.collection.startswith("system."):
            found[str(ns)] = [dict(each) for each in engine.find(ns, Query())]
    return found


# The address of a deployment.
#
# What is left of a run that was ended, such as a process that has left its group, goes on asking where its
# deployment was. The port is free then, and may soon be another deployment's: of the next trial, or of a hunt
# beside this one. The writes would be told as a bug of a program that never made them. A system with all of
# 127.0.0.0/8 has an address for each trial, on which nobody listens once it is over.

_SHARED: Final = "localhost"
_HAS_ALL: Final = ("linux", "win32")
"""Systems on which every address of 127.0.0.0/8 is this machine; elsewhere it is 127.0.0.1 alone."""
_EACH: Final = 254
"""The values of a byte of an address: neither 0 nor 255."""
_TRIALS: Final = 1024
"""The addresses of a process, before it begins anew; another process has others."""
_numbers: Final = itertools.count()


def at_its_own(started: ClusterSpec | Scenario) -> ClusterSpec | Scenario:
    """Return a deployment at an address that no other has; one whose address is given keeps it."""
    spec = started if isinstance(started, ClusterSpec) else started.spec
    if sys.platform not in _HAS_ALL or spec.host != _SHARED or spec.bind_ip is not None:
        return started
    if spec.tls is not None:
        return started  # its certificate names the host
    here = replace(spec, host=address(os.getpid(), next(_numbers)))
    return here if isinstance(started, ClusterSpec) else replace(started, spec=here)


def address(process: int, number: int) -> str:
    """Return the address of a process's trial."""
    rest = process * _TRIALS + number % _TRIALS
    parts = []
    for _ in range(3):
        rest, part = divmod(rest, _EACH)
        parts.append(str(part + 1))
    return ".".join(["127", *reversed(parts)])
