"""Outages of one server: its process ends, starts again or is paused; its network is cut off or slow.

What a client observes decides how each is modelled:

    kill        connections are reset, then nothing listens: a refused connection, at once
    shut down   quiesce mode for a while, then 11600 to what waits, then connections are closed
    pause       connections are accepted and bytes taken, nothing is answered: what a timeout is for
    cut off     silence, or resets, for clients alone; the members of the set have islands (`Member`)
    slow        every request waits before anything else happens to it

A member that ends or is paused loses its place in elections at once, where real members wait for ten seconds
of missing heartbeats: see `deployment.replication`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bson import Int64

from fakeserver.deployment.records.events import ServerChanged
from fakeserver.deployment.replication.state import Role
from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode
from mongowire.ids import object_id

if TYPE_CHECKING:
    from fakeserver.deployment.server import Server

_A_DAY: Final = 86_400.0
"""The freeze of a primary that shuts down, in seconds: it must not win the election that it causes."""
_NEVER: Final = float("-inf")
_PAUSED: Final = "paused"
_CUT_OFF: Final = "cut off"


class Outages:
    """The state of a server's process and network; the verbs of `Node` act on it."""

    def __init__(self, node: Server) -> None:
        self.shutting_down = False
        """The process is about to end in order; error labels depend on it."""
        self.resets = False
        """Connections of clients are reset."""
        self.quiesce_until: float | None = None
        """The end of quiesce mode, None outside of it."""
        self._node = node
        self._silences: set[str] = set()
        """The reasons for which nothing is answered: the server answers again when none is left."""

    @property
    def is_paused(self) -> bool:
        """Whether the process is stopped where it is."""
        return _PAUSED in self._silences

    @property
    def is_cut_off(self) -> bool:
        """Whether clients do not reach it."""
        return self.resets or _CUT_OFF in self._silences

    @property
    def quiesces(self) -> bool:
        """Whether it is in quiesce mode: hello fails, so that clients leave, and all else works."""
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
        self.halt()
        await self.gone()

    def halt(self) -> None:
        """Reset every connection, and answer nothing more: what `kill` does before it waits.

        Raises `ValueError` if it does not run.
        """
        self._check_runs()
        self._node.record(ServerChanged("killed"))
        self._halt()

    async def shut_down(self, *, quiesce: float) -> None:
        """End the process in order. Raises `ValueError` if it does not run, or is paused."""
        self._check_runs()
        # A stopped process takes no SIGTERM either: it would act on it after it was continued.
        if self.is_paused:
            raise ValueError(f"{self._node.name} is paused: it can be killed, or go on")
        node, shard = self._node, self._node.shard
        node.record(ServerChanged("shuts down", f"after {quiesce:g} s of quiesce mode" if quiesce else ""))
        self.shutting_down = True
        if shard is not None and node.is_primary and len(shard.nodes) > 1:
            shard.step_down(seconds=_A_DAY)
        # After the step-down, so that a primary has its quiesce mode as a secondary. A server without others
        # has none: its clients could go nowhere else.
        if quiesce > 0 and (node.role is Role.SECONDARY or node.is_mongos):
            until = self.quiesce_until = node.clock.now() + quiesce
            node.announce()
            await node.clock.sleep_until(until)
            # Killed meanwhile, and maybe started again.
            if self.quiesce_until != until:
                return
        interrupted = CommandError(ErrorCode.INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown")
        for connection in list(node.connections.values()):
            if connection.waiting is not None:
                connection.interrupt(connection.waiting, interrupted)
            connection.close("the server shuts down")
        self._halt()
        await self.gone()

    async def start(self) -> None:
        """Start a new process on the same port. Raises `ValueError` if one runs, `OSError` for the port."""
        node, member = self._node, self._node.member
        if not node.stopped:
            raise ValueError(f"{node.name} runs already")
        node.boot()
        spec = node.cluster.spec
        await node.listen(spec.bind_ip or spec.host, int(node.address.rpartition(":")[2]))
        node.stopped = False
        node.record(ServerChanged("started"))
        # Another process: clients discard the topologyVersion that they knew.
        member.process_id, member.counter = object_id(node.clock, node.rng), 0
        member.alive, member.frozen_until = True, _NEVER
        if member.role is Role.RECOVERING:  # maintenance mode does not outlive the process
            member.role = Role.SECONDARY
        self._settle()
        self._answer(_PAUSED)

    def pause(self) -> None:
        """Stop the process where it is. Raises `ValueError` if it does not run."""
        self._check_runs()
        self._node.record(ServerChanged("paused"))
        self._silence(_PAUSED)
        self._node.member.alive = False
        self._settle()

    def resume(self) -> None:
        """Let a paused process go on. Raises `ValueError` if it is not paused."""
        if not self.is_paused:
            raise ValueError(f"{self._node.name} is not paused")
        self._node.record(ServerChanged("resumed"))
        self._node.member.alive = True
        self._settle()
        self._answer(_PAUSED)

    def _halt(self) -> None:
        node = self._node
        self.shutting_down, self.quiesce_until = False, None
        self._silences.discard(_PAUSED)
        node.halt()
        node.member.alive = False
        self._settle()

    async def gone(self) -> None:
        """Stop listening, and return when no connection is left."""
        await self._node.stop()
        await self._node.cluster.drained([self._node])

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
        if from_clients is not self.is_cut_off:
            how = "by resets" if reset else "by silence"
            change = ("cut off from clients", how) if from_clients else ("reached by clients again", "")
            self._node.record(ServerChanged(*change))
        self.resets = from_clients and reset
        # Silence keeps connections open: a partition that heals before a timeout goes unnoticed, as in TCP.
        if self.resets:
            for connection in list(self._node.connections.values()):
                connection.abort("cut off")
        if from_clients and not reset:
            self._silence(_CUT_OFF)
        else:
            self._answer(_CUT_OFF)

    def end(self) -> bool:
        """End pauses, cuts and quiesce mode; return whether there was any."""
        if not (self.is_paused or self.is_cut_off or self.shutting_down or self.quiesces):
            return False
        self.shutting_down, self.quiesce_until = False, None
        self.resets = False
        self._node.member.alive = True
        for reason in (_CUT_OFF, _PAUSED):
            self._answer(reason)
        return True

    def slow(self, seconds: float, jitter: float = 0.0) -> None:
        """Delay every request by `seconds`, and up to `jitter` less or more; 0 ends that."""
        if seconds or self._node.slowness.delay:
            change = ("slow", f"{seconds:g} s") if seconds else ("no longer slow", "")
            self._node.record(ServerChanged(*change))
        self._node.slowness.hold(seconds, jitter, self._node.rng.spawn("slowness").random)

    def _silence(self, reason: str) -> None:
        self._silences.add(reason)
        self._node.ready = False

    def _answer(self, reason: str) -> None:
        self._silences.discard(reason)
        if not self._silences and not self._node.stopped and not self._node.ready:
            self._node.open()
