"""Verbs of data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypedDict

from fakeserver.control import data
from fakeserver.control.verbs.deployment_verbs import started
from fakeserver.control.verbs.form import Verb
from fakeserver.errors import CommandError
from fakeserver.settings.declaration import INT32_MAX
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.store.catalog import BUILT_IN
from mongowire.documents.arguments import Argument, Kind
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fakeserver.control.beginning import Beginning
    from fakeserver.control.subject import Subject
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.node import Node


Document = dict[str, Any]

_NAMESPACE: Final = Argument("namespace", Kind.TEXT, "the collection, `database.collection`")
_NAME: Final = Argument("name", Kind.TEXT, "the name of the snapshot")


class Snapshots:
    """The snapshots of a deployment by name. They are the caller's: `reset` leaves them as they are."""

    name: ClassVar[str] = "snapshots"

    def __init__(self, cluster: Cluster) -> None:
        self.kept: dict[str, data.DataSnapshot] = {}
        self._cluster = cluster

    def mark(self) -> None:
        """Do nothing: snapshots outlive a reset."""

    def reset(self) -> None:
        """Do nothing: snapshots outlive a reset."""

    def describe(self) -> Any:
        """Return the names."""
        return list(self.kept)


def _seed(subject: Subject, *, namespace: str, documents: list[Document]) -> Document:
    ns = _parsed(namespace)
    try:
        inserted = data.insert(subject.cluster, ns, documents)
    except CommandError as error:
        raise ControlError(error.message, path=("documents",)) from error
    return {"namespace": namespace, "inserted": inserted}


def _drop(subject: Subject, *, namespace: str) -> Document:
    catalog = subject.cluster.catalog
    db, dot, _ = namespace.partition(".")
    there = [each.ns for each in catalog]
    wanted = [ns for ns in there if (str(ns) == namespace if dot else ns.db == db and db not in BUILT_IN)]
    if not wanted:
        names = {str(ns) for ns in there} | {ns.db for ns in there if ns.db not in BUILT_IN}
        raise unknown("namespace", namespace, names, path=("namespace",))
    for ns in wanted:
        data.drop(subject.cluster, ns)
    return {"dropped": [str(ns) for ns in wanted]}


def _rename(subject: Subject, *, namespace: str, to: str) -> Document:
    catalog = subject.cluster.catalog
    names = {str(each.ns) for each in catalog if not each.is_view}
    if namespace not in names:
        raise unknown("namespace", namespace, names, path=("namespace",))
    try:
        data.rename(subject.cluster, _parsed(namespace), _parsed(to, "to"))
    except CommandError as error:
        raise ControlError(error.message, path=("to",)) from error
    return {"namespace": to}


def _snapshot(subject: Subject, *, name: str) -> Document:
    taken = subject.part(Snapshots).kept[name] = data.take(subject.cluster)
    return {"name": name, "collections": taken.collections, "documents": taken.documents}


def _restore(subject: Subject, *, name: str) -> Document:
    kept = subject.part(Snapshots).kept
    if name not in kept:
        raise unknown("snapshot", name, kept, path=("name",))
    data.restore(subject.cluster, kept[name])
    return {"name": name, "collections": kept[name].collections, "documents": kept[name].documents}


def _parsed(namespace: str, name: str = "namespace") -> Namespace:
    ns = Namespace.parse(namespace)
    if not ns.db or not ns.collection:
        raise ControlError(f"{namespace!r} is no namespace; write database.collection", path=(name,))
    return ns


VERBS: Final = (
    Verb(
        "seed",
        "data seed",
        (_NAMESPACE, Argument("documents", Kind.DOCUMENTS, "the documents to insert")),
        _seed,
        "Insert documents, all or none.",
        undone_by="drop",
        example='data seed shop.orders \'[{"_id": 1}, {"_id": 2}]\'',
    ),
    Verb(
        "drop",
        "data drop",
        (Argument("namespace", Kind.TEXT, "a collection, `database.collection`, or a whole database"),),
        _drop,
        "Drop a collection, or all of a database, for good unless a snapshot has it.",
        undone_by="restore",
        example="data drop shop.orders",
    ),
    Verb(
        "rename",
        "data rename",
        (_NAMESPACE, Argument("to", Kind.TEXT, "the new name, `database.collection`")),
        _rename,
        "Give a collection another name; its change streams are invalidated.",
        undone_by="rename",
        example="data rename shop.orders shop.orders_of_may",
    ),
    Verb(
        "snapshot",
        "data snapshot",
        (_NAME,),
        _snapshot,
        "Keep all data as they are now, under a name.",
        example="data snapshot before",
    ),
    Verb(
        "restore",
        "data restore",
        (_NAME,),
        _restore,
        "Bring the data of a snapshot back; requests that wait and transactions are ended.",
        example="data restore before",
    ),
)


# The verb `state`: the deployment as it is now.


LIMITS: Final = {
    "requests": ("ingressRequestRateLimiterEnabled", "ingressRequestAdmissionRatePerSec"),
    "connections": (
        "ingressConnectionEstablishmentRateLimiterEnabled",
        "ingressConnectionEstablishmentRatePerSec",
    ),
}
"""The switches of the rate limiters, and their rates a second."""


class ServerState(TypedDict):
    """One server, as `state` shows it; every field is always there."""

    name: str
    address: str
    role: str
    process: str
    """`running`, `paused` or `stopped`."""
    connections: int
    set: str | None
    """The name of its replica set, None outside of one."""
    slow: float
    """The seconds that every request takes longer."""
    lag: float
    """The seconds that it is behind."""
    frozen: float
    """The seconds for which it will not be elected."""
    island: int
    """The number of its part of a partition, 0 where there is none."""
    cutOff: bool
    """Whether no client reaches it."""
    limits: dict[str, float]
    """The rates of `requests` and `connections` a second, where they are limited."""
    tickets: dict[str, int]
    """The most operations at work at a time, `read` and `write`; empty where the server finds them itself."""
    serviceTime: dict[str, float]
    """The `seconds` of a command alone, the commands `atWork`, and their `peak`; 0 without a service time."""
    failPoints: list[str]
    """The names of those that are on."""


class DeploymentState(TypedDict):
    """A deployment, as `state` shows it; every field is always there, and empty where nothing is held."""

    topology: str
    uri: str
    servers: list[ServerState]
    rules: list[Document]
    faults: list[Document]
    shedding: Document
    """The `share` of requests that is refused, of how many `seen`, and those `refused` by code."""
    certificates: dict[str, str]
    """The certificates that are not the valid one, by server."""
    snapshots: list[str]
    timeline: list[Document]
    """The steps of a scenario, and how far each has come."""


def _state(subject: Subject) -> DeploymentState:
    cluster = subject.cluster
    now = cluster.clock.now()
    held = {name: part.describe() for name, part in subject.parts.items()}
    return {
        "topology": str(cluster.spec.topology),
        "uri": cluster.uri,
        "servers": [_server(node) for node in cluster.servers],
        "rules": cluster.rules.listed(now),
        "faults": cluster.faults.registry.documents(now),
        "shedding": held.get("shedding") or {},
        "certificates": held.get("certificates") or {},
        "snapshots": held.get("snapshots") or [],
        "timeline": held.get("timeline") or [],
    }


def _server(node: Node) -> ServerState:
    member, now, own = node.member, node.clock.now(), node.parameters
    limits = {name: own[rate] for name, (on, rate) in LIMITS.items() if own[on] and own[rate] < INT32_MAX}
    # The tickets where their number is set: a server that probes for it shows none.
    execution, service = node.admission.execution, node.admission.service
    sizes = {"read": execution.read.size, "write": execution.write.size}
    return {
        "name": node.name,
        "address": node.address,
        "role": "MONGOS" if node.is_mongos else node.role.name,
        "process": "stopped" if node.stopped else "paused" if node.outages.is_paused else "running",
        "connections": len(node.connections),
        "set": None if node.shard is None or node not in node.shard.nodes else node.shard.name,
        "slow": node.slowness.delay,
        "lag": node.position.delay,
        "frozen": max(0.0, member.frozen_until - now),
        "island": member.island,
        "cutOff": node.outages.is_cut_off,
        "limits": limits,
        "tickets": {} if node.is_mongos or not execution.is_fixed else sizes,
        # The time, the commands that take it now, and the most at a time so far.
        "serviceTime": {
            "seconds": float(own["serviceTimeBaseMillis"]) / 1000,
            "atWork": service.concurrency,
            "peak": service.peak,
        },
        "failPoints": list(node.fail_points.active),
    }


STATE_VERBS: Final = (
    Verb(
        "state",
        "state",
        (),
        _state,
        "Show the deployment: servers, roles, addresses, connections, limits, rules, faults.",
        reads=True,
        example="state",
    ),
)


# The verb `reset`, which brings the beginning of a deployment back.


_KEEP: Final = "keep"
_CLOSE: Final = "close"


def _reset(subject: Subject, *, connections: str) -> Document | Coroutine[Any, Any, Document]:
    beginning = subject.beginning
    if beginning is None:
        raise ControlError("the deployment has not started")
    for part in subject.parts.values():
        part.reset()
    if connections == _KEEP and not beginning.stopped and not beginning.added:
        beginning.bring_back()
        subject.was_reset.ring()
        return {"connections": connections}
    return _reset_slowly(subject, beginning, connections)


async def _reset_slowly(subject: Subject, beginning: Beginning, connections: str) -> Document:
    for node in beginning.stopped:
        await started(subject, node)
    beginning.bring_back()
    for node in beginning.added:
        async with subject.lock(node):
            await subject.cluster.discard(node)
    if connections == _CLOSE:
        for node in subject.cluster.servers:
            for connection in list(node.connections.values()):
                connection.close("reset")
    subject.was_reset.ring()
    return {"connections": connections}


RESET_VERBS: Final = (
    Verb(
        "reset",
        "reset",
        (
            Argument(
                "connections",
                Kind.TEXT,
                "`keep` the connections of clients, or `close` them",
                _KEEP,
                known=(_KEEP, _CLOSE),
            ),
        ),
        _reset,
        "Bring back the beginning: data, members, the first primary, settings; no rules, no faults.",
        example="reset --connections close",
    ),
)
