"""A deployment in a thread of its own, for callers that have no event loop or must not share theirs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self, TypeVar

import fakeserver
from fakeserver.failpoints import FAIL_COMMAND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from types import TracebackType

    from fakeserver.cluster import Cluster, Node
    from fakeserver.journal import Journal
    from fakeserver.spec import ClusterSpec

T = TypeVar("T")


class BackgroundCluster:
    """Runs a deployment while its `with` block runs, or from `start` to `stop`.

    Everything here may be called from any thread. What reads and changes the deployment does so on the
    deployment's own loop, so an answer is never half of one state and half of the next.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self._thread = threading.Thread(target=self._run, name="fakeserver", daemon=True)
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, Cluster]] = Future()

    def start(self) -> Self:
        """Start the thread and return when every server listens. Raises what starting raised."""
        self._thread.start()
        try:
            self._ready.result()
        except BaseException:
            self._thread.join()
            raise
        return self

    def stop(self) -> None:
        """Stop all servers and wait for the thread; stopping twice is allowed."""
        if self._thread.is_alive():
            loop, stopping, _ = self._ready.result()
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
        return self._ready.result()[2]

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

        Its verbs run on the deployment's loop: `server.run(server.node("primary").kill)` for one that waits,
        `server.call(server.node("node1").pause)` for one that does not. Raises `LookupError`.
        """
        return self.call(lambda: self.cluster.node(which))

    @property
    def journal(self) -> Journal:
        """What the servers saw; its `records` are a copy."""
        return self.cluster.journal

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the deployment's loop and return its result, or raise what it raised."""
        loop, _, _ = self._ready.result()
        done: Future[T] = Future()
        loop.call_soon_threadsafe(_fulfil, done, function)
        return done.result()

    def run(self, awaitable: Callable[[], Awaitable[T]]) -> T:
        """Run an asynchronous function on the deployment's loop: `server.run(server.cluster.step_down)`."""

        async def main() -> T:
            return await awaitable()

        loop, _, _ = self._ready.result()
        return asyncio.run_coroutine_threadsafe(main(), loop).result()

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


def _fulfil(done: Future[T], function: Callable[[], T]) -> None:
    try:
        done.set_result(function())
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
        done.set_exception(error)
