"""Every page that a command writes, as readers meet it: light and dark, on a desk and on a phone, by ear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest
import sizes
from browsing import DESK, MISSING, MISSING_AXE, PHONE, Page
from hunted import CLEAN, outcome
from made_results import REAL, VIRTUAL, every_status, failed, result, retried
from made_trials import trial

from fakeserver import BackgroundCluster, ClusterSpec
from fakeserver.deployment.records.operations import OperationTotals
from harness.authoring.mutants import page as mutants_page
from harness.authoring.mutants.mutant import CATALOGUE, load_mutants
from harness.cli import cli
from harness.hunt import page as hunt_page
from harness.hunt.hunting import Hunt
from harness.hunt.planning import Facts
from harness.hunt.wishes import Wishes
from harness.overload import defences, probing
from harness.overload.claims import CLAIMS, measure, report, section
from harness.overload.drill import Drill, Summary
from harness.overload.operations import SecondOfTotals
from harness.overload.policy import Decision, Sample, Settings
from harness.overload.policy.advice import GovernorAdvice
from harness.overload.sizing import Deployment, LimiterRun, Sizing
from harness.planning.plan import Item
from harness.report.matrix import Matrix
from harness.report.page import build
from harness.report.pages import frame
from harness.report.rules import page as rules_page
from harness.report.rules.rulebook import shown
from harness.report.rules.table import RuleTable
from harness.running.flake_lab.cases import RepeatedCase
from harness.running.flake_lab.page import page as lab_page
from harness.sim.article import files
from harness.sim.article.parameters import Strategy
from harness.sim.swarm import judging, run
from harness.sim.swarm.drawing import draw
from harness.sim.swarm.timeline import page_of
from harness.sim.sweep.summary import page as sweep_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.hunt.trial import Outcome
    from harness.hunt.wire import Strike

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def article(path: Path) -> None:
    files.write_page(path, [trial(), trial(Strategy.EXPONENTIAL), trial(Strategy.NO_RETRY, after=0)])


def claim(path: Path) -> None:
    made = [CLAIMS[name](200, 0) for name in ("jitter", "limiter")]
    measured = [(each, measure(each)) for each in made]
    sections = [section(each, report(each, outcomes), outcomes) for each, outcomes in measured]
    path.write_text(frame.page("What is claimed of overload", sections))


def overload(path: Path) -> None:
    numbers = {"offered": 1000.0, "goodput": 90.0, "rejected": 900.0, "late": 1.0, "of_limit": 0.9}
    trials = [{"defence": each.name, **numbers} for each in defences.DEFENCES]
    made = {"live": False, "seconds": 2.0, "capacity": 100.0, "trials": trials}
    path.write_text(defences.page(made, 2.0))


def probed(path: Path) -> None:
    trials = probing.trials([10, 40], 1.0)
    runs = [[probing.ProbePoint(at / 10, start + at, 100.0 * at) for at in range(50)] for start in (10, 40)]
    row = {"start": 10, "rule": "as specified", "tickets": 40.0, "of_best": 1.0}
    row |= {"throughput": 9000.0, "of_best_throughput": 0.9}
    made = {"best": 40, "clients": 100, "seconds": 1.0, "trials": [row]}
    path.write_text(probing.page(made | {"pressed": made}, trials, runs))


def drilled(path: Path) -> None:
    totals = OperationTotals()
    for number in range(20):
        command = {"insert": "orders", "lsid": {"id": bytes([number])}}
        totals.asked("c", number, command, number / 5)
        reply = {"ok": 0, "code": 463, "errorLabels": ["SystemOverloadedError"]} if number % 3 else {"ok": 1}
        totals.answered("c", number, reply, number / 5 + 0.1)
    seconds = {at: SecondOfTotals(5, at, at) for at in range(4)}
    made = Summary(Drill(ClusterSpec.standalone(), share=0.02), 1, totals, seconds)
    verdict = {"lines": ["verdict: 1 of 1 steps performed; 13 of 20 operations failed"]}
    path.write_text(made.page(("npm", "test"), verdict))


def limiter(path: Path) -> None:
    own = Deployment(capacity=100, peak=225, clients=1000, timeout=2.0, usual=50)
    goodput = {None: (5.0, 9.0), 50: (50.0, 50.0), 85: (84.0, 86.0), 100: (40.0, 100.0)}
    runs = [
        LimiterRun(rate, 100.0, value, 50.0, 0.5, 0.4, tuple([50.0] * 5 + [value] * 20 + [50.0] * 10))
        for rate, values in goodput.items()
        for value in values
    ]
    path.write_text(Sizing(own, 2, runs).page())


def governed(path: Path) -> None:
    advice = GovernorAdvice(1.0)
    for at in range(60):
        rate = float(40 + at)
        sample = Sample(
            seconds=0.25, admitted=rate, rejected=rate, finished=rate, queue_length=9, busy=True, delay=at / 9
        )
        advice.add(Decision(at / 4, sample, Settings(90)))
    path.write_text(advice.page("127.0.0.1:27017, policy aimd"))


def swarm(path: Path) -> None:
    schedule = draw(7)
    performed = run.perform(schedule)
    path.write_text(page_of(performed, judging.verdict_of(schedule, performed), title="Swarm, seed 7"))


def sweep(path: Path) -> None:
    measures = {
        "offered": 10.0,
        "goodput": 5.0,
        "attempts_per_success": None,
        "recovery_time": 1.5,
        "trace": "x",
    }
    rows = [{"seed": 0, "strategy.most": most, "clients": 100, **measures} for most in (1, 2, 5)]
    path.write_text(sweep_page(path.with_suffix(".yml"), rows))


def mutants(path: Path) -> None:
    catalogue = load_mutants(CATALOGUE)
    killers = {mutant.name: "client-backpressure/backoff.yml::some case" for mutant in catalogue[::2]}
    path.write_text(mutants_page.page(catalogue, killers))


def conformance(path: Path) -> None:
    matrix = Matrix()
    matrix.add(VIRTUAL, every_status())
    matrix.add(REAL, [result(adapter="pymongo"), failed(adapter="pymongo")])
    path.write_text(build(matrix, created="2026-11-21 12:00 UTC"))


def explained(path: Path) -> None:
    matrix = Matrix()
    matrix.add(VIRTUAL, [failed()])
    path.write_text(build(matrix, created="2026-11-21 12:00 UTC"))


def drivers(path: Path) -> None:
    group, case = shown()["RW-24"][0].case_id.split("::")
    table = RuleTable()
    table.add(REAL, [failed(case, group=group)])
    table.add(REAL, [result(case, group=group)], name="other")
    path.write_text(rules_page.build(table, created="2026-11-27 12:00 UTC"))


def flake_lab(path: Path) -> None:
    item = Item("spec/tiny::a", "tiny.yml", 0, "reference", "2026-07-08", "replicaset")
    case = RepeatedCase(item)
    case.add(item, result(timeline=retried()))
    case.add(item, failed())
    path.write_text(lab_page([case], VIRTUAL.settings, created="2026-11-27 20:00 UTC"))


def hunted_through(path: Path) -> None:
    def run(strikes: tuple[Strike, ...], _: float, number: int, __: object) -> Outcome:
        if not strikes:
            return outcome()
        fault = strikes[0].fault.name
        # A place in the middle of the faults, so that a page has every sign of its matrix.
        applied_twice = {**CLEAN, "shop.orders": [{"_id": 1}, {"_id": 2}]}
        found: dict[str, Any] = {"contents": applied_twice} if number % 3 == 0 else {}
        return outcome(fault, strikes[0].place, code=number % 2, **found)

    facts = Facts(is_replica_set=True, reads_secondaries=True)
    report = Hunt(run, facts, Wishes(60.0, pairs=False), lambda _: None).run()
    assert report.confirmed
    hunt_page.write(path, report, "npm test")


def traced(path: Path) -> None:
    with BackgroundCluster(ClusterSpec.standalone()) as server:
        server.fail_command("insert", error_code=96)
        path.write_text(server.control.trace_page("exec"))


PAGES: dict[str, Callable[[Path], None]] = {
    "conform": conformance,
    "drill": drilled,
    "drivers": drivers,
    "explain": explained,
    "govern": governed,
    "hunt": hunted_through,
    "mutants": mutants,
    "report": conformance,
    "simulate article": article,
    "simulate claim": claim,
    "simulate overload": overload,
    "simulate probing": probed,
    "simulate rate-limiter": limiter,
    "simulate swarm": swarm,
    "simulate sweep": sweep,
}
"""By the command that writes it."""

MAKERS = {make.__name__: make for make in (*PAGES.values(), flake_lab, traced)}
"""With those that a command writes in another mode."""


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        else:
            yield " ".join((*names, name)), command


def writes_a_page(command: click.Command) -> bool:
    return any(
        "--html" in option.opts or str(option.default or "").endswith(".html") for option in command.params
    )


def test_every_command_that_writes_a_page_is_here() -> None:
    assert sorted(PAGES) == sorted(name for name, command in commands(cli) if writes_a_page(command))


@pytest.fixture(scope="module", params=sorted(MAKERS))
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    MAKERS[request.param](path)
    return path


def opened(chromium: Page, path: Path) -> Page:
    chromium.chromium.get("about:blank")
    chromium.said(), chromium.requested()
    chromium.chromium.get(path.as_uri())
    if chromium.run("return document.scripts.length"):
        chromium.until(lambda: chromium.run("return document.documentElement.dataset.ready"))
    return chromium


def test_it_opens_without_a_complaint_asks_for_nothing_and_has_its_landmarks(
    chromium: Page, written: Path
) -> None:
    page = opened(chromium, written)
    assert page.said() == []
    assert page.requested() == [written.as_uri()]
    assert page.run("return document.title")
    for one in ("header", "main", "h1"):
        assert page.run(
            "return document.querySelectorAll(`body > ${arguments[0]}, body > * > ${arguments[0]}`).length",
            one,
        )


WAYS = ((DESK, "light"), (PHONE, "dark"), (PHONE, "light"), (DESK, "dark"))
"""How readers meet a page; the first two have both sizes and both schemes. Pages begin with them in turn."""


@pytest.mark.skipif(bool(MISSING_AXE), reason=MISSING_AXE)
@pytest.mark.parametrize("way", range(sizes.size("pages")))
def test_axe_finds_nothing_and_nothing_stands_out_to_the_side(
    chromium: Page, written: Path, way: int
) -> None:
    size, scheme = WAYS[(way + sorted(MAKERS).index(written.stem) % 2) % len(WAYS)]
    chromium.emulate(prefers_color_scheme=scheme)
    with chromium.sized(*size):
        page = opened(chromium, written)
        assert page.violations() == []
        assert page.beyond() == []


def test_every_picture_has_a_role_and_a_title(chromium: Page, written: Path) -> None:
    script = """
        return [...document.querySelectorAll('svg')]
            .filter(each => !each.closest('[aria-hidden]'))
            .filter(each => each.getAttribute('role') !== 'img'
                || !each.querySelector(':scope > title')?.textContent)
            .map(each => each.outerHTML.slice(0, 200));
    """
    assert opened(chromium, written).run(script) == []


def test_a_phone_shows_a_long_timeline_in_a_window_of_its_own(chromium: Page, tmp_path: Path) -> None:
    swarm(tmp_path / "swarm.html")
    with chromium.sized(*PHONE):
        page = opened(chromium, tmp_path / "swarm.html")
        assert page.run("return document.documentElement.scrollHeight") < 5 * PHONE[1]
        assert page.run("return document.querySelector('.tall').scrollHeight") > 5 * PHONE[1]
