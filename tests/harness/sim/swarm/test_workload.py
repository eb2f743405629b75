"""The work of the swarm's clients: drawn by seed, client and number alone."""

from __future__ import annotations

from dataclasses import replace

from harness.sim.swarm.schedule import WORK, Schedule
from harness.sim.swarm.workload import PlannedOperation, plan

WHOLE = Schedule(seed=5, work=WORK)


def plans(schedule: Schedule, client: int = 0, count: int = 400) -> list[PlannedOperation]:
    return [each for index in range(count) if (each := plan(schedule, client, index)) is not None]


def test_an_operation_depends_on_seed_client_and_number_alone() -> None:
    assert plans(replace(WHOLE, clients=9, operations=3, gap=1, workers=3)) == plans(WHOLE)
    assert plans(WHOLE, client=1) != plans(WHOLE)
    assert plans(replace(WHOLE, seed=6)) != plans(WHOLE)


def test_without_a_kind_of_work_the_other_operations_stay() -> None:
    fewer = replace(WHOLE, work=tuple(kind for kind in WORK if kind != "swap"))
    for index in range(400):
        before, after = plan(WHOLE, 0, index), plan(fewer, 0, index)
        assert before is not None
        assert after is not None
        assert after.kind != "swap"
        assert before.kind == "swap" or after == before


def test_every_kind_of_work_is_done() -> None:
    kinds = {planned.kind for index in range(400) if (planned := plan(WHOLE, 0, index)) is not None}
    assert kinds == set(WORK) - {"stream"}


def test_some_writes_are_unacknowledged_where_the_schedule_says_so() -> None:
    silent = [plan(replace(WHOLE, unacknowledged=True), 0, index) for index in range(400)]
    kinds = {each.kind for each in silent if each is not None and each.unacknowledged}
    assert kinds == {"insert", "delete", "push", "increment", "write"}
    assert not any(each.unacknowledged for each in plans(WHOLE))
    assert [replace(each, unacknowledged=False) for each in silent if each is not None] == plans(WHOLE)


def test_a_batch_writes_two_lists_and_a_document_where_one_command_can() -> None:
    batches = plans(replace(WHOLE, work=("batch",), bulk=True))
    assert {each.way for each in batches} == {"one", "bulk", "client bulk"}
    for index, each in enumerate(batches):
        lists = [key for key in each.argument if key.startswith("list:")]
        assert len({*lists}) == 2
        assert each.argument[2:] == ((f"document:{index}",) if each.way == "client bulk" else ())


def test_a_schedule_of_streams_alone_has_no_operations() -> None:
    assert plan(replace(WHOLE, work=("stream",)), 0, 0) is None


def test_a_single_server_is_not_asked_for_linearizable_reads() -> None:
    levels = [plan(Schedule(topology="single", work=("read",)), 0, index) for index in range(100)]
    assert {each.level for each in levels if each is not None} == {None}
