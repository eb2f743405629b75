"""`cmd:` a foreign driver in a process of its own, which speaks JSON lines, behind the runner.

Handles are the ids of the requests that created them. A process serves one case after the other, and is
replaced when it was lost.

A `CommandAdapter` lives for one case and never closes its process: `aclose` only asks the driver to close
what the case has left. It takes over the `said` and `clock` of the `Child` when it is made, so events that
come after the next adapter was made reach that one, which knows no such client and drops them.

A transaction's callback crosses the pipe twice: the process says that the driver runs it, its operations go
out as ordinary requests, and `return` ends it. The error of such an operation keeps its request's number
(`_RequestFailed`), by which the process finds the very exception that the driver has to see.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from harness.adapters import lines
from harness.adapters.base import AdapterLost, Event, OperationFailed, UnsupportedOperation
from harness.adapters.child import CLOSE_SECONDS, Child

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from harness.adapters.base import (
        ClientSpec,
        EntityKind,
        ErrorReport,
        Feature,
        Handle,
        Invocation,
        PoolSpec,
        SessionState,
        TopologyReport,
    )
    from harness.adapters.lines import AdapterDialogue
    from mongowire.ports import Clock


class _RequestFailed(OperationFailed):
    """A failure, and the request by which the process knows the driver's own error."""

    def __init__(self, report: ErrorReport, number: int) -> None:
        super().__init__(report)
        self.number = number


class Children:
    """The processes of one event loop: one for each command, which adapters have one after the other."""

    def __init__(self, *, call_seconds: float) -> None:
        self._call_seconds = call_seconds
        self._running: dict[str, Child] = {}

    async def adapter(
        self, command: str, clock: Clock, dialogue: AdapterDialogue | None = None
    ) -> CommandAdapter:
        """Return a new adapter over the command's process, which is started if need be.

        `dialogue` hears what is said to it and by it from then on. Raises `AdapterLost` when it does not
        introduce itself.
        """
        child = self._running.get(command)
        if child is not None and child.lost is not None:
            await self._running.pop(command).aclose()
            child = None
        if child is None:
            child = self._running[command] = await Child.start(command)
        child.dialogue = dialogue
        return CommandAdapter(child, clock, call_seconds=self._call_seconds)

    def __len__(self) -> int:
        """Return how many processes run."""
        return len(self._running)

    async def aclose(self) -> None:
        """End all processes."""
        while self._running:
            _, child = self._running.popitem()
            await child.aclose()


class CommandAdapter:
    """Drives whatever a process drives. `call_seconds` is how long it may take to answer."""

    def __init__(self, child: Child, clock: Clock, *, call_seconds: float) -> None:
        self._child = child
        self._call_seconds = call_seconds
        self._events: dict[int, list[Event]] = {}
        self._callbacks: dict[int, Callable[[], Awaitable[Any]]] = {}
        self._returning: dict[int, asyncio.Task[None]] = {}
        self._raised: dict[int, Exception] = {}
        self._closed = False
        child.said, child.clock = self._hear, clock

    @property
    def name(self) -> str:
        """The name by which the process has introduced itself."""
        return self._child.hello.name

    @property
    def features(self) -> frozenset[Feature]:
        """The features that the process has declared."""
        return self._child.hello.features

    async def create_client(self, spec: ClientSpec) -> Handle:
        """Create a client; what it observes comes by itself."""
        number = self._child.number()
        self._events[number] = []
        params: dict[str, Any] = {
            "uri": spec.uri,
            "options": spec.options,
            "observeEvents": sorted(spec.observe_events),
            "observeLogs": sorted(spec.observe_logs),
            "observeSpans": spec.observe_spans,
            "serverApi": spec.server_api,
        }
        if spec.auto_encryption is not None:  # only drivers that have declared it are ever asked for it
            params["autoEncryptOpts"] = spec.auto_encryption
        jitter = {"jitter": spec.jitter, "jitterSeed": spec.jitter_seed}
        params |= {name: value for name, value in jitter.items() if value is not None}
        return await self._made("client", number=number, params=params)

    async def create_pool(self, spec: PoolSpec) -> Handle:
        """Create a connection pool; what it observes comes by itself."""
        number = self._child.number()
        self._events[number] = []
        seconds = spec.background_seconds
        params = {
            "uri": spec.uri,
            "options": spec.options,
            "backgroundThreadIntervalMS": None if seconds is None else round(seconds * 1000),
        }
        return await self._made("pool", number=number, params=params)

    async def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        """Create an entity below `parent`."""
        return await self._made("create", on=parent, params={"kind": kind.value, "spec": spec})

    async def call(self, invocation: Invocation[Handle]) -> Any:
        """Run an operation. A callback stays here: the process says when the driver runs it."""
        arguments, number = dict(invocation.arguments), self._child.number()
        if "callback" in arguments:
            self._callbacks[number] = arguments["callback"]
            arguments["callback"] = True
        params = {
            "kind": invocation.kind.value,
            "operation": invocation.operation,
            "arguments": arguments,
        }
        try:
            result = await self._ask("call", number=number, on=invocation.target, params=params)
        except OperationFailed:
            if number not in self._raised:
                raise
        finally:
            self._callbacks.pop(number, None)
            if number in self._returning:
                self._returning.pop(number).cancel()
        if number in self._raised:
            raise self._raised.pop(number)
        return result

    def events(self, client: Handle) -> Sequence[Event]:
        """Return all that the client has observed so far, oldest first."""
        return self._events[client]

    async def session_state(self, session: Handle) -> SessionState:
        """Return the state of a session."""
        state: SessionState = self._child.understood(
            lines.session_state, await self._ask("session", on=session)
        )
        return state

    async def advance_cluster_time(self, session: Handle, cluster_time: Mapping[str, Any]) -> None:
        """Advance a session's cluster time."""
        await self._ask("advanceClusterTime", on=session, params={"clusterTime": cluster_time})

    async def topology(self, client: Handle) -> TopologyReport:
        """Return the client's current view of the deployment."""
        report: TopologyReport = self._child.understood(
            lines.topology, await self._ask("topology", on=client)
        )
        return report

    async def retry_tokens(self, client: Handle) -> float | None:
        """Return the tokens in a client's retry token bucket, None where it has no bucket."""
        tokens: float | None = self._child.understood(
            lines.retry_tokens, await self._ask("retryTokens", on=client)
        )
        return tokens

    async def close_client(self, client: Handle) -> None:
        """Close one client; closing twice is allowed."""
        if not self._closed:
            await self._ask("closeClient", on=client)

    async def aclose(self) -> None:
        """Close all that is open. A process that cannot do so in time is lost, which is no error here."""
        if self._closed:
            return
        self._closed = True
        for task in self._returning.values():
            task.cancel()
        try:
            await self._child.ask(self._child.number(), "close", within=CLOSE_SECONDS)
        except AdapterLost:
            pass
        except BaseException:
            self._child.lose("the adapter was interrupted while it closed its clients")
            raise

    async def _made(self, method: str, **request: Any) -> Handle:
        """Ask for an entity, and return its handle."""
        answer = await self._answer(method, **request)
        if not answer.entity:
            raise self._child.lose(f"the adapter answered {method} without an entity")
        return answer.id

    async def _ask(self, method: str, **request: Any) -> Any:
        """Return the result of a request, or the handle of what it created."""
        answer = await self._answer(method, **request)
        return answer.id if answer.entity else answer.result

    async def _answer(
        self,
        method: str,
        *,
        number: int | None = None,
        on: int | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> lines.Answer:
        number = self._child.number() if number is None else number
        answer = await self._child.ask(number, method, within=self._call_seconds, on=on, params=params)
        if answer.error is not None:
            raise _RequestFailed(answer.error, number)
        if answer.unsupported is not None:
            raise UnsupportedOperation(f"{self.name}: {answer.unsupported}")
        return answer

    def _hear(self, said: lines.Message, at: float) -> None:
        if isinstance(said, lines.Observed):
            # What an earlier case's client says late concerns nobody.
            observed = self._events.get(said.client, [])
            observed.append(Event(said.kind, said.fields, at))
        elif isinstance(said, lines.CallbackDue) and said.call in self._callbacks:
            run = self._callbacks[said.call]
            self._returning[said.call] = asyncio.create_task(self._call_back(said.call, run))

    async def _call_back(self, call: int, run: Callable[[], Awaitable[Any]]) -> None:
        """Run a callback and say how it went: `error` is the request that failed, or 0 when none did."""
        params: dict[str, Any] = {}
        try:
            await run()
        except _RequestFailed as failed:
            params["error"] = failed.number
        except Exception as error:  # noqa: BLE001 - it is raised again where the callback was given
            self._raised[call] = error
            params["error"] = 0
        try:
            await self._ask("return", on=call, params=params)
        except (AdapterLost, OperationFailed, UnsupportedOperation) as error:
            self._raised[call] = error
