"""Every option of every command, given what it cannot be: one line, an exit code, and nothing is written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from fakeserver.cli.program import main as serve
from harness.authoring.template import starting_text
from harness.cli import SUBCOMMANDS, cli
from harness.commands.options.types import Count, Jobs, Seconds, SeedNumber
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scenario_files import WriteScenario

LONG = "9" * 20_000
NO_NUMBERS = ("", "x", "nan", "1e", LONG, f"-{LONG}", "1e400", "inf", "-inf")
NOT_UTF8 = "\udcff"


def options() -> Iterator[tuple[str, click.Option]]:
    for name in SUBCOMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield from ((name, each) for each in command.params if isinstance(each, click.Option))


def needed(verb: str, scenario: Path) -> Sequence[str]:
    """Return the arguments that a command cannot do without."""
    return {"govern": ["mongodb://localhost:1"], "schema": [], "certs": ["certs"]}.get(verb, [str(scenario)])


def is_number(option: click.Option) -> bool:
    numbers = (Count, Seconds, SeedNumber, Jobs, click.types.IntParamType, click.types.FloatParamType)
    return isinstance(option.type, numbers)


def refused(folder: Path, *arguments: str) -> str:
    """Return what a wrong command line is told, once nothing but that has happened."""
    before = sorted(folder.rglob("*"))
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == ExitCode.BAD_INPUT, (arguments[:3], done.output[-500:])
    first, *others = done.stderr.splitlines()
    assert first.startswith("Error: ")
    assert len(first) < 700
    assert all("--help" in line for line in others), others
    assert "Traceback" not in done.stderr
    assert not done.stdout
    assert sorted(folder.rglob("*")) == before
    return first


NUMBERS = [(verb, option) for verb, option in options() if is_number(option)]
PATHS = [(verb, option) for verb, option in options() if isinstance(option.type, click.Path)]


@pytest.mark.parametrize(("verb", "option"), NUMBERS, ids=[f"{v} {o.name}" for v, o in NUMBERS])
def test_no_number(
    verb: str,
    option: click.Option,
    tmp_path: Path,
    write_scenario: WriteScenario,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = write_scenario("a")
    monkeypatch.chdir(tmp_path)
    below = [] if option.name == "seed" else ["-1"]
    for text in (*NO_NUMBERS, *below):
        refused(tmp_path, verb, *needed(verb, scenario), f"{option.opts[-1]}={text}")


@pytest.mark.parametrize(("verb", "option"), PATHS, ids=[f"{v} {o.name}" for v, o in PATHS])
def test_no_path(
    verb: str,
    option: click.Option,
    tmp_path: Path,
    write_scenario: WriteScenario,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = write_scenario("a")
    monkeypatch.chdir(tmp_path)
    for text in ("", NOT_UTF8, "n" * 300, f"{scenario}/below"):
        refused(tmp_path, verb, *needed(verb, scenario), option.opts[-1], text)


@pytest.mark.parametrize("verb", SUBCOMMANDS)
def test_an_argument_that_is_no_text(verb: str, tmp_path: Path) -> None:
    assert "is not UTF-8" in refused(tmp_path, verb, f"x{NOT_UTF8}")


@pytest.mark.parametrize(
    "adapter",
    ["", "x", "cmd:", "cmd: ", "cmd:/", "cmd:/no/such", "cmd:'x", "cmd:''", "cmd:#", LONG, NOT_UTF8],
)
@pytest.mark.parametrize("verb", ["conform", "explain", "record"])
def test_no_adapter(verb: str, adapter: str, tmp_path: Path, write_scenario: WriteScenario) -> None:
    refused(tmp_path, verb, str(write_scenario("a")), "--adapter", adapter)


@pytest.mark.parametrize(
    "uri", ["", "x", "mongodb://", "http://x", "mongodb://[::1", f"mongodb://localhost:{LONG}/"]
)
@pytest.mark.parametrize(
    "arguments", [["conform", "--uri"], ["conform", "--uri-multi"], ["govern"]], ids=" ".join
)
def test_no_connection_string(
    arguments: Sequence[str], uri: str, tmp_path: Path, write_scenario: WriteScenario
) -> None:
    files = [str(write_scenario("a"))] if "conform" in arguments else []
    refused(tmp_path, *arguments, uri, *files)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-k", ""],
        ["-k", "("],
        ["-k", "(" * 5000],
        ["--schedule", "x"],
        ["--schedule", LONG],
        ["--edition", ""],
        ["--profile", LONG],
        ["--topology", ""],
        ["--loop-seconds", "60"],
        ["--expectations", "/no/such"],
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_no_way_to_run(arguments: Sequence[str], tmp_path: Path, write_scenario: WriteScenario) -> None:
    refused(tmp_path, "conform", str(write_scenario("a")), *arguments)


@pytest.mark.parametrize("verb", ["conform", "lint", "explain", "record", "to-json"])
@pytest.mark.parametrize("suffix", ["yml", "json"])
def test_a_number_of_many_digits_in_a_file(verb: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text(f'{{"description": "a",\n "schemaVersion": "1.0",\n "tests": {LONG}}}')
    done = CliRunner().invoke(cli, [verb, str(path)])
    if (verb, suffix) in {("record", "json"), ("to-json", "json")}:
        return  # they read no JSON
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"{path}:3:11: tests: is a number that is too long" in done.output
    assert len(done.output) < 700


def test_a_number_of_many_digits_in_a_file_of_expectations(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    path = tmp_path / "expectations.yml"
    path.write_text(f"fail: {LONG}")
    said = refused(tmp_path, "conform", str(write_scenario("a")), "--expectations", str(path))
    assert "expectations.yml:1:7: fail: is a number that is too long" in said


def test_a_file_below_a_folder_whose_name_is_no_text(tmp_path: Path, write_scenario: WriteScenario) -> None:
    write_scenario("a").rename(tmp_path / f"{NOT_UTF8}.yml")
    for verb in ("conform", "lint", "to-json"):
        assert "the name is not UTF-8" in refused(tmp_path, verb, str(tmp_path))


@pytest.mark.parametrize(
    "name", ["--port", "--members", "--mongos", "--shards", "--seed", "--loadBalancerPort"]
)
@pytest.mark.parametrize("text", NO_NUMBERS)
def test_serve_is_given_no_number(name: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = serve([f"{name}={text}"])
    told = capsys.readouterr()
    assert (code, told.out, told.err.count("\n")) == (ExitCode.BAD_INPUT, "", 2)
    assert len(told.err) < 700


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "65536"],
        ["--port", "-1"],
        ["--port", "65535", "--replSet", "rs"],
        ["--replSet", ""],
        ["--networkMessageCompressors", ""],
        ["--networkMessageCompressors", "gzip"],
        ["--topology", "load-balanced", "--loadBalancerPort", "65535"],
        ["--profile", LONG],
        ["--bind_ip", ""],
        ["--user", ":"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_serve_is_given_what_cannot_be(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = serve(arguments)
    told = capsys.readouterr()
    assert (code, told.out, told.err.count("\n")) == (ExitCode.BAD_INPUT, "", 2)


OUTPUTS = [
    *(("conform", [f"--{name}", f"out.{name}"]) for name in ("junit", "results", "html")),
    ("conform", ["--results", "out.jsonl.gz"]),
    ("conform", ["--journal", "journal"]),
    ("explain", ["--svg", "out.svg"]),
    ("explain", ["--html", "out.html"]),
    ("record", ["--replace", "-o", "out.yml"]),
    ("record", ["--replace", "--in-place"]),
    ("new", ["--force"]),
    ("to-json", []),
]


@contextmanager
def no_file_beyond(most: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes, which ends writing in the middle, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(("verb", "arguments"), OUTPUTS, ids=str)
def test_a_disk_that_is_full_leaves_no_torn_file(
    verb: str, arguments: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = tmp_path / "scenario.yml"
    scenario.write_text(starting_text("scenario.yml", schema="s"))
    for kept in ("out.junit", "out.results", "out.html", "out.svg", "out.yml", "out.jsonl.gz"):
        (tmp_path / kept).write_text("before")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with no_file_beyond(30 if "gz" in str(arguments) else 100):
        done = CliRunner().invoke(cli, [verb, str(scenario), *arguments])
    expected = ExitCode.FAILED if "--journal" in arguments else ExitCode.BAD_INPUT
    assert done.exit_code == expected, done.output
    assert "Traceback" not in done.output
    assert "File too large" in done.output
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to write on")
@pytest.mark.parametrize(
    "verb",
    [["schema"], ["lint", "--rules"], ["conform", "-k", "no-case-has-this-name"], ["--help"]],
    ids=" ".join,
)
def test_standard_output_that_is_full(verb: Sequence[str], write_scenario: WriteScenario) -> None:
    files = [str(write_scenario("a"))] if "conform" in verb else []
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *verb, *files],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    assert done.returncode == ExitCode.BAD_INPUT
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr
