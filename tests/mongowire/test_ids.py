"""Identifiers come from an actor's own clock and dice."""

from __future__ import annotations

import datetime as dt
import uuid as stdlib_uuid

from mongowire import ids
from mongowire.system import SeededRng


class _Noon:
    """A clock that stands at noon."""

    is_real = False

    def now(self) -> float:
        return 0.0

    def utc(self) -> float:
        return 1_767_268_800.75

    async def sleep_until(self, when: float) -> None:
        raise AssertionError


def test_an_object_id_holds_the_clock_s_date() -> None:
    made = ids.object_id(_Noon(), SeededRng(0))
    assert made.generation_time == dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def test_object_ids_repeat_with_the_seed_and_differ_otherwise() -> None:
    rng = SeededRng(3)
    run = [ids.object_id(_Noon(), rng) for _ in range(100)]
    again = SeededRng(3)
    assert run == [ids.object_id(_Noon(), again) for _ in range(100)]
    assert len(set(run)) == 100


def test_the_object_ids_of_a_process_ascend_within_a_second() -> None:
    made = ids.ObjectIds(_Noon(), SeededRng(3))
    run = [made.new() for _ in range(1000)]
    assert run == sorted(set(run))
    assert len({each.binary[:9] for each in run}) == 1
    again = ids.ObjectIds(_Noon(), SeededRng(3))
    assert run == [again.new() for _ in range(1000)]
    other = ids.ObjectIds(_Noon(), SeededRng(4)).new()
    assert other.binary[4:9] != run[0].binary[4:9]


def test_a_date_beyond_32_bits_wraps() -> None:
    class Far(_Noon):
        def utc(self) -> float:
            return 2.0**32 + 5

    assert ids.object_id(Far(), SeededRng(0)).binary[:4] == b"\0\0\0\5"


def test_a_uuid_is_a_random_one_of_version_4() -> None:
    rng = SeededRng(3)
    for _ in range(50):
        made = ids.uuid(rng)
        assert made.subtype == 4
        parsed = stdlib_uuid.UUID(bytes=bytes(made))
        assert parsed.version == 4
        assert parsed.variant == stdlib_uuid.RFC_4122
