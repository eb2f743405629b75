"""Runs items in one process: its deployments, drivers and event loops.

In real time a deployment serves one case after the other. A fake one is replaced after a case that did not
pass; servers by URI are cleaned, and asked anew if they do not answer. In virtual time each case has a loop,
a network, a random number generator and a deployment of its own, made from the seed and the id of the case,
so that nothing that ran before has an effect. A case that is skipped there needs no servers: what decides it
is known from the first ones on which one was skipped (`harness.deployments.targets`).
"""

from __future__ import annotations

import asyncio
import traceback
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from heapq import merge
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from harness.adapters.base import AdapterLost
from harness.adapters.command import Children
from harness.adapters.deployment import Deployment, KnownServers
from harness.adapters.lines import AdapterDialogue
from harness.adapters.registry import make_adapter
from harness.deployments.embedded import EmbeddedDeployment, embedded, servers
from harness.deployments.external import external
from harness.deployments.targets import NO_SERVER, has_auth, is_by_uri, profile_of, topology_of
from harness.explaining.blame import blame
from harness.explaining.causes import Evidence, causes_of
from harness.explaining.explanation import explained, location_of, values_of
from harness.explaining.journal import CaseTimeline, moment_of_line
from harness.explaining.seen_case import SeenCase
from harness.formats.case import FormatCase, run_alone, run_on_server
from harness.planning.result import Result, ResultStatus
from harness.unified.account import Account
from harness.unified.loops import Loops, has_loop
from harness.unified.model import Case
from harness.unified.outcome import CaseOutcome, Status
from harness.unified.requirements import skip_reason
from harness.unified.runner import run_case
from harness.world import cancelling, interruption
from harness.world.clock import NothingScheduled, Spinning
from harness.world.disturbed import DisturbedNetwork
from harness.world.schedule import parse
from harness.world.virtual import World, run_virtual
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from fakeserver.deployment.records.journal import Record
    from fakeserver.network.wire_record import WireRecord
    from harness.adapters.base import DriverAdapter
    from harness.explaining.seen_case import Cause
    from harness.formats.case import AnyCase
    from harness.planning.plan import Item, Settings
    from mongowire.ports import Clock, Network, Rng


# One item on a deployment that its schedule disturbs.


async def run_disturbed(
    run: Callable[[Deployment, Item], Awaitable[Result]], deployment: Deployment, item: Item
) -> Result:
    """Run an item under its schedule, if it has one; then the deployment is fake, on a `DisturbedNetwork`.

    The harness's own connections are made before that, so that they are neither late nor counted.
    """
    if item.schedule is None:
        return await run(deployment, item)
    assert isinstance(deployment, EmbeddedDeployment), "only fake servers can be disturbed"
    assert isinstance(deployment.ports, DisturbedNetwork), "the network is made for the item"
    for address in deployment.addresses:
        await deployment.admin("admin", {"ping": 1}, address=address)
    schedule = parse(item.schedule)
    ports = (int(door.rpartition(":")[2]) for door in deployment.doors)
    names = dict(zip(ports, servers(deployment.topology), strict=True))
    with deployment.ports.disturbed(schedule, names) as disturbance:
        result = await run(deployment.with_seeds(schedule.seeds), item)
    return replace(result, disturbed=tuple(disturbance.effects()))


_CALL_SHARE = 0.75
"""The part of a case's time that one call may take of an adapter that is a process of its own.

Less than the whole, so that a call that hangs is told as the adapter's, before the case itself is too late.
"""
_VIRTUAL_ONLY = 60
"""How many times as long a case may take that runs in virtual time only, where waiting costs nothing."""

_STATUSES = {
    Status.PASSED: ResultStatus.PASSED,
    Status.FAILED: ResultStatus.FAILED,
    Status.SKIPPED: ResultStatus.SKIPPED,
    Status.ERROR: ResultStatus.FAILED,
}


class RunningDeployment(Deployment, Protocol):
    """A deployment that several cases use, one after the other."""

    @property
    def is_marked(self) -> bool:
        """Whether a case has left something on the servers that the next one would meet."""
        ...

    def with_rng(self, rng: Rng) -> RunningDeployment:
        """Return the same servers with the random number generator of one case.

        Drivers draw their session ids from it. With the ids of an earlier case, writes would look like
        retries to the servers.
        """
        ...

    async def recover(self) -> bool:
        """Undo the effects of a failed case; return whether other cases may use the servers."""
        ...


@dataclass(frozen=True, slots=True)
class ExecutorParts:
    """The factories that an executor uses, and the function that runs a case; tests replace some."""

    deployment: Callable[..., AbstractAsyncContextManager[RunningDeployment]] = embedded
    external: Callable[..., AbstractAsyncContextManager[RunningDeployment]] = external
    adapter: Callable[..., DriverAdapter] = make_adapter
    run_case: Callable[..., Awaitable[CaseOutcome]] = run_case


class ItemExecutor:
    """Runs items one at a time. Used from one thread, outside of any event loop; closed with `close`."""

    def __init__(self, settings: Settings, parts: ExecutorParts | None = None) -> None:
        self._settings = settings
        self._parts = parts or ExecutorParts()
        self._real = asyncio.Runner()
        self._deployments: dict[str, tuple[RunningDeployment, AsyncExitStack]] = {}
        self._known: dict[str, KnownServers] = {}
        """What does not change of the servers in virtual time, by the name of the deployment."""
        self._children = Children(call_seconds=_CALL_SHARE * settings.case_timeout)
        self._cases = 0
        self.loops = Loops(settings.loop_iterations, settings.loop_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, item: Item) -> Result:
        """Run one item to its end, whatever that is. Raises only what ends the whole run.

        That is `Interrupted`, or `DeploymentError`: servers by URI do not answer.
        """
        if item.topology == NO_SERVER:
            return self._run_alone(item)
        with cancelling.cancelling():
            if self._settings.time == "real":
                return self._real.run(cancelling.heard(self._run_real(item)))
            if (skipped := self._skipped_at_sight(item)) is not None:
                return skipped
            try:
                return run_virtual(
                    lambda world: cancelling.heard(self._run_virtual(item, world)),
                    seed=f"{self._seed(item)}/{item.topology}/{item.id}",
                    wall_limit=self._settings.wall_limit,
                )
            except (NothingScheduled, Spinning) as stuck:
                return item.result(ResultStatus.FAILED, f"the case can never end: {stuck}")

    def _run_alone(self, item: Item) -> Result:
        """Run a case that needs no server. It has no clock: in virtual time it takes none."""
        case, account, clock = item.case(), Account(compares=self._settings.detail == "all"), SystemClock()
        assert isinstance(case, FormatCase)
        began = clock.utc()
        try:
            outcome = run_alone(case, account)
        except Exception:  # noqa: BLE001 - one broken case must not end the run
            outcome = _defect()
        took = clock.utc() - began if self._settings.time == "real" else 0.0
        result = _result(item, case, outcome, took=took, version=())
        return self._explained(result, item, outcome, account, origin=0.0)

    def close(self) -> None:
        """Stop all deployments and adapters. A second call does nothing."""

        async def close_everything() -> None:
            await self._children.aclose()
            for key in tuple(self._deployments):
                await self._discard(key)

        # After a failed case the deployment is gone, and the adapter's process is not.
        if self._deployments or self._children:
            self._real.run(close_everything())
        self._real.close()

    def _skipped_at_sight(self, item: Item) -> Result | None:
        """Return the result of a case that is skipped, if that is known without servers.

        A case whose every detail is wanted runs in any case: it has a timeline, if an empty one.
        """
        known, case = self._known.get(item.topology), item.case()
        if known is None or self._explains_all or not isinstance(case, Case):
            return None
        adapter = self._parts.adapter(item.adapter, known, edition=item.edition)
        reason = skip_reason(case, known, adapter.features, item.edition)
        if reason is None:
            return None
        outcome = CaseOutcome(Status.SKIPPED, reason, location=case.location)
        return _result(item, case, outcome, took=0.0, version=known.server_version)

    @property
    def _explains_all(self) -> bool:
        return self._settings.detail == "all" or bool(self._settings.journal_dir)

    async def _run_virtual(self, item: Item, world: World) -> Result:
        ports: dict[str, Any] = {
            "clock": world.clock,
            "network": _network(item, world.network, world.clock),
            "rng": world.rng,
            "virtual": True,
        }
        ports |= self._deployment_options(item.topology)
        async with self._parts.deployment(topology_of(item.topology), **ports) as deployment:
            result = _with_script(
                await run_disturbed(self._run_on, deployment, item), deployment, self._settings
            )
            if result.status is ResultStatus.SKIPPED:
                self._known.setdefault(item.topology, KnownServers.of(deployment))
            return result

    async def _run_real(self, item: Item) -> Result:
        self._cases += 1
        rng = SeededRng(f"{self._seed(item)}/{self._cases}")
        # The network of a disturbed deployment is its own, also between two runs that are not disturbed.
        key = item.topology if item.schedule is None else f"{item.topology}, disturbed"
        if key not in self._deployments:
            stack = AsyncExitStack()
            running = await stack.enter_async_context(self._starting(item))
            self._deployments[key] = (running, stack)
        deployment = self._deployments[key][0].with_rng(rng)
        result = _with_script(await run_disturbed(self._run_on, deployment, item), deployment, self._settings)
        failed = result.status is ResultStatus.FAILED
        is_marked = bool(self._settings.server_scenario) or deployment.is_marked
        if is_marked or (failed and not await deployment.recover()):
            await self._discard(key)
        return result

    def _seed(self, item: Item) -> int:
        return self._settings.seed if item.seed is None else item.seed

    async def _run_on(self, deployment: Deployment, item: Item) -> Result:
        case, account = item.case(), Account(compares=self._settings.detail == "all")
        journal = deployment.journal
        began, known = deployment.clock.now(), journal.last_seq if journal is not None else 0
        dialogue = self._dialogue(item)
        outcome = await self._outcome(case, deployment, item, account, dialogue)
        took = deployment.clock.now() - began
        result = _result(item, case, outcome, took=took, version=deployment.server_version)

        def fresh() -> Iterable[Record]:
            return journal.since(known) if journal is not None else ()

        result = self._explained(
            result, item, outcome, account, fresh, origin=began, wire_record=deployment.wire_record
        )
        if dialogue is None or not (result.timeline or result.status is ResultStatus.FAILED):
            return result
        said = (moment_of_line(line, began) for line in dialogue.lines)
        timeline = tuple(merge(result.timeline, said, key=lambda moment: moment.at))
        return replace(result, timeline=timeline)

    def _dialogue(self, item: Item) -> AdapterDialogue | None:
        """Return what hears the dialogue with an adapter in a process of its own, where somebody reads it."""
        settings = self._settings
        if settings.command(item.adapter) is None or not (settings.wire or settings.trace):
            return None
        about = f"{item.id} [{item.adapter}, {item.topology}]"
        return AdapterDialogue(
            about, keeps=settings.wire, trace=Path(settings.trace) if settings.trace else None
        )

    def _explained(
        self,
        result: Result,
        item: Item,
        outcome: CaseOutcome,
        account: Account,
        records: Callable[[], Iterable[Record]] = tuple,
        *,
        origin: float,
        wire_record: WireRecord | None = None,
    ) -> Result:
        """Write the journal of a case where one is asked for, and return the result with what explains it.

        Most cases pass, and nobody asks what happened: then no timeline is made.
        """
        failed = result.status is ResultStatus.FAILED
        explains = failed or self._settings.detail == "all"
        if not failed and not self._explains_all:
            return result
        case, heard = item.case(), account.heard()
        timeline = CaseTimeline.of(records(), heard, account.steps, origin=origin)
        if self._settings.journal_dir:
            try:
                timeline.write(Path(self._settings.journal_dir), item)
            except OSError as error:
                result = result.becomes(ResultStatus.FAILED, f"its journal cannot be written: {error}")
                explains = True
        if not explains:
            return result
        causes: Sequence[Cause] = ()
        seen = None
        if failed and isinstance(case, Case) and outcome.status is not Status.ERROR:
            if wire_record is not None and account.began is not None:
                seen = SeenCase.of(case, account.steps, wire_record, item.edition)
            causes = causes_of(Evidence(case, outcome, heard, timeline, item.edition, seen))
        result = explained(result, outcome, timeline, account, causes, origin=origin)
        if seen is not None and self._settings.command(item.adapter):
            differ = any(row.verdict != "same" for row in result.comparison)
            result = replace(result, blame=blame(seen, heard, events_differ=differ))
        return result

    async def _outcome(
        self,
        case: AnyCase,
        deployment: Deployment,
        item: Item,
        account: Account,
        dialogue: AdapterDialogue | None,
    ) -> CaseOutcome:
        """Run the case; an error outside of the scenario becomes a failure with its text."""
        limit = self._settings.case_timeout
        if (
            isinstance(case, Case)
            and case.server_side is not None
            and case.server_side.run_on.time == "virtual"
        ):
            limit *= _VIRTUAL_ONLY
        timer = asyncio.timeout(limit)
        try:
            command = self._settings.command(item.adapter)
            adapter = (
                self._parts.adapter(item.adapter, deployment, edition=item.edition)
                if command is None
                else await self._children.adapter(command, deployment.clock, dialogue)
            )
            async with timer:
                return await self._run_case(case, deployment, adapter, account, item.edition)
        except AdapterLost as lost:
            return CaseOutcome(Status.ERROR, str(lost))
        except Exception:  # noqa: BLE001 - one broken case must not end the run
            if timer.expired():
                return CaseOutcome(Status.ERROR, f"the case did not end within {limit:g} seconds")
            return _defect()

    async def _run_case(
        self, case: AnyCase, deployment: Deployment, adapter: DriverAdapter, account: Account, edition: str
    ) -> CaseOutcome:
        try:
            if isinstance(case, FormatCase):
                return await run_on_server(case, deployment, adapter, account)
            # While a case has loops, and the user wishes so, the first Ctrl-C ends those and not the run.
            ends_loops = self._settings.interrupt_ends_loops and has_loop(case) and not self.loops.ended
            with interruption.first_interrupt(self.loops.end) if ends_loops else nullcontext():
                return await self._parts.run_case(
                    case,
                    adapter=adapter,
                    deployment=deployment,
                    account=account,
                    loops=self.loops,
                    edition=edition,
                )
        finally:
            await adapter.aclose()

    def _deployment_options(self, target: str) -> dict[str, Any]:
        options = {"auth": has_auth(target), "profile": profile_of(target), "wire": self._settings.wire}
        scenario = self._settings.server_scenario
        return {**options, "scenario": scenario} if scenario else options

    def _starting(self, item: Item) -> AbstractAsyncContextManager[RunningDeployment]:
        """Return what starts a fake deployment, or connects to servers by URI."""
        settings, target, clock = self._settings, item.topology, SystemClock()
        rng = SeededRng(settings.seed, f"deployment/{target}")
        if is_by_uri(target):
            return self._parts.external(settings.uri, settings.uri_multi, clock=clock, rng=rng)
        network = _network(item, TcpNetwork(), clock)
        ports: dict[str, Any] = {"clock": clock, "network": network, "rng": rng, "virtual": False}
        return self._parts.deployment(topology_of(target), **ports, **self._deployment_options(target))

    async def _discard(self, key: str) -> None:
        _, stack = self._deployments.pop(key)
        await stack.aclose()


def _network(item: Item, network: Network, clock: Clock) -> Network:
    """Return the network for an item's servers, which its schedule may disturb."""
    return network if item.schedule is None else DisturbedNetwork(network, clock)


def _defect() -> CaseOutcome:
    return CaseOutcome(Status.ERROR, f"the harness failed: {traceback.format_exc().strip()}")


def _with_script(result: Result, deployment: Deployment, settings: Settings) -> Result:
    """Return a result with what became of the faults of its case, if that ran on servers of ours.

    They are those of the scenario for servers, or without one the fail points that the case has set.
    """
    if result.status is ResultStatus.SKIPPED or not isinstance(deployment, EmbeddedDeployment):
        return result
    if not settings.server_scenario:
        uses = deployment.cluster.fail_point_uses
        met = tuple((use.name, use.hits or int(use.is_met), str(use)) for use in uses)
        uses.forget()  # the next case on these servers has its own
        return replace(result, script=met) if met else result
    verdict = deployment.cluster.control.perform("verdict")
    judged = (*verdict["met"], *verdict["neverMet"])
    happened = [
        (f"{each['kind']} {each['name']}", each.get("hits", 0), each.get("what", ""))
        for each in judged
        if each["kind"] != "fail point"
    ]
    if verdict["steps"]["of"]:
        happened.append(("steps", verdict["steps"]["performed"], "a step of the timeline"))
    return replace(result, script=tuple(happened))


def _result(
    item: Item, case: AnyCase, outcome: CaseOutcome, *, took: float, version: Sequence[int]
) -> Result:
    location, mismatch = location_of(outcome, case), outcome.mismatch
    expected, actual = values_of(outcome)
    return Result(
        id=item.id,
        status=_STATUSES[outcome.status],
        topology=item.topology,
        adapter=item.adapter,
        edition=item.edition,
        reason=outcome.reason,
        duration_ms=round(took * 1000, 3),
        file=str(location.path),
        line=location.line,
        server_version=".".join(map(str, version)),
        mismatch=str(mismatch) if mismatch else "",
        expected=expected,
        actual=actual,
        seed=item.seed,
        schedule=item.schedule,
        is_error=outcome.status is Status.ERROR,
    )
