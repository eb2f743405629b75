"""Verbs of the deployment: its servers, its network, its elections."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fakeserver.control.verbs.form import Applies, Verb
from fakeserver.deployment.replication.rollback import isolate
from fakeserver.deployment.spec import MemberSpec
from fakeserver.network.certificates import EXPIRED, UNTRUSTED, WRONG_HOST
from mongowire.documents.arguments import Argument, Kind
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fakeserver.control.subject import Subject
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.node import Node


Document = dict[str, Any]

_SERVER: Final = "the server, by its name, address or role"

PRIMARY: Final = Argument("node", Kind.SERVER, _SERVER, "primary")
SECONDARY: Final = Argument("node", Kind.SERVER, _SERVER, "secondary")
SERVER: Final = Argument("node", Kind.SERVER, _SERVER)


# The process of a server. What can be refused is refused at once, and connections end at once; that nothing
# listens any more, or that something listens again, takes a turn of the loop.


def _kill(subject: Subject, *, node: str) -> Coroutine[Any, Any, Document]:
    target = subject.node(node)
    target.outages.halt()
    return _killed(subject, target)


async def _killed(subject: Subject, target: Node) -> Document:
    async with subject.lock(target):
        await target.outages.gone()
    return {"node": target.name}


def _start(subject: Subject, *, node: str) -> Coroutine[Any, Any, Document]:
    target = subject.node(node)
    if not target.stopped:
        raise ControlError(f"{target.name} runs already")
    return started(subject, target)


async def started(subject: Subject, target: Node) -> Document:
    """Start a server when its last process has ended; one that runs by then is left alone."""
    async with subject.lock(target):
        if target.stopped:
            await target.start()
    return {"node": target.name}


def _restart(subject: Subject, *, node: str, down: float) -> Coroutine[Any, Any, Document]:
    target = subject.node(node)
    if not target.stopped:
        target.outages.halt()
    return _restarted(subject, target, down)


async def _restarted(subject: Subject, target: Node, down: float) -> Document:
    until = subject.cluster.clock.now() + down
    await _killed(subject, target)
    if down:
        await subject.cluster.clock.sleep_until(until)
    return await started(subject, target)


def _pause(subject: Subject, *, node: str) -> Document:
    target = subject.node(node)
    target.pause()
    return {"node": target.name}


def _resume(subject: Subject, *, node: str) -> Document:
    target = subject.node(node)
    target.resume()
    return {"node": target.name}


def _slow(subject: Subject, *, node: str, seconds: float, jitter: float) -> Document:
    target = subject.node(node)
    target.outages.slow(seconds, jitter)
    return {"node": target.name, "seconds": seconds}


def _lag(subject: Subject, *, node: str, seconds: float) -> Document:
    target = subject.node(node)
    target.lag(seconds)
    return {"node": target.name, "seconds": seconds}


# Elections.


def _freeze(subject: Subject, *, node: str, seconds: float) -> Document:
    target = subject.node(node)
    target.freeze(seconds)
    return {"node": target.name, "seconds": seconds}


def _step_down(subject: Subject, *, seconds: float, node: str) -> Document:
    target = subject.node(node)
    if target.shard is None:
        raise ControlError(f"{target.name} is no member of a replica set: it has no elections")
    if not target.is_primary:
        raise ControlError(f"{target.name} is {target.role.name}, and only a PRIMARY steps down")
    target.shard.step_down(seconds=seconds)
    thaw = target.shard.replica_set.next_thaw()
    left = 0.0 if thaw is None else thaw - subject.cluster.clock.now()
    late = {"noPrimaryFor": round(left, 3)} if left > subject.cluster.spec.election_delay else {}
    return {"node": target.name, **late}


def _elect(subject: Subject, *, node: str) -> Document:
    target = subject.node(node)
    if not target.is_primary:
        subject.cluster.elect(target)
    return {"node": target.name}


def _roll_back(subject: Subject, *, node: str, seconds: float) -> Document:
    target = subject.node(node)
    if target.shard is None:
        raise ControlError(f"{target.name} is no member of a replica set: it has nothing to roll back")
    isolate(target.shard, target, seconds)
    return {"node": target.name, "seconds": seconds}


# Members.


def _add_member(subject: Subject, **settings: Any) -> Coroutine[Any, Any, Document]:
    settings["tags"] = settings["tags"] or {}
    settings["delay"] = int(settings["delay"])
    return _added(subject, MemberSpec(**settings))


async def _added(subject: Subject, spec: MemberSpec) -> Document:
    node = await subject.cluster.add_member(spec)
    return {"node": node.name, "address": node.address}


def _remove_member(subject: Subject, *, node: str) -> Document:
    return {"node": subject.cluster.remove_member(subject.node(node)).name}


# The network.


def _partition(subject: Subject, *, groups: list[list[str]], reset: bool) -> Document:
    subject.cluster.partition(*groups, reset=reset)
    return {"groups": groups}


def _heal(subject: Subject) -> Document:
    subject.cluster.heal()
    return {}


VERBS: Final = (
    Verb(
        "kill",
        "node kill",
        (PRIMARY,),
        _kill,
        "End a server at once, as SIGKILL does.",
        undone_by="start",
        example="node kill node1",
    ),
    Verb(
        "start",
        "node start",
        (SERVER,),
        _start,
        "Start a server that was killed or shut down, on its port and with its data.",
        undone_by="kill",
        example="node start node1",
    ),
    Verb(
        "restart",
        "node restart",
        (PRIMARY, Argument("down", Kind.DURATION, "time between its end and its start", "0s")),
        _restart,
        "End a server, if it runs, and start it again on its port.",
        example="node restart node1 --down 5s",
    ),
    Verb(
        "pause",
        "node pause",
        (PRIMARY,),
        _pause,
        "Stop a server as SIGSTOP does: it takes what is sent, and answers nothing.",
        undone_by="resume",
        example="node pause node1",
    ),
    Verb(
        "resume",
        "node resume",
        (SERVER,),
        _resume,
        "Let a paused server go on, and answer what came meanwhile.",
        undone_by="pause",
        example="node resume node1",
    ),
    Verb(
        "slow",
        "node slow",
        (
            PRIMARY,
            Argument("seconds", Kind.SECONDS, "time that is added to each request; 0 ends it", "1s"),
            Argument("jitter", Kind.DURATION, "most that a request takes less or more than that", "0s"),
        ),
        _slow,
        "Delay every request to a server.",
        undone_by="slow",
        example="node slow node1 --seconds 200ms",
    ),
    Verb(
        "lag",
        "node lag",
        (
            SECONDARY,
            Argument("seconds", Kind.SECONDS, "time by which it is behind; 0 catches up", "10s"),
        ),
        _lag,
        "Have a secondary apply the primary's writes later.",
        applies=Applies.SETS,
        undone_by="lag",
        example="node lag node2 --seconds 10s",
    ),
    Verb(
        "freeze",
        "node freeze",
        (
            SECONDARY,
            Argument("seconds", Kind.SECONDS, "time for which it seeks no election; 0 ends it", "60s"),
        ),
        _freeze,
        "Keep a member from seeking election.",
        applies=Applies.SETS,
        undone_by="freeze",
        example="node freeze node2 --seconds 60s",
    ),
    Verb(
        "stepDown",
        "node step-down",
        (
            Argument("seconds", Kind.SECONDS, "time for which the old primary seeks no election", "60s"),
            Argument("node", Kind.SERVER, "the primary; of several shards, of which one", "primary"),
        ),
        _step_down,
        "Make the primary a secondary; another member is elected.",
        applies=Applies.SETS,
        undone_by="elect",
        example="node step-down --seconds 10s",
    ),
    Verb(
        "elect",
        "node elect",
        (SERVER,),
        _elect,
        "Make a member the primary of a new term.",
        applies=Applies.SETS,
        example="node elect node1",
    ),
    Verb(
        "rollBack",
        "node roll-back",
        (
            PRIMARY,
            Argument("seconds", Kind.SECONDS, "time for which what it writes reaches no other member", "1s"),
        ),
        _roll_back,
        "Leave the primary with its clients alone; what it writes then is rolled back.",
        applies=Applies.REPLICA_SET,
        undone_by="heal",
        example="node roll-back --seconds 2s",
    ),
    Verb(
        "addMember",
        "node add-member",
        (
            Argument("priority", Kind.NUMBER, "its priority in elections, by default 1", None),
            Argument("votes", Kind.COUNT, "its votes: 0 or 1", 1),
            Argument("hidden", Kind.FLAG, "clients do not see it", default=False),
            Argument("arbiter", Kind.FLAG, "it votes, and holds no data", default=False),
            Argument("tags", Kind.DOCUMENT, "its tags", None),
            Argument("delay", Kind.DURATION, "time by which it follows on purpose, in whole seconds", "0s"),
        ),
        _add_member,
        "Start another server, and make it a member of the replica set.",
        applies=Applies.REPLICA_SET,
        undone_by="removeMember",
        example="node add-member --priority 0 --hidden",
    ),
    Verb(
        "removeMember",
        "node remove-member",
        (SERVER,),
        _remove_member,
        "Remove a member from its replica set; it runs on, as REMOVED.",
        applies=Applies.SETS,
        undone_by="reset",
        example="node remove-member node2",
    ),
    Verb(
        "partition",
        "network partition",
        (
            Argument("groups", Kind.GROUPS, "the servers that reach one another, `clients` among them"),
            Argument(
                "reset", Kind.FLAG, "clients that are cut off are reset, not left waiting", default=False
            ),
        ),
        _partition,
        "Divide the network; servers that no group names are one more group.",
        undone_by="heal",
        example="network partition node0,clients node1,node2",
    ),
    Verb("heal", "network heal", (), _heal, "End the partition.", example="network heal"),
)


# Verbs of TLS: the certificate that servers show.


_VALID: Final = "valid"
_FILES: Final = {"expired": EXPIRED, "wrongHost": WRONG_HOST, "untrusted": UNTRUSTED}


class ShownCertificates:
    """The certificates that servers show instead of the valid one, by the server's name."""

    name: ClassVar[str] = "certificates"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._shown: dict[str, str] = {}
        self._first: dict[str, str] = {}

    def show(self, node: Node, which: str) -> None:
        """Have a server show another certificate to the connections to come."""
        file = _file_of(self._cluster, which)
        for context in node.tls_contexts:
            context.load_cert_chain(file)
        self._shown[node.name] = which
        if which == _VALID:
            del self._shown[node.name]

    def mark(self) -> None:
        """Take the certificates of now as the beginning."""
        self._first = dict(self._shown)

    def reset(self) -> None:
        """Show the certificates of the beginning."""
        for node in self._cluster.servers:
            if self._shown.get(node.name) != self._first.get(node.name):
                self.show(node, self._first.get(node.name, _VALID))

    def describe(self) -> Any:
        """Return the certificates that are not the valid one."""
        return dict(self._shown)


def _certificate(subject: Subject, *, which: str, nodes: list[str]) -> dict[str, Any]:
    servers, file = subject.nodes(nodes), _file_of(subject.cluster, which)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file)
    except OSError as error:
        cure = "`pushbackd certs FOLDER` makes one beside server.pem"
        raise ControlError(f"{file} cannot be used: {error.strerror}; {cure}", path=("which",)) from None
    for node in servers:
        subject.part(ShownCertificates).show(node, which)
    return {"which": which, "nodes": [node.name for node in servers]}


def _file_of(cluster: Cluster, which: str) -> Path:
    tls = cluster.spec.tls
    if tls is None or tls.mode == "disabled":
        raise ControlError("this deployment has no TLS")
    valid = Path(tls.certificate_key_file)
    return valid if which == _VALID else valid.with_name(_FILES[which])


TLS_VERBS: Final = (
    Verb(
        "certificate",
        "network certificate",
        (
            Argument("which", Kind.TEXT, "the certificate: what clients find wrong", known=(_VALID, *_FILES)),
            Argument("nodes", Kind.SERVERS, "the servers", "all"),
        ),
        _certificate,
        "Have servers show another certificate; open connections go on.",
        undone_by="certificate",
        example="network certificate expired",
    ),
)
