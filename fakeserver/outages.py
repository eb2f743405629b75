"""What happens to one server's process and network: it ends, starts again, is paused, cut off, slow."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from bson import Int64

from fakeserver.errors import CommandError
from fakeserver.pipeline import Action, Delay, Stage, Step
from fakeserver.replication import Role
from mongowire.codes import ErrorCode
from mongowire.ids import object_id

if TYPE_CHECKING:
    from fakeserver.node import Node
    from fakeserver.request import RequestContext

_A_DAY: Final = 86_400.0
_NEVER: Final = float("-inf")
_PAUSED: Final = "paused"
_CUT_OFF: Final = "cut off"


class Outages:
    """The state of a server's process and network; the verbs of `Node` act on it."""

    def __init__(self, node: Node) -> None:
        self.shutting_down = False
        """Whether it is about to end, in order."""
        self.resets = False
        """Whether connections of clients are reset."""
        self.quiesce_until: float | None = None
        self._node = node
        self._silences: set[str] = set()
        self._slowness = ExitStack()

    @property
    def quiesces(self) -> bool:
        """Whether it is in quiesce mode: hello fails, so that clients leave, and the rest works."""
        return self.quiesce_until is not None

    def check_quiesce(self, now: float) -> None:
        """Refuse a hello in quiesce mode (`SDAM: ShutdownInProgress`). Raises `CommandError` 91."""
        if self.quiesce_until is not None:
            remaining_ms = Int64(max(0.0, self.quiesce_until - now) * 1000)
            raise CommandError(
                ErrorCode.SHUTDOWN_IN_PROGRESS,
                "The server is in quiesce mode and will shut down",
                extra={"remainingQuiesceTimeMillis": remaining_ms},
            )

    # The process.

    async def kill(self) -> None:
        """End the process at once. Raises `ValueError` if it does not run."""
        self._check_runs()
        await self._end()

    async def shut_down(self, *, quiesce: float) -> None:
        """End the process in order. Raises `ValueError` if it does not run, or is paused."""
        self._check_runs()
        if _PAUSED in self._silences:
            raise ValueError(f"{self._node.name} is paused: it can be killed, or go on")
        node, shard = self._node, self._node.shard
        self.shutting_down = True
        if shard is not None and node.is_primary and len(shard.nodes) > 1:
            shard.step_down(seconds=_A_DAY)
        if quiesce > 0 and (node.role is Role.SECONDARY or node.is_mongos):
            until = self.quiesce_until = node.clock.now() + quiesce
            node.announce()
            await node.clock.sleep_until(until)
            if self.quiesce_until != until:
                return
        interrupted = CommandError(ErrorCode.INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown")
        for connection in list(node.connections.values()):
            if connection.waiting is not None:
                connection.interrupt(connection.waiting, interrupted)
            connection.close("the server shuts down")
        await self._end()

    async def start(self) -> None:
        """Start a new process on the same port. Raises `ValueError` if one runs, `OSError` for the port."""
        node, member = self._node, self._node.member
        if not node.stopped:
            raise ValueError(f"{node.name} runs already")
        node.boot()
        spec = node.cluster.spec
        await node.listen(spec.bind_ip or spec.host, int(node.address.rpartition(":")[2]))
        node.stopped = False
        member.process_id, member.counter = object_id(node.clock, node.rng), 0
        member.alive, member.frozen_until = True, _NEVER
        if member.role is Role.RECOVERING:
            member.role = Role.SECONDARY
        self._settle()
        self._answer(_PAUSED)

    def pause(self) -> None:
        """Stop the process where it is. Raises `ValueError` if it does not run."""
        self._check_runs()
        self._silence(_PAUSED)
        self._node.member.alive = False
        self._settle()

    def resume(self) -> None:
        """Let a paused process go on. Raises `ValueError` if it is not paused."""
        if _PAUSED not in self._silences:
            raise ValueError(f"{self._node.name} is not paused")
        self._node.member.alive = True
        self._settle()
        self._answer(_PAUSED)

    async def _end(self) -> None:
        node = self._node
        self.shutting_down, self.quiesce_until = False, None
        self._silences.discard(_PAUSED)
        node.halt()
        node.member.alive = False
        self._settle()
        await node.stop()
        await node.cluster.drained([node])

    def _check_runs(self) -> None:
        if self._node.stopped:
            raise ValueError(f"{self._node.name} does not run")

    def _settle(self) -> None:
        shard = self._node.shard
        if shard is not None and self._node in shard.nodes:
            shard.settle()

    # The network.

    def cut_off(self, *, from_clients: bool, reset: bool) -> None:
        """Cut it off from clients, by silence or by resets; or let them in again."""
        self.resets = from_clients and reset
        if self.resets:
            for connection in list(self._node.connections.values()):
                connection.abort("cut off")
        if from_clients and not reset:
            self._silence(_CUT_OFF)
        else:
            self._answer(_CUT_OFF)

    def slow(self, seconds: float) -> None:
        """Answer every request so many seconds later; 0 ends that."""
        self._slowness.close()
        if seconds > 0:
            self._slowness.enter_context(self._node.pipeline.installed(_Slowness(seconds)))

    def _silence(self, reason: str) -> None:
        self._silences.add(reason)
        self._node.ready = False

    def _answer(self, reason: str) -> None:
        self._silences.discard(reason)
        if not self._silences and not self._node.stopped and not self._node.ready:
            self._node.open()


class _Slowness(Stage):
    """Holds every request back, before anything else happens to it."""

    step = Step.RATE_LIMIT

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        return Delay(now + self._seconds)
