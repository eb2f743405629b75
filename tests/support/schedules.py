"""Any schedule of the flake lab, for properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from harness.world.schedule import STEPS, FlakeSchedule, Late, Perturbation, Seeds, Start, Way

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_numbers = st.integers(1, 9)
_places = st.tuples(st.none(), st.none()) | st.tuples(_numbers, st.none() | _numbers)
_late = st.builds(
    lambda way, server, place, ms: Late(way, f"node{server}", place[0], place[1], ms),
    st.sampled_from(Way),
    st.integers(0, 2),
    _places,
    st.sampled_from(STEPS[1:]),
)
_starts = st.builds(Start, _numbers, st.sampled_from(STEPS))
_seeds = st.builds(Seeds, st.permutations(range(3)).map(tuple))


def schedules(*, most: int = 12) -> SearchStrategy[FlakeSchedule]:
    """Return a strategy of schedules for a replica set."""

    def site(perturbation: Perturbation) -> tuple[object, ...]:
        return perturbation.site

    lists = st.lists(_late | _starts | _seeds, max_size=most, unique_by=site)
    return lists.map(lambda perturbations: FlakeSchedule(tuple(perturbations)))
