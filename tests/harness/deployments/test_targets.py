from __future__ import annotations

import pytest

from harness.adapters.deployment import Topology
from harness.authoring.mutants.matrix import DEPLOYMENTS
from harness.deployments.targets import GROUPS, NAMES, has_auth, our_spelling, targets, topology_of


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


def test_a_group_keeps_the_releases_of_its_own() -> None:
    assert {"replicaset@4.2", "replicaset@9.0"} < set(targets(["thorough"]))
    secured = targets(["thorough"], auth=True, profiles=["7.0"])
    assert {"replicaset+auth@4.2", "replicaset+auth@7.0", "sharded+auth@4.2"} < set(secured)
    assert not [target for target in secured if target.count("@") > 1]


def test_a_thorough_run_has_every_deployment_that_wrong_drivers_meet() -> None:
    met = {target for targets_of in DEPLOYMENTS.values() for target in targets_of}
    assert met <= set(targets(["thorough"]))
    assert set(GROUPS["matrix"]) <= set(targets(["thorough"]))


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("standalone", "single"),
        ("replica_set+auth", "replicaset+auth"),
        ("replica-set+auth+uri", "replicaset+auth+uri"),
        ("standalone@4.2", "single@4.2"),
        ("load_balanced", "load-balanced"),
        ("matrix", "matrix"),
        ("no-server", "no-server"),
        ("ring+auth", "ring+auth"),
    ],
)
def test_other_spellings_of_a_topology_are_translated(spelling: str, name: str) -> None:
    assert our_spelling(spelling) == name


@pytest.mark.parametrize("name", NAMES)
def test_our_own_spelling_stays(name: str) -> None:
    assert our_spelling(name) == name


def test_every_name_leads_to_deployments_that_exist() -> None:
    for name in NAMES:
        for target in targets([name]):
            assert isinstance(topology_of(target), Topology)
            assert has_auth(target) == target.endswith("+auth")
