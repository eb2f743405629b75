"""A change stream returns each event once, in the order of the log, across resumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sim.swarm.checkers.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.sim.swarm.history import Logged, RunHistory, StreamEvent, WatchedStream, WorkloadOperation


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each event that a stream returned twice, out of order, of its own invention, or not at all."""
    operations = {operation.number: operation for operation in history.operations}
    for stream in history.streams:
        seen: list[int] = []
        for event in stream.events:
            place, fault = _place(event, history.ending.log, seen)
            if fault is None:
                seen.append(place)
            else:
                what = (
                    f"stream {stream.number} returned the write of {event.key} by operation {event.operation}"
                )
                yield Violation(f"{what} {fault} at {event.at:g} s", (event.operation,))
        yield from _missed(stream, seen, history.ending.log, operations)


def _place(event: StreamEvent, log: Sequence[Logged], seen: Sequence[int]) -> tuple[int, str | None]:
    """Return where in the log an event is, and what is wrong with its being returned now."""
    places = [
        place
        for place, entry in enumerate(log)
        if (entry.operation, entry.key) == (event.operation, event.key)
    ]
    if not places:
        return -1, "that nobody has seen"
    last = seen[-1] if seen else -1
    following = next((place for place in places if place > last), None)
    if following is not None:
        return following, None
    return -1, "again" if all(place in seen for place in places) else "out of order"


def _missed(
    stream: WatchedStream,
    seen: Sequence[int],
    log: Sequence[Logged],
    operations: Mapping[int, WorkloadOperation],
) -> Iterator[Violation]:
    first = seen[0] if seen else len(log)
    end = len(log) if stream.drained else (seen[-1] if seen else 0)
    returned = set(seen)
    for place, entry in enumerate(log[:end]):
        writer = operations.get(entry.operation)
        promised = place > first or (writer is not None and writer.invoked > stream.opened)
        if promised and place not in returned:
            text = f"stream {stream.number} missed the write of {entry.key} by operation {entry.operation}"
            yield Violation(text, (entry.operation,))
