"""One run: items in, results out in the order of the plan, whichever process ran them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness import interruption
from harness.expectations import ATTEMPTS
from harness.plan import longest_first

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.plan import Item, Settings
    from harness.result import Result

_WORTH_A_WORKER = {"real": 12, "virtual": 60}
"""How many items a worker must get before it has paid for the start of its interpreter."""

_WAITING_WORKERS = 3
"""How many workers share a processor in real time, where they mostly wait."""


def jobs_for(count: int, settings: Settings) -> int:
    """Return how many processes are worth it for `count` items on this machine; 1 is this process.

    A deployment that the user has given is one, and cases that run at once on it would disturb each other.
    """
    if settings.uri:
        return 1
    most = _processors() * (1 if settings.time == "virtual" else _WAITING_WORKERS)
    return max(1, min(most, count // _WORTH_A_WORKER[settings.time]))


def run_items(
    items: Mapping[int, Item], settings: Settings, *, jobs: int, on_result: Callable[[int, Result], None]
) -> None:
    """Run items, given by their places, and report each as it ends.

    With more than one job they run on worker processes. Raises `Interrupted`, and what `on_result` raises.
    """
    if jobs > 1 and len(items) > 1:
        from harness.workers import Pool  # noqa: PLC0415 - most runs need no processes

        interruption.run(Pool(settings, jobs=jobs, on_result=on_result).run(items, longest_first(items)))
    elif items:
        from harness.bench import Bench  # noqa: PLC0415 - with workers, only they need servers and drivers

        with Bench(settings) as bench:
            for place, item in items.items():
                interruption.check()
                on_result(place, bench.run(item))


def run_patiently(
    items: Mapping[int, Item],
    settings: Settings,
    *,
    jobs: int,
    on_result: Callable[[int, Result], None],
    is_flaky: Callable[[Result], bool],
) -> None:
    """Run items as `run_items` does; those that fail and are flaky run again, alone, at most twice more."""
    left = items
    for _ in range(ATTEMPTS - 1):
        failed: dict[int, Item] = {}
        run_items(left, settings, jobs=jobs, on_result=_setting_aside(failed, left, on_result, is_flaky))
        left, jobs = failed, 1
    run_items(left, settings, jobs=jobs, on_result=on_result)


def _setting_aside(
    failed: dict[int, Item],
    items: Mapping[int, Item],
    on_result: Callable[[int, Result], None],
    is_flaky: Callable[[Result], bool],
) -> Callable[[int, Result], None]:
    """Return what passes results on, but keeps the items of flaky failures in `failed`."""

    def take(place: int, result: Result) -> None:
        if is_flaky(result):
            failed[place] = items[place]
        else:
            on_result(place, result)

    return take


class InOrder:
    """Passes results on in the order of their places, each as soon as all before it have come."""

    def __init__(self, deliver: Callable[[Result], None]) -> None:
        self._deliver = deliver
        self._waiting: dict[int, Result] = {}
        self._next = 0

    def add(self, place: int, result: Result) -> None:
        """Take a result, and pass on all whose turn it is."""
        self.hold(place, result)
        while self._next in self._waiting:
            self._deliver(self._waiting.pop(self._next))
            self._next += 1

    def hold(self, place: int, result: Result) -> None:
        """Take a result that `flush` passes on."""
        self._waiting[place] = result

    def flush(self) -> None:
        """Pass on what still waits: the run was interrupted, so what it waits for will not come."""
        for place in sorted(self._waiting):
            self._deliver(self._waiting.pop(place))


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
