"""What all tests share: the folder of helpers on the path, and how much Hypothesis does.

`HYPOTHESIS_PROFILE=hundred` tries as many examples as Hypothesis does by itself, `ci` a thousand, and
`explore` draws new ones in every run. The other profiles draw the same examples everywhere, so that the
workers of one run agree.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from browsing import Page

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE / "support"))
# The benchmarks are no part of the package. Last, so that what is installed is what is tested.
sys.path.append(str(_HERE.parent))

pytest.register_assert_rewrite("harness.testing")

settings.register_profile(
    "default",
    max_examples=25,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("hundred", settings.get_profile("default"), max_examples=100)
settings.register_profile("ci", settings.get_profile("default"), max_examples=1000)
settings.register_profile("explore", settings.get_profile("ci"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell has its background jobs ignore Control-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.pop("GITHUB_ACTIONS", None)  # or the files that tests break would be annotated in every run of CI


from corpus_checkout import ABSENT, find_corpus  # noqa: E402 - the path to it is set above
from rewriting import rewrite_for_workers  # noqa: E402 - as above
from sizes import SIZES, SizeError, size  # noqa: E402 - as above


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a size that cannot be read before any test is collected, which goes on without a collector."""
    try:
        for name in SIZES:
            size(name)
    except SizeError as wrong:
        raise pytest.UsageError(str(wrong)) from None
    rewrite_for_workers(config)
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Have Hypothesis collect, which it does at its first test, while there is little to look at.

    It asks who refers to its generator, and what is frozen later is not listed.
    """
    given(none())(lambda _: None)()


def pytest_collection_finish() -> None:
    """Keep the collector off what was collected: tens of thousands of items that stay to the end."""
    gc.freeze()
    gc.enable()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Have a worker of xdist tell of a test what is shown of it, in one message instead of five.

    Five cost more than most tests. Left out are its beginning and its end, and its setup and its teardown
    unless they failed.
    """
    if not _is_told_in_short(item.config):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def _is_told_in_short(config: pytest.Config) -> bool:
    option = config.option
    return (
        hasattr(config, "workerinput")
        and config.get_verbosity() <= 0  # with more, a line says where each test begins
        and option.durations is None
        and option.xmlpath is None
        and not {"A", "P"} & {*option.reportchars}  # what was written while a test was torn down
    )


def pytest_report_header() -> str:
    """Say, where everybody looks, whether the public specification tests run."""
    return f"corpus: {find_corpus() or ABSENT}"


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Servers that tests start, and what runs remember, have folders of their own."""
    os.environ["PUSHBACKD_HOME"] = str(tmp_path_factory.mktemp("home"))
    os.environ["PUSHBACKD_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    # What runs pytest in a process of its own is spared the imports of plugins that it has no use for.
    os.environ["PYTEST_ADDOPTS"] = "-p no:hypothesispytest -p no:anyio"


@pytest.fixture(scope="session")
def started_browser() -> Iterator[Page]:
    """The browser of this worker: to start one takes longer than most tests of a page."""
    from browsing import browser  # noqa: PLC0415 - most workers have no test of a page

    with browser() as page:
        yield page


@pytest.fixture(scope="module")
def chromium(started_browser: Page) -> Page:
    """The browser of this worker, as new."""
    started_browser.forget()
    return started_browser


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The public specification tests; a test that asks for them is skipped where they are not."""
    source = find_corpus()
    if source is None:
        pytest.skip(ABSENT)
    return source
