"""Advice to the operator of a server: settings by its readings, with the reason, and pictures of them.

A server's capacity is what it finishes while requests queue throughout. The busy readings, in their
order, fall into five parts; how far these differ is the uncertainty, and the lowest counts.

A `GovernorAdvice` is a listener of a `Governor` and knows no server. Without enough busy readings the advice
is to leave the limiter off: a server that was never busy has not shown what it can do. `to_document` is what
programs read; the sentences are made for people, and name numbers from the readings alone (docs/ROLLOUT.md
has examples).
"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

from harness.report.pages import chart, frame
from harness.report.pages.chart import Level, Line, Panel
from harness.report.pages.markup import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.overload.policy.engine import Decision
    from harness.overload.policy.policies import Sample

# A burst of a tenth of a second evens out chance and lets no queue grow that clients would feel. At a low
# rate it would be less than a token, which admits nobody.
_BURST_SECONDS: Final = 0.1
_LEAST_BURST_TOKENS: Final = 2
_PARTS: Final = 5
_ENOUGH_BUSY: Final = 20
"""Busy readings from which on there is a capacity to tell."""
_OF_CAPACITY: Final = 0.9
"""The rate as a part of the capacity: at the whole of it a queue that has grown would never drain."""
_MOST_KEPT: Final = 20_000
"""Readings in memory: those of more than an hour at four a second."""
_SHOWN_PART: Final = 0.95
_LEVELS: Final = "▁▂▃▄▅▆▇█"


def burst_of(rate: float) -> float:
    """Return the burst capacity to set with a rate, in seconds; a server's own default is no bound at all."""
    return round(max(_BURST_SECONDS, _LEAST_BURST_TOKENS / rate), 3)


class GovernorAdvice:
    """The readings of a governor, as they come; `timeout` is how long clients wait, None if unknown."""

    def __init__(self, timeout: float | None = None) -> None:
        self._timeout = timeout
        self._decisions: list[Decision] = []
        self._taken = 0
        self._every = 1
        """Of so many readings one is kept, so that all parts of a long run count alike."""

    def add(self, decision: Decision) -> None:
        """Take a reading; of a long run every second one is kept, then every fourth."""
        self._taken += 1
        if self._taken % self._every:
            return
        self._decisions.append(decision)
        if len(self._decisions) > _MOST_KEPT:
            del self._decisions[::2]
            self._every *= 2

    @property
    def _samples(self) -> list[Sample]:
        return [each.sample for each in self._decisions]

    @property
    def capacity(self) -> tuple[float, float, float] | None:
        """Operations a second that the server can do: the lowest part, the mean, the highest part."""
        busy = [each.finished for each in self._samples if each.busy]
        if len(busy) < _ENOUGH_BUSY:
            return None
        ends = [len(busy) * part // _PARTS for part in range(_PARTS + 1)]
        parts = [fmean(busy[start:end]) for start, end in pairwise(ends)]
        return min(parts), fmean(busy), max(parts)

    @property
    def rate(self) -> int | None:
        """The rate to set, None where none is to be set."""
        capacity = self.capacity
        return None if capacity is None else max(1, round(capacity[0] * _OF_CAPACITY))

    def lines(self, width: int) -> list[str]:
        """Return the picture for a terminal, not wider than `width`, and what to set and why."""
        if not self._decisions:
            return ["There were no two readings to compare: nothing to advise."]
        return [*self._sparks(width), "", *self.sentences()]

    def sentences(self) -> list[str]:
        """Return what to set, and a line for each reason."""
        rate = self.rate
        head = "Leave the request rate limiter off, because"
        if rate is not None:
            head = (
                f"Set ingressRequestAdmissionRatePerSec to {rate:,} and"
                f" ingressRequestAdmissionBurstCapacitySecs to {burst_of(rate):g}, because"
            )
        return [head, *(f"- {reason}" for reason in self._reasons())]

    def _reasons(self) -> Iterator[str]:
        samples, capacity = self._samples, self.capacity
        busy = [each for each in samples if each.busy]
        seen = f"{len(busy)} of {len(samples)} readings"
        most = max(each.finished for each in samples)
        if capacity is None:
            yield f"requests queued throughout in {seen}: the server could do more than it was asked for"
            longest = _ms(max(each.delay for each in samples))
            yield f"at most {most:,.0f} operations/s were finished, and queued for {longest} at most"
            yield f"{_ENOUGH_BUSY} busy readings tell the capacity: look again at the busiest time of the day"
            return
        low, mean, high = capacity
        yield (
            f"the server finished {mean:,.0f} operations/s while requests queued throughout"
            f" ({low:,.0f} to {high:,.0f} in {_PARTS} parts of {seen}): that is all it can do"
        )
        yield f"the rate is {_OF_CAPACITY:.0%} of the lowest, so that a queue that has grown drains"
        waited = f"requests then queued for {_ms(median(each.delay for each in busy))} in the median"
        if self._timeout is not None:
            late = sum(each.delay > self._timeout for each in samples)
            waited += (
                f", in {late} of {len(samples)} readings longer than the clients' {_ms(self._timeout)}:"
                " the server then works for clients that have gone"
                if late
                else f"; the clients wait for {_ms(self._timeout)}, so nothing has been lost so far"
            )
        yield waited
        if refused := fmean(each.rejected for each in samples):
            yield f"{refused:,.0f} requests/s were refused in the mean, with the limits of this time"

    def _sparks(self, width: int) -> Iterator[str]:
        name = max(map(len, _SHOWN))
        for title, of in _SHOWN.items():
            values = [of(each) for each in self._decisions]
            if any(values):
                # One reading without a finished operation tells of an endless queue: the top is clipped.
                top = sorted(values)[int((len(values) - 1) * _SHOWN_PART)] or max(values)
                most = f" mostly up to {top:,.0f}{_UNITS[title]}"
                room = max(8, width - name - len(most) - 1)
                yield f"{title:{name}} {_sparks(values, room, top)}{most}"

    def to_document(self) -> dict[str, Any]:
        """Return it as a document of plain values."""
        capacity = self.capacity
        return {
            "rate": self.rate,
            "burstSeconds": None if self.rate is None else burst_of(self.rate),
            "capacity": None
            if capacity is None
            else dict(zip(("least", "mean", "most"), capacity, strict=True)),
            "readings": len(self._decisions),
            "why": list(self._reasons()) if self._decisions else [],
        }

    def panels(self) -> list[Panel]:
        """Return the charts of the readings over time."""
        began = self._decisions[0].at if self._decisions else 0.0
        rates = [title for title in _SHOWN if _UNITS[title] == "/s"]

        def line(title: str, place: int) -> Line:
            points = [(each.at - began, _SHOWN[title](each)) for each in self._decisions]
            return Line(title, points, chart.SERIES[place], dash=place)

        capacity = self.capacity
        levels = [] if capacity is None else [Level(capacity[1], "capacity")]
        return [
            Panel(
                title="Requests",
                x="seconds",
                y="per second",
                lines=[line(title, place) for place, title in enumerate(rates)],
                levels=levels,
                x_least=0.0,
            ),
            Panel(title="Queue", x="seconds", y="milliseconds", lines=[line("queued", 0)], x_least=0.0),
        ]

    def picture(self) -> str:
        """Return the charts as an SVG file."""
        return chart.file(self.panels(), title=_TITLE, columns=2)

    def page(self, facts: str) -> str:
        """Return the page: what to set and why, and the charts."""
        head, *reasons = self.sentences() if self._decisions else self.lines(0)
        because = "".join(f"<li>{escaped(reason.removeprefix('- '))}</li>" for reason in reasons)
        return frame.page(
            _TITLE,
            [
                frame.section("What to set", frame.paragraph(head), f"<ul>{because}</ul>\n"),
                frame.section("Readings", frame.panels(self.panels(), title=_TITLE)),
            ],
            facts=facts,
        )


_TITLE: Final = "Readings of a server, and what they advise"
_SHOWN: Final[dict[str, Callable[[Decision], float]]] = {
    "finished": lambda each: each.sample.finished,
    "rejected": lambda each: each.sample.rejected,
    "limit": lambda each: 0.0 if each.settings is None else each.settings.request_rate,
    "queued": lambda each: each.sample.delay * 1000,
}
_UNITS: Final = {"finished": "/s", "rejected": "/s", "limit": "/s", "queued": " ms"}


def _sparks(values: Sequence[float], room: int, top: float) -> str:
    """Return values as a row of blocks, up to a top: the median of as many as fall on one."""
    across = min(room, len(values))
    ends = [len(values) * place // across for place in range(across + 1)]
    middles = [median(values[start:end]) for start, end in pairwise(ends)]
    return "".join(_LEVELS[min(len(_LEVELS) - 1, int(each / top * len(_LEVELS)))] for each in middles)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:.3g} s"
