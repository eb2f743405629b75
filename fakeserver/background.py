"""A deployment in a thread of its own, for callers that have no event loop or must not share theirs."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, overload

import fakeserver
from fakeserver.failpoints import FAIL_COMMAND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from types import TracebackType

    from fakeserver.cluster import Cluster, Node
    from fakeserver.journal import Journal
    from fakeserver.spec import ClusterSpec

T = TypeVar("T")

_STOPPED: Final = "the deployment has stopped"
_LOOK_SECONDS: Final = 0.5
"""How long a caller waits before it looks whether the deployment is still there to answer."""


class BackgroundCluster:
    """Runs a deployment while its `with` block runs, or from `start` to `stop`.

    Everything here may be called from any thread. What reads and changes the deployment does so on the
    deployment's own loop, so an answer is never half of one state and half of the next. Functions that run
    there (in `call`, or as a script of the servers) may use `call` too. What waits for the loop itself
    (`run`, `stop`) raises `RuntimeError` there, and so does everything when the deployment has stopped.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
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
        """What the servers saw; its `records` are a copy."""
        return self.cluster.journal

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the deployment's loop and return its result, or raise what it raised.

        What it returns must be a result: raises `TypeError` for a coroutine, or anything else to be awaited,
        which is for `run`.
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
        """Return what comes of a coroutine that runs on the deployment's loop."""
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
    ) -> None:
        """Make commands fail on every server, as the fail point `failCommand` does.

        They fail `times` times on each server, or until `stop_failing` when it is not given. Replaces what
        an earlier call set up. Raises `CommandError` for what the fail point refuses.
        """
        data = {
            "failCommands": list(commands),
            "errorCode": error_code,
            "errorLabels": None if error_labels is None else list(error_labels),
            "closeConnection": close_connection or None,
            "blockConnection": None if block_ms is None else True,
            "blockTimeMS": block_ms,
            "writeConcernError": write_concern_error,
            "appName": app_name,
        }
        given = {key: value for key, value in data.items() if value is not None}
        self._configure(mode="alwaysOn" if times is None else {"times": times}, data=given)

    def stop_failing(self) -> None:
        """Switch `failCommand` off on every server."""
        self._configure(mode="off")

    def _configure(self, **setting: Any) -> None:
        def configure() -> None:
            for node in self.nodes:
                node.fail_points.configure(FAIL_COMMAND, **setting)

        self.call(configure)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                raise

    async def _serve(self) -> None:
        async with fakeserver.start(self.spec) as cluster:
            stopping = asyncio.Event()
            self._ready.set_result((asyncio.get_running_loop(), stopping, cluster))
            await stopping.wait()


async def _finished(function: Callable[[], T]) -> T:
    return _result(function)


def _result(function: Callable[[], T]) -> T:
    result = function()
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        name = getattr(function, "__qualname__", "the function")
        raise TypeError(f"{name} returns what must be awaited: give it to `run`")
    return result
