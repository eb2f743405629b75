"""A reader finds the page: by the words of the field, by titles, on long pages and in wide tables."""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from browsing import DESK, MISSING, PHONE, Page, browser

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("PUSHBACKD_SITE", "no-site"))
UNBUILT = "" if SITE.is_dir() else "there is no site; tox -e docs builds one"
PAGES = sorted([*SITE.glob("*.html"), *SITE.glob("docs/**/*.html")]) if SITE.is_dir() else []

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(UNBUILT or MISSING), reason=UNBUILT or MISSING)]

FIRST = 3
"""The results of a search that a reader looks at."""

LONG = ("docs/CONFORMANCE.html", "docs/COMMANDS.html", "docs/COMMAND-LINE.html", "docs/MUTANTS.html")


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve the site: a browser lets no page read others from a disk, as the summaries of a search do."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(SITE))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def guides() -> set[str]:
    """The pages of the first part of the index, and the one on what cannot be had."""
    text = (ROOT / "docs" / "README.md").read_text()
    part = text.partition("## How to\n")[2].partition("\n## ")[0]
    return {*re.findall(r"^\| \[.+?\]\(([\w-]+)\.md\)", part, re.MULTILINE), "LIMITS"}


def found(page: Page, address: str, words: str) -> list[str]:
    """Return the names of the pages that a search finds, in its order."""
    page.chromium.get("about:blank")
    page.chromium.get(f"{address}/search.html?q={words}")
    page.until(lambda: "finished" in page.run("return document.querySelector('#search-results').textContent"))
    links = page.run("return [...document.querySelectorAll('#search-results ul a')].map(each => each.href)")
    return [Path(link.partition("?")[0].partition("#")[0]).stem for link in links]


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("failover", "FAULTS"),
        ("throttle", "FAULTS"),
        ("throttling", "FAULTS"),
        ("latency", "FAULTS"),
        ("timeout", "FAULTS"),
        ("blackhole", "FAULTS"),
        ("limitations", "LIMITS"),
        ("flaky", "FLAKES"),
        ("overload", "FAULTS"),
    ],
)
def test_a_word_of_the_field_leads_to_the_guides(page: Page, address: str, word: str, wanted: str) -> None:
    results = list(dict.fromkeys(found(page, address, word)))
    assert wanted in results[: 2 * FIRST], results[:10]
    first_parts = [name in guides() | {"README"} for name in results]
    assert all(first_parts[: min(FIRST, sum(first_parts))]), "a guide stands below what is none"
    assert first_parts[0]


def test_the_words_stand_on_the_front_page() -> None:
    overview = (ROOT / "README.md").read_text().lower()
    words = ("failover", "latency", "timeout", "blackhole", "throttl", "overload", "retr", "limitations")
    assert [word for word in words if word not in overview] == []


def title(path: Path) -> str:
    match = re.search(r"<title>(.*?)</title>", path.read_text(), re.DOTALL)
    return unescape(match[1]) if match else ""


def test_every_page_has_a_title_of_its_own_that_says_the_name_once() -> None:
    titles = {path.relative_to(SITE).as_posix(): title(path) for path in PAGES if path.name != "index.html"}
    assert [name for name, number in Counter(titles.values()).items() if number > 1] == []
    repeated = [text for text in titles.values() if text.split(" - ")[0].startswith("pushbackd - ")]
    assert repeated == []
    assert titles["README.html"] == "pushbackd"


@pytest.mark.parametrize("name", LONG)
def test_a_long_page_has_a_filter_and_a_list_of_its_sections(page: Page, name: str) -> None:
    with page.sized(*PHONE):
        page.chromium.get((SITE / name).as_uri())
        assert page.run("return document.querySelectorAll('.finder li a').length") > 3
        before = page.run("return document.documentElement.scrollHeight")
        page.one(".finder input").send_keys("backoff")
        page.until(lambda: page.run("return document.documentElement.scrollHeight") < before / 4)
        left = page.run("""
            return [...document.querySelectorAll('tbody tr')].filter(each => each.offsetParent)
                .map(each => each.textContent.toLowerCase());
        """)
        assert [text for text in left if "backoff" not in text] == []


@pytest.mark.parametrize("name", ["docs/README.html", "README.html", *LONG])
def test_a_phone_keeps_the_column_with_the_links_in_view(page: Page, name: str) -> None:
    with page.sized(*PHONE):
        page.chromium.get((SITE / name).as_uri())
        lost = page.run("""
            const lost = [];
            for (const wrapper of document.querySelectorAll('.table-wrapper')) {
                const cell = [...wrapper.querySelectorAll('td.keeps')].find(each => each.querySelector('a'));
                if (!cell) continue;
                for (const left of [0, wrapper.scrollWidth]) {
                    wrapper.scrollLeft = left;
                    const [inner, outer] = [cell.getBoundingClientRect(), wrapper.getBoundingClientRect()];
                    const shines = wrapper.scrollWidth > wrapper.clientWidth && wrapper.scrollLeft === 0
                        && cell.matches(':last-child') && inner.right < outer.right - 1;
                    if (inner.left < outer.left - 1 || inner.right > outer.right + 1 || shines) {
                        lost.push(cell.textContent);
                    }
                }
            }
            return lost;
        """)
        assert lost == []


def test_a_phone_shows_the_pictures_of_the_front_page_large_and_each_above_its_text(page: Page) -> None:
    with page.sized(*PHONE):
        page.chromium.get((SITE / "README.html").as_uri())
        cells = page.run("""
            return [...document.querySelectorAll('table:has(img) tbody td')].map(each => {
                const [box, picture] = [each.getBoundingClientRect(), each.querySelector('img')];
                const width = picture ? picture.getBoundingClientRect().width : 0;
                return [box.top, width, each.textContent.trim()];
            });
        """)
        kinds = ["picture" if width else text.split()[0].rstrip(":") for _, width, text in sorted(cells)]
        assert kinds == ["picture", "Cause", "picture", "See"]
        assert min(width for _, width, _ in cells if width) > 0.8 * PHONE[0]


def test_a_short_page_and_a_wide_screen_are_left_as_they_are(page: Page) -> None:
    with page.sized(*DESK):
        page.chromium.get((SITE / "docs" / "CI.html").as_uri())
        assert page.all(".finder") == []
