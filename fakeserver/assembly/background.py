"""A deployment in a thread of its own, for callers that have no event loop or must not share theirs."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, overload

from fakeserver.assembly import spec_of, start
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from types import TracebackType

    from fakeserver.control.control import DistantControl
    from fakeserver.control.scenario.model import Scenario
    from fakeserver.deployment.cluster import Cluster, Node
    from fakeserver.deployment.doors import Served
    from fakeserver.deployment.records.journal import Journal
    from fakeserver.deployment.spec import ClusterSpec
    from fakeserver.waiting.outcome import VerbOutcome
    from mongowire.ports import Network

T = TypeVar("T")

_STOPPED: Final = "the deployment has stopped"
_LOOK_SECONDS: Final = 0.5
"""The period in which a caller that waits checks that the deployment still runs."""


class BackgroundCluster:
    """Runs a deployment while its `with` block runs, or from `start` to `stop`.

    Everything here may be called from any thread. What reads and changes the deployment does so on the
    deployment's own loop, so an answer is never half of one state and half of the next. Functions that run
    there (in `call`, or as a script of the servers) may use `call` too. What waits for the loop itself
    (`run`, `stop`) raises `RuntimeError` there, and so does everything when the deployment has stopped.
    """

    def __init__(self, spec: ClusterSpec | Scenario, *, network: Network | None = None) -> None:
        """`spec` describes the deployment, or is a scenario that `load_scenario` has read.

        It is on TCP, or on a `network` over that.
        """
        self._started = spec
        self.spec = spec_of(spec)
        self._network = network
        self._rules: list[str] = []
        """The rules that `fail_command` has added, by names that are never used again."""
        self._rule_numbers = itertools.count(1)
        self._thread = threading.Thread(target=self._run, name="fakeserver", daemon=True)
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, Cluster]] = Future()

    def start(self) -> Self:
        """Start the thread and return when every server listens. Raises what starting raised."""
        if self._thread.ident is not None:
            raise RuntimeError("the deployment has been started already; make another one")
        self._thread.start()
        try:
            self._ready.result()
        except BaseException:
            self._thread.join()
            raise
        return self

    def stop(self) -> None:
        """Stop all servers and wait for the thread; stopping twice is allowed."""
        self._refuse_own_thread("stop")
        if self._thread.is_alive():
            loop, stopping, _ = self._ready.result()
            with suppress(RuntimeError):  # another thread has stopped it meanwhile, and its loop is closed
                loop.call_soon_threadsafe(stopping.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def cluster(self) -> Cluster:
        """The deployment itself; touch it in `call` only."""
        return self._running()[2]

    @property
    def uri(self) -> str:
        """The connection string."""
        return self.cluster.uri

    @property
    def nodes(self) -> Sequence[Node]:
        """The servers."""
        return self.cluster.nodes

    @property
    def primary(self) -> Node:
        """The server that takes writes. Raises `LookupError` between two terms."""
        found = self.call(lambda: next((node for node in self.nodes if node.is_primary), None))
        if found is None:
            raise LookupError("there is no primary now")
        return found

    def node(self, which: str) -> Node:
        """Return a server by its name or address, or as the "primary" or a "secondary".

        Its verbs run on the deployment's loop: `server.run(server.node("primary").kill)`, whether they wait
        or not. Raises `LookupError`.
        """
        return self.call(lambda: self.cluster.node(which))

    @property
    def journal(self) -> Journal:
        """The record of events; its `records` are a copy."""
        return self.cluster.journal

    @property
    def control(self) -> DistantControl:
        """The verbs of the deployment, each of which is over when its method returns."""
        from fakeserver.control.control import DistantControl  # noqa: PLC0415 - most tests control nothing

        return DistantControl(self._perform, self)

    def serve_ui(self, port: int = 0, token: str | None = None) -> Served:
        """Serve the verbs over HTTP and the live page, on loopback, until the deployment stops.

        `page` of what this returns is the address to open; docs/UI.md lists the routes. Raises `OSError` if
        the port is taken.
        """
        return self.run(lambda: self.cluster.serve_ui(port, token))

    def _perform(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        def perform() -> VerbOutcome:
            return self.cluster.control.perform(name, arguments)

        try:
            return perform() if self._is_own_thread else self.run(perform)
        except ControlError as error:
            # What is wrong stands in the caller's line: how it came here over the loop explains nothing.
            raise error.with_traceback(None) from None

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the deployment's loop and return its result, or raise what it raised.

        Raises `TypeError` for a function whose result must be awaited; `run` is for these.
        """
        if self._is_own_thread:
            return _result(function)
        return self._awaited(_finished(function))

    @overload
    def run(self, function: Callable[[], Awaitable[T]]) -> T: ...

    @overload
    def run(self, function: Callable[[], T]) -> T: ...

    def run(self, function: Callable[[], Awaitable[T] | T]) -> T:
        """Run a function on the deployment's loop, and return its result, awaited where that can be awaited.

        `server.run(server.cluster.step_down)`, `server.run(server.node("primary").kill)`.
        """
        self._refuse_own_thread("run")

        async def main() -> T:
            result = function()
            return await result if inspect.isawaitable(result) else result

        return self._awaited(main())

    @property
    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _refuse_own_thread(self, verb: str) -> None:
        if self._is_own_thread:
            raise RuntimeError(
                f"{verb} waits for the deployment's loop, which runs what calls it: await the deployment's"
                f" own verbs there, or use {verb} in another thread"
            )

    def _running(self) -> tuple[asyncio.AbstractEventLoop, asyncio.Event, Cluster]:
        if self._thread.ident is None:
            raise RuntimeError("the deployment is not started: use `with` or `start`")
        return self._ready.result()

    def _awaited(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the deployment's loop, and return its result."""
        try:
            loop = self._running()[0]
            done = asyncio.run_coroutine_threadsafe(main, loop)
        except BaseException:
            main.close()
            if self._thread.ident is not None and not self._thread.is_alive():
                raise RuntimeError(_STOPPED) from None
            raise
        while True:
            try:
                return done.result(_LOOK_SECONDS)
            except CancelledError:
                raise RuntimeError(_STOPPED) from None
            except TimeoutError:
                if done.done():
                    return done.result()
                if not self._thread.is_alive():
                    raise RuntimeError(_STOPPED) from None

    def fail_command(
        self,
        *commands: str,
        times: int | None = None,
        error_code: int | None = None,
        error_labels: Sequence[str] | None = None,
        close_connection: bool = False,
        block_ms: int | None = None,
        write_concern_error: Mapping[str, Any] | None = None,
        app_name: str | None = None,
        namespace: str | None = None,
        replace: bool = False,
    ) -> None:
        """Make commands fail, until they have failed `times` times or `stop_failing` is called.

        The commands wait for `block_ms`, then lose their connection, or get the error, or run and get the
        write concern error. `namespace` is a collection (`shop.orders`) or a database (`shop.*`). Several
        calls add up; `replace` removes the faults of earlier ones. They are rules (`control.add_rule`): of
        two that answer a command, the first one does. Raises `ControlError` for an unknown command or value.
        """
        when = {"command": list(commands) or None, "appName": app_name, "namespace": namespace}
        if self.spec.is_sharded:  # a mongos runs what clients send, and hands it on to shards
            when["node"] = "mongos"
        rule: dict[str, Any] = {
            "name": f"failCommand{next(self._rule_numbers)}",
            "when": {name: value for name, value in when.items() if value is not None},
            "then": _effects(block_ms, error_code, error_labels, write_concern_error, close=close_connection),
        }
        if times is not None:
            rule["times"] = times
        if replace:
            self.stop_failing()
        self._rules.append(self.control.perform("addRule", {"rule": rule})["id"])

    def stop_failing(self) -> None:
        """End the rules of `fail_command`."""
        while self._rules:
            with suppress(ValueError):  # a reset has removed it
                self.control.perform("removeRule", {"id": self._rules.pop()})

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                raise

    async def _serve(self) -> None:
        async with start(self._started, network=self._network) as cluster:
            stopping = asyncio.Event()
            self._ready.set_result((asyncio.get_running_loop(), stopping, cluster))
            await stopping.wait()


def _effects(
    block_ms: int | None,
    code: int | None,
    labels: Sequence[str] | None,
    concern: Mapping[str, Any] | None,
    *,
    close: bool,
) -> list[dict[str, Any]]:
    """Return the effects of a rule."""
    replaced = {} if labels is None else {"labels": list(labels)}
    effects: list[dict[str, Any]] = []
    if block_ms is not None:
        effects.append({"delay": f"{block_ms}ms"})
    if close:
        return [*effects, {"close": True}]
    if code is not None:
        effects.append({"error": code, **replaced})
    elif concern is not None:
        effects.append({"writeConcernError": dict(concern), **replaced})
    return effects


async def _finished(function: Callable[[], T]) -> T:
    return _result(function)


def _result(function: Callable[[], T]) -> T:
    result = function()
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        name = getattr(function, "__qualname__", "the function")
        raise TypeError(f"{name} returns an awaitable: pass it to `run`")
    return result
