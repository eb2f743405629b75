"""The live page, in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from browsing import MISSING, MISSING_AXE, Page
from pymongo import MongoClient
from selenium.webdriver.common.keys import Keys

from fakeserver import BackgroundCluster, ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.deployment.doors import Served

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

HOSTILE = "<script>document.title='owned'<script>"
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
UNNAMED = """
    return [...document.querySelectorAll('button, input, select, textarea, [role=button]')]
        .filter(each => each.checkVisibility())
        .filter(each => !(each.textContent.trim() || each.ariaLabel || each.labels?.length))
        .map(each => each.outerHTML);
"""


@pytest.fixture(scope="module")
def running() -> Iterator[BackgroundCluster]:
    with (
        BackgroundCluster(ClusterSpec.replica_set(3, profile="9.0")) as deployment,
        MongoClient[dict[str, Any]](deployment.uri, appname=HOSTILE) as client,
    ):
        client["<script>alert(1)<script>"]["orders"].insert_one({})
        yield deployment


@pytest.fixture(scope="module")
def served(running: BackgroundCluster) -> Served:
    return running.serve_ui()


@pytest.fixture
def page(chromium: Page, served: Served) -> Page:
    chromium.chromium.get("about:blank")
    chromium.said(), chromium.requested()
    chromium.chromium.get(served.page)
    ready(chromium)
    return chromium


def ready(page: Page) -> None:
    page.until(lambda: page.run("return document.documentElement.dataset.ready"))


def verb(page: Page, name: str) -> None:
    """Choose a verb."""
    page.run("document.querySelector(arguments[0]).click()", f"#verb-list [data-key={name}]")
    page.until(lambda: page.texts("#verb-form h3") == [name])


def text(page: Page, selector: str) -> str:
    """Return the text in an element, which may be long."""
    found: str = page.run("return document.querySelector(arguments[0]).textContent", selector)
    return found


def process(page: Page, node: str) -> str:
    found: str = page.one(f'.server[data-key="{node}"]').get_attribute("data-process") or ""
    return found


def test_it_opens_with_the_token_and_asks_for_nothing_from_elsewhere(page: Page, served: Served) -> None:
    assert sorted(page.texts(".server .name")) == ["node0", "node1", "node2"]
    assert sorted(page.texts(".server .role")) == ["primary", "secondary", "secondary"]
    assert page.texts("#pulse-text") == ["live"]
    assert page.chromium.current_url == f"{served.url}/"
    assert page.said() == []
    assert {url.split("/")[2] for url in page.requested()} == {served.url.removeprefix("http://")}


def test_names_that_clients_choose_are_text(page: Page) -> None:
    page.until(lambda: HOSTILE in text(page, "#clients"))
    page.until(lambda: "insert <script>alert(1)<script>.orders" in text(page, "#records"))
    assert page.run("return document.querySelectorAll('main script').length") == 0
    assert page.chromium.title == "pushbackd · replica set"


def test_a_server_is_paused_from_its_card_and_resumed_from_the_list(page: Page) -> None:
    page.one('.server[data-key="node2"]').send_keys(Keys.ENTER)
    pause = next(each for each in page.all("dialog .choice") if each.text == "pause")
    pause.click()
    page.one("dialog .primary").click()
    page.until(lambda: process(page, "node2") == "paused")
    assert page.texts("dialog .done")[0].startswith("Done")
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.all("dialog"))
    page.one('[aria-label^="End: node2 paused"]').click()
    page.until(lambda: process(page, "node2") == "running")


def test_a_wrong_argument_is_shown_at_its_field(page: Page) -> None:
    verb(page, "stepDown")
    page.one("#verb-form [name=seconds]").send_keys("soon", Keys.ENTER)
    page.until(lambda: page.texts("#verb-form .error"))
    assert "is no duration" in page.texts("#verb-form .error")[0]
    assert page.run("return document.activeElement.name") == "seconds"
    assert page.one("#verb-form [name=seconds]").get_attribute("aria-invalid") == "true"


def test_a_slider_limits_the_rate_of_requests(page: Page, running: BackgroundCluster) -> None:
    slider = page.one("#sliders [data-key=requests]")
    slider.send_keys(Keys.ARROW_RIGHT)
    page.until(lambda: running.call(lambda: running.node("node0").admission.limits_requests))
    page.until(lambda: page.all(".gauge.rate"))
    page.one("#sliders input[type=checkbox]").click()
    page.until(lambda: not running.call(lambda: running.node("node0").admission.limits_requests))


def test_the_journal_streams_and_is_filtered(page: Page, running: BackgroundCluster) -> None:
    with MongoClient[dict[str, Any]](running.uri) as client:
        client.shop.orders.insert_one({"_id": "streamed"})
        client.shop.orders.find_one()
    page.one("#journal-filter").send_keys("find shop.orders")
    page.until(lambda: "find shop.orders" in text(page, "#records"))
    assert "insert" not in text(page, "#records")
    page.all(".record")[0].click()
    page.until(lambda: '"reply"' in page.texts("#records pre")[0])
    page.one("#journal-filter").clear()


def test_without_the_token_it_asks_for_it(page: Page, served: Served) -> None:
    page.chromium.delete_all_cookies()
    page.chromium.get("about:blank")
    page.chromium.get(served.url)
    ready(page)
    assert not page.all("main")
    page.one("#entry-token").send_keys("wrong", Keys.ENTER)
    page.until(lambda: page.texts("#entry-error") != [""])
    page.run("document.querySelector('#entry-token').value = ''")
    page.one("#entry-token").send_keys(served.token, Keys.ENTER)
    page.until(lambda: page.all(".server"))


def test_everything_has_a_name_and_a_place_on_a_phone_in_the_dark(page: Page) -> None:
    assert page.run(UNNAMED) == []
    light = page.run("return getComputedStyle(document.body).backgroundColor")
    page.emulate(prefers_color_scheme="dark")
    page.chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        assert page.run("return getComputedStyle(document.body).backgroundColor") != light
        assert page.run("return [innerWidth, document.documentElement.scrollWidth]") == [390, 390]
        assert page.run(UNNAMED) == []
    finally:
        page.chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.emulate()


@pytest.mark.skipif(bool(MISSING_AXE), reason=MISSING_AXE)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(390, 844), (1280, 900)], ids=["phone", "desk"])
def test_axe_finds_nothing(
    page: Page, running: BackgroundCluster, size: tuple[int, int], scheme: str
) -> None:
    running.control.perform("limits", {"requests": "100/s", "connections": "50/s"})
    running.control.perform("pause", {"node": "node2"})
    page.emulate(prefers_color_scheme=scheme)
    try:
        with page.sized(*size):
            page.until(lambda: page.texts("#faults b").count("limits") == 1)
            page.until(lambda: process(page, "node2") == "paused")
            assert page.violations() == []
            assert page.beyond() == []
    finally:
        running.control.perform("resume", {"node": "node2"})
        running.control.perform("limits", {"off": True})
        page.emulate()


def test_limits_in_force_say_their_numbers(page: Page, running: BackgroundCluster) -> None:
    running.control.perform("limits", {"requests": "70/s", "requestsBurst": "2s"})
    try:
        page.until(lambda: "limits" in page.texts("#faults b"))
        assert "requests 70/s, burst 2 s · on every server" in page.texts("#faults .what")
    finally:
        running.control.perform("limits", {"off": True})


def test_a_server_that_is_cut_off_still_runs(page: Page, running: BackgroundCluster) -> None:
    running.control.perform("partition", {"groups": [["node0", "node1", "clients"], ["node2"]]})
    try:
        page.until(lambda: process(page, "node2") == "unreachable")
        assert page.texts("#topology-facts")[0].startswith("3 of 3 servers running · 1 cut off")
    finally:
        running.control.perform("heal")


def test_requests_have_percentiles_and_ten_minutes(page: Page, running: BackgroundCluster) -> None:
    with MongoClient[dict[str, Any]](running.uri) as client:
        client.shop.orders.insert_one({})
    page.until(lambda: page.texts("#latency")[0].startswith("p50 "))
    page.one("#ranges [data-range=long]").click()
    page.until(lambda: page.texts("#chart .from") == ["10 min ago"])
    page.until(lambda: page.run("return document.querySelectorAll('#chart .bar.ok').length"))
    page.until(lambda: "the last ten minutes" in (page.one("#chart svg").get_attribute("aria-label") or ""))


def test_addresses_and_drivers_are_whole_and_no_age_is_zero(page: Page) -> None:
    page.until(lambda: page.all("#clients tbody tr"))
    clipped = page.run(
        "return [...document.querySelectorAll('#clients td, #uri, .server .name')].filter("
        "each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth).map(each => each.textContent)"
    )
    assert clipped == []
    assert not re.search(r"\b0 s\b", text(page, "main"))
