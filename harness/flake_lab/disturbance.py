"""What a schedule makes of one run: how late each packet and each task is. It waits for nothing itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from harness.flake_lab.schedule import Late, Start, Way

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.flake_lab.schedule import Perturbation, Schedule

_OF_OTHERS: Final = ("fakeserver", "harness.adapters")
"""Packages whose tasks are left alone: servers are other processes, which are late by their packets, and an
adapter's own tasks stand for no thread of the driver."""


class Disturbance:
    """One run's schedule at work; `names` are the servers by their ports."""

    def __init__(self, schedule: Schedule, names: Mapping[int, str]) -> None:
        self._names = names
        self._by_site = {each.site: each for each in schedule.perturbations}
        self._met: dict[Perturbation, Counter[str]] = {}
        self._accepted: Counter[str] = Counter()
        self._started = 0
        self._over = False
        if schedule.seeds:
            self._meet(self._by_site["seeds",], "")

    def accept(self, port: int) -> tuple[str, int] | None:
        """Return the server and the number of a new connection; None when it is not disturbed."""
        name = self._names.get(port)
        if name is None or self._over:
            return None
        self._accepted[name] += 1
        return name, self._accepted[name]

    def packet(self, way: Way, connection: tuple[str, int], number: int, content: str) -> float:
        """Return how late a connection's packet is, in seconds."""
        server, nth = connection
        sites = ((way, server, None, None), (way, server, nth, None), (way, server, nth, number))
        return sum(self._delay(site, content) for site in sites)

    def task(self, coroutine: Any) -> float | None:
        """Return how late a new task begins, in seconds; None when it is not disturbed."""
        frame = getattr(coroutine, "cr_frame", None)
        module = frame.f_globals.get("__name__", "") if frame is not None else ""
        if self._over or module.startswith(_OF_OTHERS):
            return None
        self._started += 1
        site = ("start", self._started)
        return self._delay(site, coroutine.__qualname__) if site in self._by_site else None

    def end(self) -> None:
        """Disturb nothing from now on."""
        self._over = True

    def told(self) -> Iterator[str]:
        """Yield each perturbation that met something, with what: a word, two spaces, and a text."""
        for perturbation, met in self._met.items():
            what = ", ".join(
                f"{name} x {count}" if count > 1 else name for name, count in met.items() if name
            )
            yield f"{perturbation}  {what}".rstrip()

    def _delay(self, site: tuple[object, ...], content: str) -> float:
        perturbation = self._by_site.get(site)
        if self._over or not isinstance(perturbation, Late | Start):
            return 0.0
        self._meet(perturbation, content)
        return perturbation.ms / 1000

    def _meet(self, perturbation: Perturbation, content: str) -> None:
        self._met.setdefault(perturbation, Counter())[content] += 1
