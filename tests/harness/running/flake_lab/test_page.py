"""The lab's page: pass rates, the smallest schedule, and a run that passed beside the failure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from browsing import MISSING, Page
from made_results import HOSTILE, VIRTUAL, failed, result, retried

from harness.planning.plan import Item
from harness.planning.result import ResultStatus
from harness.running.flake_lab.cases import FlakyFailure, RepeatedCase
from harness.running.flake_lab.page import page

if TYPE_CHECKING:
    from pathlib import Path

ITEM = Item("spec/tiny::a", "tiny.yml", 0, "reference", "2026-07-08", "replicaset")
SCHEDULE = "to:node0=5ms start:12=0ms"


def of_runs(name: str, ends: str, *, smallest: str | None = None, reason: str = "late") -> RepeatedCase:
    """Return a case whose runs, with seeds from 0, ended as given: P for passed, F for failed."""
    case = RepeatedCase(replace(ITEM, id=name))
    for seed, end in enumerate(ends):
        made = result(timeline=retried()) if end == "P" else failed(reason=reason)
        case.add(replace(case.item, seed=seed), replace(made, id=name))
    if smallest is not None:
        disturbed = ("start:12=0ms  Pool._establish",)
        item = replace(case.item, seed=1, schedule=smallest)
        case.smallest = FlakyFailure(
            item, replace(failed(disturbed=disturbed, schedule=smallest, seed=1), id=name), 1, 1
        )
        case.tried = 10
    return case


CASES = [
    of_runs("spec/tiny::always", "PPP"),
    of_runs("spec/tiny::sometimes", "PFPF", smallest=SCHEDULE),
    of_runs(f"spec/tiny::{HOSTILE}", "FF", reason=HOSTILE),
]


def made(*cases: RepeatedCase) -> str:
    return page(cases, VIRTUAL.settings, created="2026-11-27 20:00 UTC")


def test_each_case_has_its_rate_and_interval_the_worst_first() -> None:
    text = made(*CASES)
    assert text.index("spec/tiny::sometimes [") < text.index("spec/tiny::always [")
    assert '<td data-name="rate">50.0%</td>' in text
    assert "50.0% passed, between 15.0% and 85.0%" in text


def test_a_failure_has_reasons_schedule_command_and_two_traces() -> None:
    text = made(CASES[1])
    assert "<li>2 times: late</li>" in text
    assert "<dt>start:12=0ms</dt><dd>the 12th task begins late (Pool._establish)</dd>" in text
    assert "The smallest of 10 that were tried; with it the case failed in 1 of 1 runs." in text
    assert "--schedule" in text
    assert "<figcaption>Passed, seed 0</figcaption>" in text
    assert f"<figcaption>Failed, seed 1, {SCHEDULE}</figcaption>" in text
    assert text.count('<svg xmlns="http://www.w3.org/2000/svg" class="picture"') == 2


def test_who_never_passed_has_one_trace_and_who_always_did_none() -> None:
    assert made(CASES[2]).count("<figure>") == 1
    assert "<figure>" not in made(CASES[0])
    assert "0 of 1 cases failed at least once" in made(CASES[0])


def test_a_case_that_is_skipped_is_counted_and_has_no_rate() -> None:
    case = RepeatedCase(ITEM)
    case.add(ITEM, result(status=ResultStatus.SKIPPED))
    assert "0 of 0 cases failed at least once, 1 skipped" in made(case)


def test_nothing_in_it_can_be_taken_for_markup_or_runs() -> None:
    text = made(*CASES)
    assert "<script" not in text
    assert "<img" not in text
    assert "default-src 'none'" in text


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_it_fits_a_phone_and_a_screen_in_light_and_dark(
    width: int, scheme: str, chromium: Page, tmp_path: Path
) -> None:
    path = tmp_path / "lab.html"
    path.write_text(made(*CASES), encoding="utf-8")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    chromium.chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chromium.emulate(prefers_color_scheme=scheme)
    chromium.chromium.get("about:blank")
    chromium.said(), chromium.requested()
    chromium.chromium.get(path.as_uri())
    assert chromium.run("return document.documentElement.scrollWidth") <= width
    paper = chromium.run("return getComputedStyle(document.querySelector('.card')).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 27, 34)"}[scheme]
    narrow = [each.size["width"] for each in chromium.all("caption, th[scope=row], figcaption")]
    assert min(narrow) > 100
    assert chromium.said() == []
    assert chromium.requested() == [path.as_uri()]
