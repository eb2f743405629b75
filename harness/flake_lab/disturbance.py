"""Decides how late each packet and each task of one run is, by its schedule. It waits for nothing itself.

A schedule counts: the third packet on the second connection of a server, the fourth task. For the same
schedule to mean the same in every run, all that is counted must come from the case:

- Connections and tasks count from the moment the case begins. The harness's own connections are made before,
  and packets after its end (`end`) are on time.
- Tasks of the fake servers are neither counted nor late. Real servers are other processes, which are late by
  their packets, and a later version of the fake server may start other tasks.
- Tasks of an adapter are left alone too: they translate calls, and no thread of a driver corresponds to them.

Delays add up. A packet is subject to three sites (its server, its connection, itself), each with at most one
perturbation. A sum keeps the search for a smaller schedule simple: without a perturbation no packet is later
than with it. Nothing overtakes on a connection, so a late packet delays those behind it (`link`), as on TCP.

What each perturbation met is written down (`effects`). A drawn schedule names many packets that never exist;
the search for the smallest one starts without them, and a report names the command behind "the third packet".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from harness.flake_lab.schedule import Late, Start, Way

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.flake_lab.schedule import FlakeSchedule, Perturbation

_EXEMPT: Final = ("fakeserver", "harness.adapters")
"""Packages whose tasks are neither counted nor late."""


class Disturbance:
    """The schedule of one run; `names` are the servers by their ports."""

    def __init__(self, schedule: FlakeSchedule, names: Mapping[int, str]) -> None:
        self._names = names
        self._by_site = {each.site: each for each in schedule.perturbations}
        self._effects: dict[Perturbation, Counter[str]] = {}
        self._accepted: Counter[str] = Counter()
        self._started = 0
        self._over = False
        if schedule.seeds:
            self._note(self._by_site["seeds",], "")

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
        if self._over or module.startswith(_EXEMPT):
            return None
        self._started += 1
        site = ("start", self._started)
        return self._delay(site, coroutine.__qualname__) if site in self._by_site else None

    def end(self) -> None:
        """Disturb nothing from now on: the case is over."""
        self._over = True

    def effects(self) -> Iterator[str]:
        """Yield each perturbation that took effect: its word, two spaces, and the packets or tasks it met."""
        for perturbation, met in self._effects.items():
            content = ", ".join(
                f"{name} x {count}" if count > 1 else name for name, count in met.items() if name
            )
            yield f"{perturbation}  {content}".rstrip()

    def _delay(self, site: tuple[object, ...], content: str) -> float:
        perturbation = self._by_site.get(site)
        if self._over or not isinstance(perturbation, Late | Start):
            return 0.0
        self._note(perturbation, content)
        return perturbation.ms / 1000

    def _note(self, perturbation: Perturbation, content: str) -> None:
        self._effects.setdefault(perturbation, Counter())[content] += 1
