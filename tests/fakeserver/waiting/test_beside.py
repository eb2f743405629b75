"""What takes long and has no yield points runs beside the requests (fakeserver/waiting/beside.py)."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from talking import STANDALONE, Deployment, play_live
from turns import Request

from fakeserver.storage.scripts.javascript import Runtime
from fakeserver.storage.values.stored import stored
from fakeserver.waiting.beside import beside, library_beside
from fakeserver.waiting.interrupts import GAVE_WAY, Worker, in_one_turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HERE = threading.get_ident()


def begun(work: Callable[[], Any], *, is_real: bool = True) -> tuple[Worker, Any]:
    """Do work on a stack of its own for one turn; an error is its result."""

    def walk(*_: object) -> Any:
        try:
            return work()
        except ValueError as error:
            return error

    worker = Worker(time.monotonic, is_real=is_real)
    return worker, worker.call(walk, Request(), 0.0, 0.0)


def ended(worker: Worker, answer: Any) -> Any:
    """Go on until there is an answer."""
    while answer is GAVE_WAY:
        answer = worker.resume(0.0)
    return answer


def test_who_waits_for_a_thread_gives_way_until_it_has_ended() -> None:
    over = threading.Event()
    worker, answer = begun(lambda: beside(lambda: over.wait(10)))
    assert answer is GAVE_WAY
    over.set()
    assert ended(worker, answer) is True


def test_what_goes_wrong_beside_is_raised_where_it_was_called() -> None:
    worker, answer = begun(lambda: beside(lambda: int("x")))
    assert isinstance(ended(worker, answer), ValueError)


def test_where_nobody_can_have_a_turn_no_thread_is_needed() -> None:
    def in_one() -> int:
        with in_one_turn():
            return beside(threading.get_ident)

    assert beside(threading.get_ident) == HERE
    assert begun(in_one)[1] == HERE
    assert begun(lambda: beside(threading.get_ident), is_real=False)[1] == HERE


@pytest.mark.slow
def test_a_search_through_a_long_text_is_ended_by_its_time_limit() -> None:
    async def scenario(deployment: Deployment) -> None:
        searching = await deployment.connect()
        text = "ab" * 2_000_000 + "c"
        find = {"aggregate": 1, "pipeline": [{"$documents": [{}]}, {"$project": {"x": {"$regexMatch": {
            "input": text, "regex": "(a|b)*c"}}}}], "cursor": {}, "maxTimeMS": 10, "$db": "db"}  # fmt: skip
        assert (await searching.fails(find))["code"] == 50

    play_live(scenario, STANDALONE)


def test_a_library_that_a_request_gave_up_waiting_for_is_never_had_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import time\ntime.sleep(0.2)\nmade = True\n"
    (tmp_path / "slow_to_make.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    worker, answer = begun(lambda: library_beside("slow_to_make"))
    assert answer is GAVE_WAY
    worker.end()
    assert library_beside("slow_to_make").made


BUSY = "let sum = 0; for (let i = 0; i < 1e6; i++) { sum += i; } return sum > 0;"


def runtime() -> Runtime:
    pytest.importorskip("quickjs", reason="scripts need the extra javascript")
    return Runtime(epoch=0.0, longest=0.0, seed=1)


def test_a_script_that_runs_long_gives_way_and_so_does_the_call_after_it() -> None:
    scripts = runtime()
    number = scripts.compile(BUSY)
    for _ in range(2):
        worker, answer = begun(lambda: scripts.where(number, {}))
        assert answer is GAVE_WAY
        assert ended(worker, answer) is True


def test_a_short_call_is_made_beside_the_event_loop_where_it_gets_much() -> None:
    scripts = runtime()
    number = scripts.compile("true")
    assert scripts.where(number, {})
    assert begun(lambda: scripts.where(number, {}))[1] is True
    large = {"a": list(range(20_000))}
    for each in (large, {"b": large}, stored(large)):
        worker, answer = begun(partial(scripts.where, number, each))
        assert answer is GAVE_WAY
        assert ended(worker, answer) is True
