from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browsing import MISSING, Page
from made_results import HOSTILE, REAL, VIRTUAL, every_status, failed, result, retried
from selenium.webdriver.common.keys import Keys

from harness.planning.result import ResultStatus
from harness.report.matrix import Matrix
from harness.report.page import build

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from harness.planning.result import Result

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

CASE = "#case=retryable-writes%2FinsertOne%3A%3Ainsert%20once"
PYMONGO = "&column=pymongo%2F2026-07-08%2Freplicaset%2Freal%2F8.2.3"


def written(folder: Path, *runs: Iterable[Result]) -> Path:
    matrix = Matrix()
    for run, results in zip((VIRTUAL, REAL), runs, strict=False):
        matrix.add(run, results)
    path = folder / "report.html"
    path.write_text(build(matrix, created="2026-11-21 12:00 UTC"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two drivers; the second passes what the first fails."""
    other = [result(adapter="pymongo"), result("insert once", adapter="pymongo", timeline=retried())]
    backoff = [
        result(case, adapter=adapter, group="client-backpressure/backoff")
        for adapter in ("reference", "pymongo")
        for case in ("waits", "waits longer")
    ]
    return written(tmp_path_factory.mktemp("report"), [*every_status(), *backoff[:2]], [*other, *backoff[2:]])


@pytest.fixture
def page(chromium: Page, report: Path) -> Page:
    chromium.emulate()
    return chromium.open(report)


def test_the_page_opens_without_a_complaint_and_asks_for_nothing_else(page: Page, report: Path) -> None:
    page.one(".case .cell.F").click()
    page.one("#case .picture")
    assert page.said() == []
    assert page.requested() == [report.as_uri()]


def test_rows_are_cases_by_specification_and_file_and_columns_are_drivers(page: Page) -> None:
    assert page.texts("thead th b") == ["Case", "reference", "pymongo"]
    assert [text.split("\n")[0] for text in page.texts(".spec .name, .file .name")] == [
        "client-backpressure",
        "backoff",
        "retryable-writes",
        "insertOne",
    ]
    assert page.texts(".case .name")[:4] == ["waits", "waits longer", "insert again", "insert once"]


def test_a_cell_has_a_letter_beside_its_colour_and_the_time_that_it_took(page: Page) -> None:
    row = page.all(".case")[3]
    assert row.text.split() == ["insert", "once", "F", "13", "ms", "P", "13", "ms"]
    cell = page.one(".case .cell.F")
    assert cell.get_attribute("aria-label") == "failed in 13 ms: reference · replicaset · virtual time"


def test_every_column_has_its_totals(page: Page) -> None:
    assert page.texts("thead .sum") == ["3 of 8 2 F 1 U 1 K 1 skipped", "4"]
    assert page.texts(".spec .sum") == ["2", "2", "1 of 6 2 F 1 U 1 K 1 skipped", "2"]


def test_a_click_on_a_cell_opens_the_case_with_all_that_explains_it(page: Page) -> None:
    page.one(".case .cell.F").click()
    text = page.one("#case .body").text
    for told in (
        "failed in 13 ms of virtual time — reference (edition 2026-07-08) on replicaset, virtual time,",
        "server 8.2.3",
        "events[1].command.txnNumber: must be 1, is 2",
        "retryable-writes/insertOne.yml:31",
        "first divergence",
        "The driver took a new transaction number for the retry.",
        "commandFailedEvent",
        "pushbackd conform retryable-writes/insertOne.yml",
    ):
        assert told in text
    assert [text.strip() for text in page.texts(".diff .want, .diff .got")] == [
        '"txnNumber": 1',
        '"txnNumber": 2',
    ]
    assert [each.get_attribute("class") for each in page.all(".events tbody tr")] == [
        "same",
        "differs first",
        "missing",
    ]
    assert "attempt 2" in page.texts("#case .picture .retry")
    assert len(page.all(".timeline tbody tr")) == len(retried())


def test_an_address_leads_to_a_case_in_a_column(page: Page, report: Path) -> None:
    page.open(report, CASE + PYMONGO)
    assert page.one("#case-title").text == "insert once"
    assert page.one("#case .verdict").text.startswith("passed in 13 ms — pymongo")
    assert page.texts("#case [aria-current]") == ["P\npymongo"]


def test_an_address_without_a_column_leads_to_the_worst_of_them(page: Page, report: Path) -> None:
    page.open(report, CASE)
    assert page.one("#case .verdict").text.startswith("failed")


def test_an_address_that_the_report_does_not_know_is_told(page: Page, report: Path) -> None:
    page.open(report, "#case=nobody%2Fknows%3A%3Ait")
    assert page.one("#case .body").text == "This report has no result of nobody/knows::it"
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.all("#case"))


def test_back_leads_to_the_matrix_and_forward_to_the_case(page: Page) -> None:
    page.one(".case .cell.F").click()
    page.one("#case .picture")
    page.chromium.back()
    page.until(lambda: not page.all("#case"))
    page.chromium.forward()
    page.one("#case .picture")
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.all("#case"))
    assert page.run("return location.hash") == ""


def test_keys_turn_columns_and_cases_and_back_still_leads_to_the_matrix(page: Page) -> None:
    page.one(".case .cell.F").click()
    page.one("#case .picture")
    page.press(Keys.ARROW_RIGHT)
    page.until(lambda: page.texts("#case [aria-current]") == ["P\npymongo"])
    page.press("n")
    page.until(lambda: page.one("#case-title").text == "is skipped")
    page.press("p")
    page.until(lambda: page.one("#case-title").text == "insert once")
    page.chromium.back()
    page.until(lambda: not page.all("#case"))


def test_the_whole_way_is_walked_by_keys(page: Page) -> None:
    page.press("/")
    page.until(lambda: page.run("return document.activeElement.id") == "text")
    page.press("again")
    page.until(lambda: page.texts(".case .name") == ["insert again"])
    page.run("document.querySelector('.spec .toggle').focus()")
    page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER)
    page.until(lambda: page.texts("#case [aria-current]") == ["P\npymongo"])


def test_groups_open_and_close(page: Page) -> None:
    page.one(".spec .toggle").click()
    page.until(lambda: page.texts(".file .name") == ["insertOne\n6 cases"])
    page.one("#close").click()
    assert page.all(".file") == []
    page.one(".spec .toggle").send_keys(Keys.ENTER)
    assert page.texts(".file .name") == ["backoff\n2 cases"]
    assert page.run("return document.activeElement.getAttribute('aria-expanded')") == "true"
    page.one("#open").click()
    assert len(page.all(".case")) == 8


@pytest.mark.parametrize(
    ("selector", "cases", "count"),
    [
        (".chip.F", ["insert once", HOSTILE[:9]], "2 of 8 cases"),
        (".chip.U", ["passes for once"], "1 of 8 cases"),
        ("#differ", ["insert once"], "1 of 8 cases"),
        ("#spec option[value=client-backpressure]", ["waits", "waits longer"], "2 of 8 cases"),
    ],
)
def test_filters_leave_what_was_asked_for(page: Page, selector: str, cases: list[str], count: str) -> None:
    page.one(selector).click()
    page.until(lambda: page.one("#count").text == count)
    found = page.texts(".case .name")
    assert [text[: len(case)] for text, case in zip(found, cases, strict=True)] == cases


def test_a_search_finds_words_anywhere_in_a_case_s_name(page: Page) -> None:
    page.one("#text").send_keys("BACKOFF longer")
    page.until(lambda: page.texts(".case .name") == ["waits longer"])
    page.one("#text").send_keys(" nowhere")
    page.until(lambda: page.texts("#none") == ["No case is like that."])


def test_columns_can_be_hidden(page: Page) -> None:
    page.one("#choice summary").click()
    page.one("#columns input[value=reference]").click()
    page.until(lambda: page.texts("thead th b") == ["Case", "pymongo"])
    assert page.texts("thead .sum") == ["4"]


def test_nothing_that_a_case_says_becomes_part_of_the_page(page: Page) -> None:
    row = next(row for row in page.all(".case") if "onerror" in row.text)
    row.find_element("css selector", ".cell").click()
    assert "<img src=x onerror=alert(1)>" in page.one("#case .body").text
    assert page.all("#case img, #case .picture img, #case script") == []
    assert page.said() == []


def test_dark_and_light_are_both_there(page: Page) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        page.emulate(prefers_color_scheme=scheme)
        grounds.add(page.run("return getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_on_paper_are_the_results_and_no_buttons(page: Page) -> None:
    page.emulate(media="print")
    assert page.all("#filters, footer kbd") == []
    assert len(page.all(".case")) == 8


def test_a_narrow_window_shows_names_and_cells(page: Page) -> None:
    page.chromium.set_window_size(520, 900)
    try:
        assert page.one(".case .name").is_displayed()
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        page.chromium.set_window_size(1400, 1000)


def test_a_large_report_is_small_and_opens_at_once(chromium: Page, tmp_path: Path) -> None:
    def cases(adapter: str, topology: str) -> Iterator[Result]:
        for number in range(1000):
            status = ResultStatus.SKIPPED if number % 3 else ResultStatus.PASSED
            timeline = () if number % 3 else retried(wait=0.2 + number / 1e5)
            group = f"spec-{number // 100}/file-{number // 20}"
            yield result(
                f"case {number}", status, group=group, adapter=adapter, topology=topology, timeline=timeline
            )

    topologies = ("single+auth", "replicaset", "sharded", "load-balanced+auth")
    path = written(
        tmp_path,
        [each for topology in topologies for each in cases("reference", topology)],
        [each for topology in topologies for each in cases("pymongo", topology)],
    )
    assert path.stat().st_size < 2_000_000
    chromium.emulate()
    chromium.open(path)
    took = chromium.run(
        "return performance.now() - performance.getEntriesByType('navigation')[0].responseStart"
    )
    assert took < 10_000
    assert len(chromium.all("tbody tr")) == 10, "many cases stay in their groups until somebody opens them"
    chromium.one("#text").send_keys("case 999")
    chromium.until(lambda: chromium.texts(".case .name") == ["case 999"])


def test_a_case_that_failed_in_one_column_and_was_skipped_in_another_opens_the_failure(
    chromium: Page, tmp_path: Path
) -> None:
    skipped = result("insert once", ResultStatus.SKIPPED, adapter="pymongo", reason="needs topology sharded")
    chromium.open(written(tmp_path, [failed()], [skipped]))
    chromium.one(".case .name a").click()
    assert chromium.one("#case .verdict").text.startswith("failed")
    chromium.press(Keys.ARROW_RIGHT)
    chromium.until(lambda: "needs topology sharded" in chromium.one("#case .verdict").text)


def test_a_report_of_one_case_opens_it_and_its_matrix_is_a_key_away(chromium: Page, tmp_path: Path) -> None:
    page = chromium.open(written(tmp_path, [failed()]))
    assert page.one("#case h2").text
    page.one("#case .body").send_keys(Keys.ESCAPE)
    assert page.texts(".case .name") == ["insert once"]
    assert not page.all("#case[open]")


def test_of_a_single_run_the_failures_are_open_and_what_passed_is_not(chromium: Page, tmp_path: Path) -> None:
    passed = result("passes", group="sessions/all-is-well")
    page = chromium.open(written(tmp_path, [failed(), passed]))
    assert page.texts(".case .name") == ["insert once"]
    assert [text.split("\n")[0] for text in page.texts(".spec .name")] == ["retryable-writes", "sessions"]
    page = chromium.open(written(tmp_path, [passed]))
    assert page.texts(".case .name") == [] or page.one("#case h2").text == "passes"


def test_what_was_expected_is_green_and_what_came_is_red(page: Page) -> None:
    page.one(".case .cell.F").click()
    page.one("#case .picture")
    colour = "return getComputedStyle(document.querySelector(arguments[0])).backgroundColor"
    wanted, got = (page.run(colour, f"#case .diff .{kind}") for kind in ("want", "got"))
    assert wanted == page.run("return getComputedStyle(document.querySelector('.letter.P')).backgroundColor")
    assert got == page.run("return getComputedStyle(document.querySelector('.letter.F')).backgroundColor")
    assert page.all("#case .events .want")
    assert page.all("#case .events .got")


def test_virtual_time_says_so(page: Page) -> None:
    assert "virtual time" in page.texts("thead th")[1] + page.texts("thead th")[2]
    page.one(".case .cell.F").click()
    assert page.one("#case .timeline th").text == "virtual ms"
