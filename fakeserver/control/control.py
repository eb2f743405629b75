"""`cluster.control`: every verb as a method, and all of them by name."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack

from fakeserver.control.rule_methods import (
    PATIENCE,
    DistantReceiver,
    LocalMethods,
    Receiver,
    Receiving,
    RuleMethods,
)
from fakeserver.control.subject import Subject
from fakeserver.control.verbs.rule_verbs import add_holding_rule
from fakeserver.control.verbs.table import VERBS
from fakeserver.control.verdict import trace_page
from fakeserver.deployment.logs.log_lines import VERB
from fakeserver.deployment.records.events import VerbPerformed
from fakeserver.errors import CommandError
from fakeserver.rules.builders import conditions
from fakeserver.waiting.outcome import VerbOutcome
from mongowire.documents.arguments import duration
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from fakeserver.deployment.cluster import Cluster
    from fakeserver.rules.builders import Stated
    from fakeserver.rules.holding import HeldRequest


_SOURCE: Final = "control"
"""The name of the control in the journal, and its context in the log."""
_EMPTYING: Final = frozenset({"reset", "clearJournal"})
"""The verbs that leave an empty journal."""


class Control(LocalMethods):
    """The control of a deployment on its own loop.

    A method performs its verb at once, and returns an `VerbOutcome`, which may be awaited. Each raises
    `ControlError` for arguments that are wrong or do not fit the deployment as it is; nothing has been done
    then.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._subject = Subject(cluster)

    @property
    def subject(self) -> Subject:
        """What the verbs act on."""
        return self._subject

    def perform(self, name: str, arguments: Mapping[str, Any] | None = None) -> VerbOutcome:
        """Perform a verb, by the name that it has on the wire, with arguments as a document."""
        verb, cluster = VERBS[name], self._subject.cluster
        spec = cluster.spec
        if not verb.applies.covers(spec):
            raise ControlError(
                f"{name} is for {verb.applies.value}; this is a deployment of topology {spec.topology}"
            )
        parsed = verb.parse(arguments or {})
        try:
            result = verb.act(self._subject, **parsed)
        except ControlError:
            raise
        except (ValueError, LookupError, CommandError) as error:
            raise ControlError(_sentence(error)) from error
        if not verb.reads:
            given = {argument: value for argument, value in (arguments or {}).items() if value is not None}
            if name not in _EMPTYING:
                cluster.journal.append(cluster.clock.now(), _SOURCE, VerbPerformed(name, given))
            attr = {"verb": name, "arguments": given}
            cluster.servers[0].log.write("CONTROL", VERB, "Verb performed", context=_SOURCE, attr=attr)
        if not inspect.isawaitable(result):
            return VerbOutcome(result)
        return self._begun(name, result)

    def begin(self) -> None:
        """Take the deployment as it is now for the beginning, which `reset` brings back."""
        self._subject.begin()

    def receives(
        self,
        command: str | Sequence[str] | None = None,
        *,
        within: str = PATIENCE,
        **more: Unpack[Stated],
    ) -> Receiving:
        duration(within)
        return Receiving(self._receiver(conditions(command, **more), times=1), within)

    def hold(self, command: str | Sequence[str] | None = None, **more: Unpack[Stated]) -> Receiver:
        return self._receiver(conditions(command, **more))

    def _receiver(self, stated: Mapping[str, Any], times: int | None = None) -> Receiver:
        return Receiver(self._subject.cluster, add_holding_rule(self._subject, stated, times))

    def _begun(self, name: str, work: Any) -> VerbOutcome:
        """Run the rest of a verb that takes time, as a task that is waited for, or not."""
        task = asyncio.get_running_loop().create_task(_finish(work))
        self._subject.cluster.own(task)
        outcome = VerbOutcome(task=task)
        task.add_done_callback(lambda _: self._end(name, outcome))
        # One that is cancelled before its first step never comes to await it.
        if inspect.iscoroutine(work):
            task.add_done_callback(lambda _: work.close())
        return outcome

    def _end(self, name: str, outcome: VerbOutcome) -> None:
        """Log why a verb failed that nobody waits for."""
        error = outcome.failure
        if error is not None and not outcome.awaited:
            log = self._subject.cluster.nodes[0].log
            attr = {"verb": name, "error": str(error) or repr(error)}
            log.write("CONTROL", 0, "A verb failed", severity="E", context="control", attr=attr)


class DistantControl(RuleMethods):
    """The control of a deployment that runs elsewhere: `perform` hands each verb on."""

    def __init__(
        self, perform: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], home: Home | None = None
    ) -> None:
        """Make the control; `home` runs functions on the loop of a deployment of this process."""
        self._perform_there = perform
        self._home = home

    def perform(self, name: str, arguments: Mapping[str, Any] | None = None) -> VerbOutcome:
        """Perform a verb, and return its outcome, which is complete. Raises `ControlError`."""
        return VerbOutcome(dict(self._perform_there(name, arguments or {})))

    def trace_page(self, title: str = "Trace") -> str:
        """Return the verdict on the run and its journal as an HTML page. Raises `ControlError`."""
        records: list[dict[str, Any]] = []
        while found := self.perform("readJournal", {"since": records[-1]["seq"] if records else 0})[
            "records"
        ]:
            records += found
        return trace_page(title, self.perform("verdict"), records)

    def receives(
        self,
        command: str | Sequence[str] | None = None,
        *,
        within: str = PATIENCE,
        **more: Unpack[Stated],
    ) -> HeldRequest:
        """Hold the next request that meets the conditions, and return it when it has come.

        It must come after this call: `hold` is for requests that may come before. Raises `UnmetExpectation`
        if none comes `within` that time.
        """
        home = self._at_home()
        request: HeldRequest = home.run(lambda: home.cluster.control.receives(command, within=within, **more))
        return request.seen_from(home.call)

    def hold(self, command: str | Sequence[str] | None = None, **more: Unpack[Stated]) -> DistantReceiver:
        """Hold every request that meets the conditions, from now on until the block ends."""
        home = self._at_home()
        return DistantReceiver(home, home.call(lambda: home.cluster.control.hold(command, **more)))

    def _at_home(self) -> Home:
        if self._home is None:
            raise ControlError("requests are held for callers in the deployment's own process only")
        return self._home


class Home(Protocol):
    """Runs functions on the loop of a deployment, for other threads (`BackgroundCluster`)."""

    @property
    def cluster(self) -> Cluster:
        """The deployment."""

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function there, and return its result."""

    def run(self, function: Callable[[], Any]) -> Any:
        """Run a function there, and return its result, awaited."""


async def _finish(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await work
    except ControlError:
        raise
    except (ValueError, LookupError, OSError, CommandError) as error:
        raise ControlError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, LookupError) and error.args else str(error)
