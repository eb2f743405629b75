"""What readings advise: a rate where a server was busy, none where it was not, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from threaded_server import serving

from fakeserver import ClusterSpec
from harness.commands.govern import command
from harness.overload import Trial, step
from harness.overload.policy import Aimd, Decision, Sample
from harness.overload.policy.advice import GovernorAdvice, burst_of
from harness.overload.trial import play

if TYPE_CHECKING:
    from pathlib import Path


def _decision(at: float, *, finished: float = 100.0, busy: bool = True, delay: float = 0.5) -> Decision:
    sample = Sample(
        seconds=0.25,
        admitted=finished,
        rejected=0.0,
        finished=finished,
        queue_length=int(busy),
        busy=busy,
        delay=delay,
    )
    return Decision(at, sample, None)


def _advice(decisions: list[Decision], timeout: float | None = None) -> GovernorAdvice:
    advice = GovernorAdvice(timeout)
    for decision in decisions:
        advice.add(decision)
    return advice


def test_the_rate_is_nine_tenths_of_the_lowest_part_of_the_busy_time() -> None:
    falling = [_decision(float(at), finished=200 - 20 * (at // 10)) for at in range(50)]
    advice = _advice(falling)
    assert advice.to_document()["capacity"] == {"least": 120, "mean": 160, "most": 200}
    assert advice.rate == 108
    head, *reasons = advice.sentences()
    assert head.startswith("Set ingressRequestAdmissionRatePerSec to 108 ")
    assert "160 operations/s" in reasons[0]
    assert "120 to 200" in reasons[0]


def test_a_server_that_was_not_busy_needs_no_limit() -> None:
    calm = [_decision(float(at), finished=30 + at, busy=False, delay=0.004) for at in range(60)]
    advice = _advice([*calm, *(_decision(60.0 + at) for at in range(5))])
    assert advice.rate is None
    assert advice.sentences()[0].startswith("Leave the request rate limiter off")
    assert "5 of 65 readings" in advice.sentences()[1]


@pytest.mark.parametrize(
    ("timeout", "said"), [(0.2, "in 40 of 40 readings longer"), (2.0, "nothing has been lost")]
)
def test_the_clients_timeout_says_whether_a_queue_does_harm(timeout: float, said: str) -> None:
    sentences = _advice([_decision(float(at)) for at in range(40)], timeout).sentences()
    assert [each for each in sentences if said in each]


def test_without_two_readings_there_is_nothing_to_advise() -> None:
    assert _advice([]).lines(60) == ["There were no two readings to compare: nothing to advise."]
    assert "nothing to advise" in _advice([]).page("")


@pytest.mark.parametrize("width", [40, 60, 100])
def test_the_picture_fits_the_terminal(width: int) -> None:
    lines = _advice([_decision(float(at), finished=at + 1) for at in range(500)]).lines(width)
    picture = lines[: lines.index("")]
    assert [line.split()[0] for line in picture] == ["finished", "queued"]
    assert all(len(line) <= width for line in picture)
    assert picture[0].split()[1][0] == "▁"
    assert picture[0].split()[1][-1] == "█"


def test_a_long_run_is_thinned_and_keeps_its_end() -> None:
    advice = _advice([_decision(float(at)) for at in range(50_000)])
    document = advice.to_document()
    assert document["readings"] <= 20_000
    assert document["capacity"] == {"least": 100, "mean": 100, "most": 100}
    assert "ends at 500" in advice.picture()


def test_of_a_long_run_the_beginning_counts_as_much_as_the_end() -> None:
    halves = [_decision(float(at), finished=100 if at < 50_000 else 300) for at in range(100_000)]
    assert _advice(halves).to_document()["capacity"]["mean"] == pytest.approx(200, rel=0.01)


@pytest.mark.parametrize(("rate", "seconds"), [(1000, 0.1), (20, 0.1), (4, 0.5)])
def test_a_burst_has_room_for_whole_tokens(rate: int, seconds: float) -> None:
    assert burst_of(rate) == seconds


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Aimd, lambda: None], ids=["aimd", "observe"])
def test_the_capacity_that_it_finds_is_that_of_the_server(policy: type[Aimd]) -> None:
    report = play(Trial(plan=step(50, 300, seconds=20), policy=policy), live=False)
    advice = _advice(list(report.decisions))
    assert advice.rate is not None
    assert 75 <= advice.rate <= 95
    assert advice.capacity is not None
    assert advice.capacity[1] == pytest.approx(100, rel=0.1)


@pytest.mark.slow
def test_the_command_line_that_observes_sets_nothing_and_writes_its_page(tmp_path: Path) -> None:
    page, picture = tmp_path / "readings.html", tmp_path / "readings.svg"
    with serving(ClusterSpec.standalone()) as server:
        uri = "mongodb://{}:{}".format(*server.address)
        words = ["--policy", "observe", "--interval", "50ms", "--seconds", "0.5", "--timeout", "2s"]
        told = CliRunner().invoke(command, [uri, *words, "--html", str(page), "--plot", str(picture)])
        as_json = CliRunner().invoke(command, [uri, *words, "--json"])
    assert told.exit_code == 0, told.output
    assert "->" not in told.output
    assert "Leave the request rate limiter off" in told.output
    assert json.loads(as_json.stdout)["rate"] is None
    names = [record.event._asdict()["name"] for record in server.cluster.journal.of_kind("commandFinished")]
    assert "setParameter" not in names
    assert "Leave the request rate limiter off" in page.read_text()
    assert picture.read_text().startswith("<svg")


@pytest.mark.parametrize(
    "words",
    [
        ["--policy", "observe", "--connections"],
        ["--policy", "observe", "--capacity", "20/s"],
        ["--policy", "follow-throughput", "--capacity", "20/s"],
        ["--capacity", "20"],
        ["--timeout", "0s"],
    ],
)
def test_numbers_that_a_policy_has_no_use_for_are_refused(words: list[str]) -> None:
    assert CliRunner().invoke(command, ["mongodb://127.0.0.1:1", *words]).exit_code == 2


def test_a_known_capacity_is_where_aimd_begins() -> None:
    calm = _decision(0.0, busy=False, delay=0.0).sample
    assert Aimd(capacity=2000).decide(calm, 0.0).request_rate == 1800
