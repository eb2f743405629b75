"""What `serve` says at a terminal, where its page is told, and how that is opened."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click
import pytest
from terminals import at_a_terminal

from fakeserver.cli.running import errors_only, link, told
from fakeserver.control.client import ServerStatus
from fakeserver.control.registry import Registry, RegistryEntry
from harness.commands.servers import background as opening
from harness.commands.servers.background import row
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

NEVER = """\
pushbackd: "1.0"
description: An insert that nobody sends would fail.
deployment: { topology: single }
rules:
  - when: { command: insert }
    then: [{ error: 462 }]
"""
PAGE = "http://127.0.0.1:8080/#token=x"


@pytest.mark.slow
def test_a_person_reads_three_lines(tmp_path: Path) -> None:
    variables = {"PUSHBACKD_HOME": str(tmp_path)}
    heard = at_a_terminal(
        *("serve", "--ui", "0", "--id", "mine", "--port", "0"),
        variables=variables,
        until=lambda text: text.count("\n") >= 3,
    )
    uri, page, end = heard.text.replace("^C", "").split("\r\n")[:3]
    assert uri.startswith("mongodb://")
    assert page.startswith("page: \x1b]8;;http://127.0.0.1:")
    assert end == "Ctrl-C or `pushbackd stop mine` ends it; -v shows its log"
    assert heard.code == ExitCode.PASSED


@pytest.mark.slow
def test_who_asks_for_the_log_gets_it(tmp_path: Path) -> None:
    heard = at_a_terminal(
        *("serve", "-v", "--port", "0"),
        variables={"PUSHBACKD_HOME": str(tmp_path)},
        until=lambda text: "\nmongodb://" in text,
    )
    assert '"msg": "Waiting for connections"' in heard.text or '"msg":"Waiting for connections"' in heard.text


@pytest.mark.slow
def test_a_scenario_of_which_something_never_happened_ends_with_a_page_of_the_run(tmp_path: Path) -> None:
    file = tmp_path / "never.yml"
    file.write_text(NEVER)
    heard = at_a_terminal(
        *("serve", "--scenario", str(file), "--id", "shop"),
        variables={"PUSHBACKD_HOME": str(tmp_path / "home")},
        until=lambda text: "Ctrl-C" in text,
    )
    page = tmp_path / "home" / "shop.html"
    assert "never met: rule rule1 (command: insert)" in heard.text
    assert f"  trace: {page}" in heard.text
    assert "shop: not as expected" in page.read_text()


def test_of_the_pages_of_runs_the_newest_are_kept(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    for number in range(25):
        os.utime(registry.keep_trace(f"s{number}", "page"), (number, number))
    assert registry.trace_file("s24").read_text() == "page"
    assert len(list(tmp_path.iterdir())) == 20
    registry.discard("s24")
    assert not registry.trace_file("s24").exists()


@pytest.mark.parametrize(("term", "is_link"), [("xterm-256color", True), ("dumb", False), ("linux", False)])
def test_an_address_can_be_clicked_where_the_terminal_shows_links(
    term: str, *, is_link: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    assert link(PAGE) == (f"\x1b]8;;{PAGE}\x1b\\{PAGE}\x1b]8;;\x1b\\" if is_link else PAGE)


def test_what_is_not_there_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert told("", "") == ["page: none; --ui 8080 serves one", "Ctrl-C ends it; -v shows its log"]
    assert told(PAGE, "one")[0] == f"page: {PAGE}"


def test_errors_are_told_to_people_as_well() -> None:
    lines: list[str] = []
    write = errors_only(lines.append)
    for severity in "IWEF":
        write(json.dumps({"s": severity}))
    assert lines == ['{"s": "E"}', '{"s": "F"}']


def entry(page: str) -> RegistryEntry:
    return RegistryEntry("mine", 1, "mongodb://127.0.0.1:1/", "single", "tcp:1", "x", "", "", page)


def test_open_shows_the_page_and_prints_its_address(pushbackd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(opening, "find", lambda *_, **__: entry(PAGE))

    def launch(url: str) -> int:
        opened.append(url)
        return 0

    monkeypatch.setattr(click, "launch", launch)
    assert pushbackd("open").stdout == f"{PAGE}\n"
    assert opened == [PAGE]


def test_open_says_how_a_server_gets_a_page(pushbackd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "find", lambda *_, **__: entry(""))
    done = pushbackd("open")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "mine has no page" in done.stderr
    assert "--ui 8080" in done.stderr


def test_a_list_for_programs_has_the_page() -> None:
    assert json.loads(row(entry(PAGE), ServerStatus.RUNNING))["page"] == PAGE
