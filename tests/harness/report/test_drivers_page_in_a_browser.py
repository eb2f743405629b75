from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browsing import MISSING, Page
from made_results import REAL, failed, result

from harness.report.rules import page as rules_page
from harness.report.rules.rulebook import shown
from harness.report.rules.table import RuleTable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

NOTE = shown()["RW-24"][0]
GROUP, CASE = NOTE.case_id.split("::")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two drivers; the second passes what the first fails."""
    table = RuleTable()
    table.add(REAL, [failed(CASE, group=GROUP)])
    table.add(REAL, [result(CASE, group=GROUP)], name="other")
    path = tmp_path_factory.mktemp("drivers") / "drivers.html"
    path.write_text(rules_page.build(table, created="2026-11-27 12:00 UTC"), encoding="utf-8")
    return path


@pytest.fixture
def page(chromium: Page, written: Path) -> Page:
    chromium.chromium.get("about:blank")
    chromium.said(), chromium.requested()
    chromium.chromium.get(written.as_uri())
    return chromium


def test_it_opens_without_a_complaint_and_asks_for_nothing_else(page: Page, written: Path) -> None:
    page.one("td.broken summary").click()
    assert CASE in page.one("td.broken details").text
    assert page.said() == []
    assert page.requested() == [written.as_uri()]


def visible_rows(page: Page) -> int:
    script = "return [...document.querySelectorAll('main tbody tr')].filter(row => row.offsetParent).length"
    return int(page.run(script))


def test_a_specification_or_what_differs_is_chosen_without_a_script(page: Page) -> None:
    everything = visible_rows(page)
    page.one("#only-RW").click()
    one = visible_rows(page)
    assert 0 < one < everything
    page.one("#differs").click()
    assert visible_rows(page) == len([rule for rule in NOTE.rules if rule.startswith("RW-")])


def test_a_phone_needs_no_scrolling_to_the_side(page: Page) -> None:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert (
            page.run("""
            return [...document.querySelectorAll('body *')]
                .filter(each => each.getBoundingClientRect().right > 390 && !each.closest('.numbers'))
                .slice(0, 5).map(each => each.outerHTML.slice(0, 200));
        """)
            == []
        )
    finally:
        page.chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
