"""A real browser for tests of pages: Chromium, without a window, steered by its own driver."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from selenium.webdriver.remote.webelement import WebElement


def _places(package: str) -> Sequence[str]:
    found = find_spec(package)
    return found.submodule_search_locations or () if found else ()


_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Names of programs. The first has no window that it could draw: it starts in a third of the time."""

BROWSER = next(filter(None, map(shutil.which, _BROWSERS)), None)
STEERING = shutil.which("chromedriver")
MISSING = (
    ""
    if BROWSER and STEERING
    else "no Chromium with its chromedriver is installed (apt-get install chromium-driver)"
)

AXE = next((Path(place) / "axe.min.js" for place in _places("axe_core_python")), None)
MISSING_AXE = "" if AXE else "axe-core is not installed (pip install axe-core-python)"

PHONE = (390, 844)
DESK = (1280, 900)

_PATIENCE = 30.0
"""Seconds until what a page should show is missed: a machine that runs tests has other things to do."""

_FLAGS = (
    *(() if "headless-shell" in str(BROWSER) else ("--headless=new",)),
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--window-size=1400,1000"),
)


class Page:
    """What a reader sees and does."""

    def __init__(self, chromium: webdriver.Chrome) -> None:
        self.chromium = chromium

    def open(self, path: Path, fragment: str = "") -> Page:
        """Open a report anew, and wait until it is there."""
        self.chromium.get("about:blank")
        self.said(), self.requested()
        self.chromium.get(f"{path.as_uri()}{fragment}")
        self.until(lambda: self.run("return document.documentElement.dataset.ready"))
        return self

    def forget(self) -> None:
        """Begin anew, as for another reader: nothing emulated, nothing stored, nothing said or asked for."""
        self.chromium.get("about:blank")
        self.chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        self.chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.chromium.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
        self.said(), self.requested()

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return what it returns."""
        return self.chromium.execute_script(script, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        """Return what a selector finds and a reader sees."""
        return [
            each for each in self.chromium.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()
        ]

    def one(self, selector: str) -> WebElement:
        """Return what a selector finds, once it is there."""
        self.until(lambda: self.all(selector))
        return self.all(selector)[0]

    def texts(self, selector: str) -> list[str]:
        """Return the texts that a reader sees, all of one moment: a page may be drawn anew in between."""
        found: list[str] = []

        def read() -> bool:
            found[:] = [each.text for each in self.all(selector)]
            return True

        self.until(read)
        return found

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        webdriver.ActionChains(self.chromium).send_keys(*keys).perform()

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        wait = WebDriverWait(self.chromium, _PATIENCE, 0.02, (StaleElementReferenceException,))
        wait.until(lambda _: holds())

    def said(self) -> list[str]:
        """Return what the browser complained of since it was last asked."""
        return [entry["message"] for entry in self.chromium.get_log("browser")]  # type: ignore[no-untyped-call]

    def requested(self) -> list[str]:
        """Return the addresses that were asked for since this was last asked, but for the browser's own."""
        logged = [json.loads(entry["message"])["message"] for entry in self.chromium.get_log("performance")]  # type: ignore[no-untyped-call]
        sent = [
            each["params"]["request"]["url"]
            for each in logged
            if each["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in sent if not url.startswith(("chrome", "about:"))]

    def emulate(self, **features: str) -> None:
        """Make the page believe in a colour scheme, or that it is printed (`media="print"`)."""
        media = features.pop("media", "")
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": wanted})

    @contextmanager
    def sized(self, width: int, height: int) -> Iterator[None]:
        """Make the window so large, and a phone's where it is narrow; then as it was."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width <= PHONE[0]}
        self.chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            self.chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def violations(self) -> list[str]:
        """Return what axe-core finds: the rule, and the first element that breaks it."""
        assert AXE is not None, MISSING_AXE
        self.chromium.execute_script(AXE.read_text(encoding="utf-8"))
        return list(self.chromium.execute_async_script(_ASK_AXE))

    def beyond(self) -> list[str]:
        """Return what stands out to the side of the window, where the page can be scrolled that way."""
        return list(self.run(_BEYOND))


_ASK_AXE = """
    const done = arguments[0];
    axe.run(document, {resultTypes: ["violations"]}).then(found => done(found.violations.map(
        each => `${each.id} (${each.nodes.length}): ${each.nodes[0].html.slice(0, 200)}`)));
"""
_BEYOND = """
    return document.documentElement.scrollWidth <= window.innerWidth ? [] :
        [...document.querySelectorAll('body *')]
            .filter(each => each.getBoundingClientRect().right > window.innerWidth)
            .slice(0, 5).map(each => each.outerHTML.slice(0, 200));
"""


@contextmanager
def browser() -> Iterator[Page]:
    """Start Chromium; its driver makes a profile, and removes it."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chromium = webdriver.Chrome(options=options, service=Service(str(STEERING)))
    try:
        yield Page(chromium)
    finally:
        # Debian's program is a script that starts the browser: `quit` ends the script alone.
        with suppress(WebDriverException):
            chromium.execute_cdp_cmd("Browser.close", {})
        chromium.quit()
