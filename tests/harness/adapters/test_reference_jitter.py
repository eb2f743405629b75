"""A scenario that sets the jitter of the reference driver changes nothing else of its random numbers."""

from __future__ import annotations

import pytest

from harness.adapters.base import ClientSpec
from harness.adapters.reference.adapter import with_jitter
from mongowire.system import SeededRng

RNG = SeededRng(5, "client")
URI = "mongodb://a:1/"


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("actor", ["jitter", "transactions"])
def test_every_factor_of_a_backoff_is_the_value(actor: str, value: int) -> None:
    dice = with_jitter(RNG, ClientSpec(URI, jitter=value)).spawn(actor)
    assert [dice.random() for _ in range(3)] == [value] * 3


def test_a_seed_gives_the_same_factors_again_and_another_seed_others() -> None:
    def factors(seed: int) -> list[float]:
        dice = with_jitter(RNG, ClientSpec(URI, jitter_seed=seed)).spawn("jitter")
        return [dice.random() for _ in range(3)]

    assert factors(1) == factors(1) != factors(2)
    assert len(set(factors(1))) == 3


@pytest.mark.parametrize("spec", [ClientSpec(URI, jitter=0), ClientSpec(URI, jitter_seed=1)])
def test_all_other_numbers_are_as_without(spec: ClientSpec) -> None:
    ids, selection = with_jitter(RNG, spec).spawn("ids"), with_jitter(RNG, spec).spawn("selection")
    assert ids.randbytes(12) == RNG.spawn("ids").randbytes(12)
    assert selection.random() == RNG.spawn("selection").random()


def test_a_process_that_is_forked_keeps_the_jitter() -> None:
    below = with_jitter(RNG, ClientSpec(URI, jitter=1)).spawn("process 7")
    assert below.spawn("jitter").random() == 1
    assert below.spawn("ids").randbytes(4) == RNG.spawn("process 7").spawn("ids").randbytes(4)


def test_without_a_jitter_the_numbers_are_the_clients_own() -> None:
    assert with_jitter(RNG, ClientSpec(URI)) is RNG
