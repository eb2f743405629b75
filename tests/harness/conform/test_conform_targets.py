from __future__ import annotations

import pytest

from harness.targets import NAMES, has_auth, targets, topology_of
from harness.unified.deployment import Topology


@pytest.mark.parametrize(
    ("names", "auth", "chosen"),
    [
        (("single",), False, ("single",)),
        (("single",), True, ("single+auth",)),
        (("single+auth",), True, ("single+auth",)),
        (("sharded", "single+auth", "sharded"), False, ("sharded", "single+auth")),
        (("all",), False, ("single", "replicaset", "sharded", "load-balanced")),
        (("matrix",), False, ("single+auth", "replicaset", "sharded", "load-balanced+auth")),
        (
            ("matrix", "single"),
            False,
            ("single+auth", "replicaset", "sharded", "load-balanced+auth", "single"),
        ),
        (
            ("matrix", "single"),
            True,
            ("single+auth", "replicaset+auth", "sharded+auth", "load-balanced+auth"),
        ),
    ],
)
def test_names_stand_for_deployments_each_once(
    names: tuple[str, ...], *, auth: bool, chosen: tuple[str, ...]
) -> None:
    assert targets(names, auth=auth) == chosen


def test_every_name_leads_to_deployments_that_exist() -> None:
    for name in NAMES:
        for target in targets([name]):
            assert isinstance(topology_of(target), Topology)
            assert has_auth(target) == target.endswith("+auth")
