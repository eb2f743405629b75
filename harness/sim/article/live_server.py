"""The server of a live run: the fake in a process of its own, which can be stopped like the article's.

It has to be a process: SIGSTOP stops all threads of one, and the kernel goes on to take connections and
bytes for it, as it did at the article's server. A stopped process answers nothing, so it is killed at the
end rather than asked to stop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from fakeserver.control.client import connect
from fakeserver.control.registry import HOME_VARIABLE, Registry
from harness.sim.article.parameters import Strategy
from harness.sim.article.scenario import LIMIT_BURST_SECONDS, TOLD_BACKOFF_SECONDS
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from types import TracebackType

    from harness.sim.article.parameters import ArticleParameters

Stop: TypeAlias = Literal["signal", "pause"]
"""How a server is stopped: by SIGSTOP, so that the kernel alone hears its clients; or by its own pause, in
which the process goes on to accept connections and bytes, and answers none."""

_MANY: Final = 1_000_000
_START_SECONDS: Final = 30.0
_ID: Final = "article"
_UNLIMITED: Final = frozenset({Strategy.FIXED, Strategy.EXPONENTIAL, Strategy.NO_RETRY})


def server_parameters(own: ArticleParameters, strategy: Strategy, abandoned: str) -> dict[str, Any]:
    """Return the parameters of a fake whose commands take as long as the article's server does.

    Nothing else limits it: the storage engine has a ticket for everybody.
    """
    parameters: dict[str, Any] = {
        "abandonedRequests": abandoned,
        "serviceTimeBaseMillis": own.base_delay * 1000,
        "serviceTimeConcurrencyLimit": max(own.limit, 1),
        "serviceTimeFactor": own.growth,
        "serviceTimeK": own.k,
        "serviceTimeLongestMillis": own.seconds * 1000,
        "serviceTimeRecomputeMillis": own.recompute * 1000,
        "executionControlConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
        "executionControlConcurrentReadTransactions": _MANY,
    }
    if strategy not in _UNLIMITED:
        parameters |= {
            "ingressRequestRateLimiterEnabled": "true",
            "ingressRequestAdmissionRatePerSec": max(round(max(own.limit, 1) / own.base_delay), 1),
            "ingressRequestAdmissionBurstCapacitySecs": LIMIT_BURST_SECONDS,
        }
    if strategy is Strategy.TOLD_BACKOFF:
        parameters["externalClientBaseBackoffMS"] = round(TOLD_BACKOFF_SECONDS * 1000)
    return parameters


class LiveServer:
    """A fake in a process of its own; `uri` is its connection string. It ends with the context."""

    def __init__(self, parameters: dict[str, Any], stop_with: Stop = "signal") -> None:
        self._parameters = parameters
        self._stop_with = stop_with
        # A registry of its own, so that nobody else's `pushbackd ls` shows it.
        self._home = TemporaryDirectory(prefix="pushbackd-")
        self._process: asyncio.subprocess.Process
        self.uri = ""

    async def __aenter__(self) -> Self:
        """Start it. Raises `OSError` if it does not listen within half a minute."""
        settings = [
            part for name, value in self._parameters.items() for part in ("--setParameter", f"{name}={value}")
        ]
        program = (sys.executable, "-m", "fakeserver", "--port", "0", "--quiet", "--id", _ID)
        environment = {**os.environ, HOME_VARIABLE: self._home.name}
        self._process = await asyncio.create_subprocess_exec(
            *program, *settings, stdout=PIPE, stderr=DEVNULL, env=environment
        )
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _START_SECONDS)
            self.uri = line.decode().strip()
        finally:
            if not self.uri:
                await self._end()
        if not self.uri:
            raise ConnectionError("the fake server of the live run ended before it listened")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, stopped or not."""
        await self._end()

    async def _end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self._home.cleanup()

    async def stop(self) -> None:
        """Stop the process where it is, as Ctrl-Z does, or pause its server. Raises `OSError`."""
        await self._tell(signal.SIGSTOP, "pause")

    async def go_on(self) -> None:
        """Let it go on. Raises `OSError`."""
        await self._tell(signal.SIGCONT, "resume")

    async def work(self) -> tuple[int, int]:
        """Return the requests at work, and the most at a time so far. Raises `OSError`.

        They are the server's own count, at every arrival and departure.
        """
        state = await asyncio.to_thread(self._perform, "state")
        served = state["servers"][0]["serviceTime"]
        return served["atWork"], served["peak"]

    async def _tell(self, number: signal.Signals, verb: str) -> None:
        if self._stop_with == "signal":
            os.kill(self._process.pid, number)
            return
        await asyncio.to_thread(self._perform, verb, node="primary")

    def _perform(self, verb: str, **arguments: str) -> dict[str, Any]:
        try:
            return connect(_ID, registry=Registry(Path(self._home.name))).perform(verb, arguments)
        except ControlError as error:
            raise ConnectionError(f"the fake server of the live run: {error}") from error
