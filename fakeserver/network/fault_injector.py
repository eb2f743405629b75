"""The faults of bytes of a deployment: the registry that decides, and the layers that perform.

A request may say the way of its own reply, as with MongoDB's test proxy for drivers:

    {ping: 1, proxyTest: {actions: [{sendBytes: 2}, {delayMs: 400}, {sendAll: true}]}}

`delayMs` waits, `sendBytes` sends so many bytes of the reply, `sendAll` those that are left; what no action
has sent follows at the end. The command does not see the field. Connections are left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.network.fault_effects import ConnectionEnd
from fakeserver.network.fault_layer import FaultTransport, FirstLayer, Layer, Send, Wait, reply_steps, wait_of
from fakeserver.network.fault_requests import Reached, Requests
from fakeserver.network.faults import FaultPhase
from fakeserver.network.transport import TransportAbove
from mongowire.codes import ErrorCode
from mongowire.documents import arguments
from mongowire.documents.errors import ControlError, unknown
from mongowire.framing import HEADER, HEADER_SIZE, OpCode
from mongowire.messages import MORE_TO_COME

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fakeserver.network.fault_layer import Connected, Step
    from fakeserver.network.fault_registry import FaultRegistry, Hit
    from fakeserver.network.faults import Fault


# The field `proxyTest` of a request.


FIELD: Final = "proxyTest"
_ACTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "delayMs": arguments.count,
    "sendBytes": arguments.count,
    "sendAll": arguments.flag,
}


def parse_proxy_test(value: Any) -> Callable[[bytes], Iterator[Step]]:
    """Return what makes steps of a reply. Raises `ControlError` with the path of the field."""
    if not isinstance(value, dict):
        raise ControlError("it is no document; write {actions: […]}", path=(FIELD,))
    for name in value:
        if name != "actions":
            raise unknown("field", name, ["actions"], path=(FIELD,))
    actions = value.get("actions")
    if not isinstance(actions, list):
        raise ControlError("it needs actions: a list of documents", path=(FIELD,))
    parsed = [_action(action, number) for number, action in enumerate(actions)]
    return lambda reply: _steps(reply, parsed)


def _action(action: Any, number: int) -> dict[str, Any]:
    path = (FIELD, "actions", number)
    if not isinstance(action, dict):
        raise ControlError(f"{action!r} is no document", path=path)
    parsed = {}
    for name, value in action.items():
        if name not in _ACTIONS:
            raise unknown("action", name, _ACTIONS, path=path)
        try:
            parsed[name] = _ACTIONS[name](value)
        except ControlError as error:
            raise error.within(*path, name) from None
    return parsed


def _steps(reply: bytes, actions: list[dict[str, Any]]) -> Iterator[Step]:
    for action in actions:
        if action.get("delayMs"):
            yield Wait(action["delayMs"] / 1000)
        count = len(reply) if action.get("sendAll") else action.get("sendBytes", 0)
        if count:
            yield Send(reply[:count])
            reply = reply[count:]
    yield Send(reply)


class FaultInjector:
    """The faults of bytes of a deployment. A connection has layers only where there is something to do.

    `registry` is where faults are listed and removed; `add` is here, since it concerns open connections.
    """

    def __init__(self, registry: FaultRegistry) -> None:
        self.registry = registry

    def guarded(
        self, make: Callable[[], Any], behind_tls: Callable[[Any], asyncio.Protocol] | None = None
    ) -> Callable[[], asyncio.Protocol]:
        """Return the maker of the protocol of a connection; `behind_tls` makes the layer of TLS before it."""
        secure = behind_tls is not None

        def accept() -> asyncio.Protocol:
            connection = make()
            protocol: asyncio.Protocol = connection if behind_tls is None else behind_tls(connection)
            if not self.registry.active:
                return protocol
            return FirstLayer(protocol, connection, self.registry, self.attach, secure=secure)

        return accept

    def add(self, fault: Mapping[str, Any], cluster: Any) -> Fault:
        """Add a fault to a deployment, for its open connections too. Raises `ControlError`."""
        # The words that a fault may have for a server: its name, role or address.
        given = fault.get("node")
        names = {node.name for node in cluster.servers} | {"primary"}
        names |= {node.address for node in cluster.servers if node.address == given}
        nodes = (
            names | ({"secondary"} if cluster.shards else set()) | ({"mongos"} if cluster.routers else set())
        )
        commands = {name for node in cluster.servers for name in node.commands}
        added = self.registry.add(fault, now=cluster.clock.now(), nodes=nodes, commands=commands)
        self._attach_all(cluster)
        return added

    def restore(self, faults: Sequence[Fault], cluster: Any) -> None:
        """Have these faults and no others, as if they were added just now."""
        self.registry.restore(faults, cluster.clock.now())
        for connection in _connections(cluster):
            for layer in _layers(connection.transport):
                layer.mend()
        if faults:
            self._attach_all(cluster)

    def _attach_all(self, cluster: Any) -> None:
        for connection in _connections(cluster):
            self.attach(connection)

    def attach(self, connection: Any) -> MessageLayer:
        """Put the layer of messages in front of an open connection, unless it has it; return the layer."""
        transport = connection.transport
        if isinstance(transport, FaultTransport) and isinstance(transport.layer, MessageLayer):
            return transport.layer
        layer = MessageLayer(connection, connection, self.registry, passed=connection.wire.pending)
        layer.attach()
        return layer

    def follow(self, script: Any, connection: Any, request_id: int) -> None:
        """Send the reply to a request as its field `proxyTest` says. Raises `CommandError` (BadValue)."""
        try:
            way = parse_proxy_test(script)
        except ControlError as error:
            raise CommandError(ErrorCode.BAD_VALUE, str(error)) from None
        if connection is not None:
            self.attach(connection).script(request_id, way)


def _connections(cluster: Any) -> list[Any]:
    """Return the open connections of a deployment, in the order of its servers."""
    return [connection for node in cluster.servers for connection in list(node.connections.values())]


def _layers(transport: Any) -> Iterator[Layer]:
    """Return the layers in front of a connection, from its transport on."""
    while isinstance(transport, TransportAbove):
        if isinstance(transport, FaultTransport):
            yield transport.layer
        transport = transport.below


# The layer of faults in front of a connection that knows requests and replies, in plain text.

_HTTP: Final = b"HTTP/"


class MessageLayer(Layer):
    """The layer in front of a connection that knows requests and replies."""

    def __init__(
        self, behind: asyncio.Protocol, connection: Connected, registry: FaultRegistry, *, passed: bytes
    ) -> None:
        """Make the layer; `passed` are bytes that the connection has already."""
        super().__init__(behind, connection, registry)
        self._requests = Requests(greeted=connection.state.greeted, passed=passed)
        self._commands: dict[int, str | None] = {}
        """The commands of the requests that await a reply, by request id."""
        self._owed: dict[int, list[Hit]] = {}
        """The faults that fired on a request and act on its reply."""
        self._scripts: dict[int, Callable[[bytes], Iterator[Step]]] = {}
        """The ways of replies that clients asked for themselves."""

    def attach(self) -> None:
        """Stand in front of the connection."""
        self._below = self.connection.transport
        self._below.set_protocol(self)
        self.connection.transport = FaultTransport(self._below, self)

    def script(self, request_id: int, way: Callable[[bytes], Iterator[Step]]) -> None:
        """Send the reply to a request in the steps that `way` makes of it."""
        self._scripts[request_id] = way

    # Requests.

    def _receive(self, data: bytes) -> None:
        self._requests.receive(data)

    def _advance(self) -> None:
        while not self._is_stopped():
            progress = self._requests.progress()
            if progress is None:
                self._leave_if_idle()
                return
            if isinstance(progress, Reached):
                seen = {"bytes_seen": progress.bytes_seen, "named_at": progress.named_at}
                hits = self._fires(progress.phase, command=progress.command, **seen)
                if hits:
                    self._owed.setdefault(progress.request_id, []).extend(hits)
                    self._act(hits)
                continue
            if progress.expects_reply:
                self._commands[progress.request_id] = progress.command
            else:
                self._owed.pop(progress.request_id, None)
            self.behind.data_received(progress.data)

    # Replies.

    def send(self, data: bytes) -> None:
        if self._silent or self._ended:
            return
        if data.startswith(_HTTP):
            # It answers no request.
            self._enqueue([Send(data)])
            return
        _, request_id, answers, op_code = HEADER.unpack_from(data)
        flags = data[HEADER_SIZE] if op_code == OpCode.MSG else 0
        command = self._commands.pop(answers, None)
        if flags & MORE_TO_COME:
            self._commands[request_id] = command  # the next reply of an exhaust stream answers this one
        hits = self._owed.pop(answers, [])
        hits += self._fires(FaultPhase.BEFORE_REPLY, command=command)
        hits += self._fires(FaultPhase.REPLY, command=command, bytes_seen=(-1, len(data)))
        script = self._scripts.pop(answers, None)
        if script is not None:
            self._enqueue(script(data))
        elif hits or self._steps:
            self._enqueue(reply_steps(data, hits, self._registry))
        else:
            self._below.write(data)
            self._leave_if_idle()

    def _has_sent(self) -> None:
        super()._has_sent()
        self._leave_if_idle()

    def close(self) -> None:
        if self._ended or self._silent:
            super().close()
            return
        hits = self._fires(FaultPhase.CLOSE)
        seconds = sum(wait_of(hit.effects, self._registry) for hit in hits)
        garbage = sum(hit.effects.garbage or 0 for hit in hits)
        steps: list[Step] = [Wait(seconds)] if seconds else []
        steps += [Send(self._registry.random_bytes(garbage))] if garbage else []
        steps.append(next((hit.effects.end for hit in hits if hit.effects.end), ConnectionEnd.CLOSE))
        self._enqueue(steps)

    def _leave_if_idle(self) -> None:
        """Go away when no fault is left, and nothing is under way."""
        under_way = self._steps or self._owed or self._scripts or self._holding or not self._requests.idle
        if self._registry.active or under_way or self._silent or self._ended or self._eof:
            return
        self._below.set_protocol(self.behind)
        self.connection.transport = self._below
