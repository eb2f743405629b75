"""The site that `tox -e docs` builds, in a browser whose window is as wide as a phone's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import MISSING, Page, browser

if TYPE_CHECKING:
    from collections.abc import Iterator

SITE = Path(os.environ.get("PUSHBACKD_SITE", "no-site"))
UNBUILT = "" if SITE.is_dir() else "there is no site; tox -e docs builds one"
PAGES = sorted([*SITE.glob("*.html"), *SITE.glob("docs/**/*.html")]) if SITE.is_dir() else []

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(UNBUILT or MISSING), reason=UNBUILT or MISSING)]

WIDTH, HEIGHT = 390, 844


@pytest.fixture(scope="module")
def phone() -> Iterator[Page]:
    with browser() as page:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 2, "mobile": True}
        page.chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield page


def test_the_first_page_is_the_overview(phone: Page) -> None:
    phone.chromium.get((SITE / "index.html").as_uri())
    phone.until(lambda: phone.chromium.current_url.endswith("/README.html"))
    assert "docs/README.html" not in phone.chromium.current_url
    assert phone.run("return document.querySelectorAll('.sidebar-tree .reference').length") > 40


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(SITE).as_posix())
def test_no_page_scrolls_sideways(phone: Page, path: Path) -> None:
    phone.chromium.get(path.as_uri())
    assert phone.run("return window.innerWidth") == WIDTH
    wide = phone.run("""
        return document.documentElement.scrollWidth <= window.innerWidth ? [] :
            [...document.querySelectorAll('article *')]
                .filter(each => each.getBoundingClientRect().right > window.innerWidth)
                .slice(0, 5).map(each => each.outerHTML.slice(0, 200));
    """)
    assert wide == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(SITE).as_posix())
def test_no_page_asks_for_anything_from_elsewhere(phone: Page, path: Path) -> None:
    phone.chromium.get("about:blank")
    phone.requested()
    phone.chromium.get(path.as_uri())
    assert [url for url in phone.requested() if not url.startswith(("file:", "data:"))] == []
