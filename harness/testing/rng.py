"""The contract of every `Rng`.

A run is repeated by its seed alone. That holds as long as each actor draws from a sequence of its own,
derived from the seed and from the names above it: with one sequence for all, a new actor, or one that draws
once more, would change the numbers of all others, and no failure could be shown again after a change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from mongowire.ports import Rng


def _draw(rng: Rng) -> list[object]:
    """Return what a generator draws.

    Bytes stand between two numbers, since both may come from one sequence, and must not disturb it.
    """
    return [rng.random(), rng.randbytes(12), rng.random()]


def check_rng(make: Callable[[int, str], Rng]) -> None:
    """Raise `AssertionError` unless `make(seed, actor)` returns an `Rng`."""
    numbers = [make(1, "client").random() for _ in range(10)]
    assert len(set(numbers)) == 1, "the same seed and actor draw the same numbers"
    rng = make(2, "client")
    assert all(0 <= rng.random() < 1 for _ in range(1000))
    assert [len(rng.randbytes(n)) for n in (0, 1, 16)] == [0, 1, 16]
    assert _draw(make(1, "client")) != _draw(make(2, "client")), "another seed draws other numbers"
    assert _draw(make(1, "client")) != _draw(make(1, "server")), "another actor draws other numbers"
    assert _draw(make(1, "client").spawn("pool")) == _draw(make(1, "client").spawn("pool"))
    assert _draw(make(1, "one").spawn("pool")) != _draw(make(1, "other").spawn("pool")), (
        "actors of the same name below two others are two actors"
    )
    tired = make(1, "client")
    _draw(tired)
    assert _draw(tired.spawn("pool")) == _draw(make(1, "client").spawn("pool")), (
        "what an actor draws does not depend on what its parent drew before"
    )
