"""Tries mutants against cases: each mutant in a process of its own, forked from this one.

This process has loaded the packages and the scenarios or tests once, so that a fork begins with both. What a
fork sends back says which case it has begun, so that a mutant that never ends, or that ends its process, is
known to have been killed by that case.

The parent does nothing but wait on pipes: it starts `jobs` forks, notes the index that each one is at, and
looks once a second for one that has been silent for too long. A failure before the first case begins means
that the mutant cannot be used (`broken`), for then nothing of it was tried; any later one is a kill. Cases
run in virtual time, so the only seconds of the wall clock here are those of `CASE_SECONDS`.
"""

from __future__ import annotations

import resource
import signal
import traceback
from collections import deque
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import connection as connections
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from harness.authoring.mutants.mutant import original, path_of
from harness.authoring.mutants.overlay import import_anew, put_in
from harness.planning.plan import Item, Settings
from harness.planning.result import ResultStatus
from harness.running.executor import ItemExecutor
from harness.world import interruption
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

    from harness.authoring.mutants.mutant import Mutant

CASE_SECONDS: Final = 15.0
"""Seconds of the wall clock without a word from a mutant, after which it hangs: ten healthy cases."""

MEMORY: Final = 4 << 30
"""Bytes of address space that a mutant may take besides; one that allocates in a loop ends there.

Without it the machine could begin to swap before the wall clock ends the process.
"""


SETTINGS: Final = Settings(time="virtual")


@dataclass(slots=True)
class MutantVerdict:
    """The end of a mutant: the cases that killed it, with what each said, or why it cannot be used."""

    killed_by: dict[str, str] = field(default_factory=dict)
    broken: str = ""


class Judge(Protocol):
    """Runs cases in their order, in a process that is a mutant, and reports each that begins or fails.

    With `stops` it ends with the first that fails.
    """

    def __call__(self, report: Callable[[tuple[Any, ...]], None], *, stops: bool) -> None:
        """Run the cases."""


@dataclass(slots=True)
class Trial:
    """A mutant, the ids of the cases that it is tried with, who runs them, and what has come of it so far."""

    mutant: Mutant
    keys: Sequence[str]
    judge: Judge
    verdict: MutantVerdict = field(default_factory=MutantVerdict)
    _at: int = -1
    """The index of the case under way; negative before the first one."""
    _fell_at: int | None = None
    """The index of the case with which the process hung or crashed."""
    _heard: float = 0.0
    _process: ForkProcess | None = None

    def begin(self, clock: SystemClock, *, stops: bool) -> Connection:
        """Fork the process, and return the connection that it reports on."""
        ours, theirs = connections.Pipe(duplex=False)
        process = get_context("fork").Process(target=_work, args=(self, theirs, stops), daemon=True)
        self._process, self._heard = process, clock.utc()
        process.start()
        theirs.close()
        return ours

    def take(self, message: tuple[Any, ...], clock: SystemClock) -> None:
        """Take in what the process says."""
        self._heard = clock.utc()
        match message:
            case ("begins", index):
                self._at = index
            case ("killed", index, reason):
                self.verdict.killed_by[self.keys[index]] = reason
            case ("ended",):
                self._at = -1  # what goes wrong after the last case is no finding
            case ("broken", reason):
                self._fell("crashes", reason)

    def end(self) -> None:
        """Take in the end of the process."""
        assert self._process is not None
        self._process.join(5)
        if self._at >= 0:
            self._fell("crashes", f"the process ended with {self._process.exitcode}")

    def untried(self) -> Sequence[str]:
        """Return the cases that come after one with which the process hung or crashed."""
        return self.keys[self._fell_at + 1 :] if self._fell_at is not None else ()

    def hangs(self, clock: SystemClock, seconds: float) -> bool:
        """End a process that has said nothing for so many seconds; return whether it was one."""
        if clock.utc() - self._heard < seconds or self._process is None:
            return False
        self._process.kill()
        self._fell("hangs", f"no end after {seconds:g} s of the wall clock")
        return True

    def _fell(self, how: str, reason: str) -> None:
        if self._at < 0:
            self.verdict.broken = self.verdict.broken or reason
        else:
            self.verdict.killed_by.setdefault(self.keys[self._at], f"{how}: {reason}")
            self._fell_at = self._at
        self._at = -1


def of_items(mutant: Mutant, items: Sequence[Item]) -> Trial:
    """Return a trial with items of a run."""
    documents = [item.to_dict() for item in items]

    def judge(report: Callable[[tuple[Any, ...]], None], *, stops: bool) -> None:
        # By name, because it may have been imported anew, and must judge by what is loaded now.
        import_module("harness.authoring.mutants.trial").judge_items(documents, report, stops=stops)

    return Trial(mutant, [key_of(item) for item in items], judge)


def judge_items(
    documents: Sequence[Mapping[str, Any]], report: Callable[[tuple[Any, ...]], None], *, stops: bool
) -> None:
    """Run items in their order and report each that fails; with `stops`, end with the first one."""
    with ItemExecutor(SETTINGS) as executor:
        for index, document in enumerate(documents):
            report(("begins", index))
            result = executor.run(Item(**document))
            if result.status is ResultStatus.FAILED:
                report(("killed", index, result.reason.strip().partition("\n")[0]))
                if stops:
                    break
    report(("ended",))


def watch(items: Iterable[Item], reached: set[str]) -> Iterator[tuple[ResultStatus, frozenset[str]]]:
    """Run items, and yield the status of each with the names that it has added to `reached`."""
    with ItemExecutor(SETTINGS) as executor:
        for item in items:
            reached.clear()
            status = executor.run(item).status
            yield status, frozenset(reached)


def key_of(item: Item) -> str:
    """Return what names an item in reports: id, deployment and edition."""
    return f"{item.id} [{item.topology}, {item.edition}]"


def run_trials(
    trials: Iterable[Trial],
    *,
    jobs: int,
    on_end: Callable[[Trial], None],
    stops: bool = True,
    patience: float = CASE_SECONDS,
) -> None:
    """Run trials, `jobs` at a time; with `stops`, each ends with the first case that kills its mutant.

    One that says nothing for `patience` seconds of the wall clock hangs.
    """
    waiting, running, clock = deque(trials), dict[Any, Trial](), SystemClock()
    try:
        while waiting or running:
            interruption.check()
            while waiting and len(running) < jobs:
                trial = waiting.popleft()
                running[trial.begin(clock, stops=stops)] = trial
            # A second is how late a hang is noticed, and an interruption while nothing reports.
            for end in connections.wait(list(running), timeout=1.0):
                _hear(end, running, clock, on_end)
            for end, trial in [
                (end, trial) for end, trial in running.items() if trial.hangs(clock, patience)
            ]:
                del running[end]
                on_end(trial)
    finally:
        for trial in running.values():
            if trial._process is not None:  # noqa: SLF001 - its own class, a few lines above
                trial._process.kill()  # noqa: SLF001


def _hear(end: Any, running: dict[Any, Trial], clock: SystemClock, on_end: Callable[[Trial], None]) -> None:
    try:
        running[end].take(end.recv(), clock)
    except (EOFError, OSError):
        trial = running.pop(end)
        end.close()
        trial.end()
        on_end(trial)


def _work(trial: Trial, reports: Connection, stops: bool) -> None:  # noqa: FBT001 - arguments of a process
    """Be a mutant, in a process of its own."""
    # Ctrl-C reaches the whole group; the parent ends its forks itself, and none of them is to report it as a
    # kill.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        mapped = 0
    # The limit counts all of the address space, also what was inherited from the parent.
    most = mapped + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        become(trial.mutant)
        trial.judge(reports.send, stops=stops)
    except BaseException:  # noqa: BLE001 - whatever a wrong driver raises is a finding
        reports.send(("broken", traceback.format_exc().strip()))


def become(mutant: Mutant) -> None:
    """Put the code of a mutant into this process. Raises what its import raises.

    It has no way back: the caller is a fork, or a process that ends after it.
    """
    texts: Mapping[str, str] = mutant.sources()
    sources = {str(path_of(file)): text for file, text in texts.items()}
    if not put_in(sources, {str(path_of(file)): original(file) for file in texts}):
        import_anew(sources)
