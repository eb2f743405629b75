"""Servers in the background; these tests start processes, and end them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from controlled import controlled
from pymongo import MongoClient

from fakeserver import ClusterSpec
from fakeserver.control.registry import Registry, RegistryEntry
from harness.cli import cli
from harness.commands.options.starting import starting_of
from harness.commands.servers.background import write_expansions
from harness.planning.result import ExitCode
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = {
    **dict.fromkeys(
        (
            "topology",
            "scenario",
            "members",
            "secondaries",
            "arbiters",
            "shards",
            "profile",
            "name",
            "log_folder",
        )
    ),
    "config": None,
    "runner_folder": None,
    "debug": False,
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PUSHBACKD_ID", "TOPOLOGY", "AUTH", "SSL", "MONGODB_VERSION", "LOAD_BALANCER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PUSHBACKD_HOME", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.slow
def test_a_server_is_started_listed_used_and_stopped_and_leaves_nothing(home: Path) -> None:
    try:
        started = run("start", "-t", "replset", "--id", "shop", "--expansions", str(home))
        assert started.exit_code == ExitCode.PASSED, started.output
        uri = started.stdout.strip()
        with MongoClient[dict[str, object]](uri) as client:
            assert client.admin.command("ping")["ok"] == 1.0
        assert (home / "uri.txt").read_text() == f"{uri}\n"
        assert Registry(home).log_file("shop").stat().st_mode & 0o777 == 0o600
        listed = json.loads(run("ls", "--json").stdout)
        assert (listed["id"], listed["status"], listed["uri"]) == ("shop", "running", uri)
        assert "a server of this id runs" in run("start", "--id", "shop").stderr
        program = "import os, sys; sys.exit(int(os.environ['MONGODB_URI'] == sys.argv[1]) + 6)"
        assert run("exec", "--id", "shop", "--", sys.executable, "-c", program, uri).exit_code == 7
    finally:
        stopped = run("stop")
    assert stopped.stderr == "shop: stopped\n"
    assert Registry(home).ids() == []
    assert {path.name for path in home.iterdir()} == {"mo-expansion.sh", "mo-expansion.yml", "uri.txt"}


@pytest.mark.slow
def test_a_command_gets_a_server_of_its_own_that_ends_with_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import os, fakeserver.control\n"
        "found = fakeserver.control.connect().state()['topology']\n"
        "print(found, os.environ['TOPOLOGY'], os.environ['AUTH'])\n"
        "raise SystemExit(5)"
    )
    monkeypatch.chdir(home)
    (home / "harness.py").write_text("raise SystemExit('not the harness')")
    script = home / "program.py"
    script.write_text(program)
    words = [
        "-t",
        "sharded",
        "--runnerDir",
        str(home / "runners"),
        "--",
        "--members",
        "1",
        "--auth",
        "--user",
        "a:b",
        "--",
    ]
    done = run("exec", *words, "sh", "-c", f"{sys.executable} {script} > {home}/out")
    assert done.exit_code == 5, done.output
    assert (home / "out").read_text() == "sharded sharded_cluster auth\n"
    assert {path.name for path in home.rglob("*")} == {"harness.py", "program.py", "out", "runners"}


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why_and_leaves_nothing(home: Path) -> None:
    failed = run("start", "--", "--setParameter", "logLevle=1")
    assert failed.exit_code == ExitCode.BAD_INPUT
    assert failed.stdout == ""
    assert "unrecognized parameter [logLevle]" in failed.stderr
    assert "did you mean 'logLevel'?" in failed.stderr
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["start", "-t", "rplset"], ExitCode.BAD_INPUT, "did you mean 'replicaset'?"),
        (["start", "--version", "8.3"], ExitCode.BAD_INPUT, "unknown release '8.3'; did you mean '8.2'?"),
        (["start", "--id", "a/b"], ExitCode.BAD_INPUT, "'a/b' is no id"),
        (["start", "--secondries", "2"], ExitCode.BAD_INPUT, "no such option: --secondries"),
        (["start", "--", "--replSt", "rs"], ExitCode.BAD_INPUT, "did you mean '--replSet'?"),
        (["start", "-t", "replset", "--arbiters", "50"], ExitCode.BAD_INPUT, "50 is not in the range"),
        (["stop"], ExitCode.BAD_INPUT, "no server runs; `pushbackd start` starts one"),
        (["stop", "shop"], ExitCode.BAD_INPUT, "there is no server 'shop'"),
        (["exec", "-t", "replset"], ExitCode.BAD_INPUT, "there is no command"),
        (["exec", "--", "no-such-program"], ExitCode.BAD_INPUT, "no-such-program: no such command"),
        (["exec", "--", "/"], ExitCode.BAD_INPUT, "/: is a folder, not a command"),
        (["exec", "--", __file__], ExitCode.BAD_INPUT, f"{__file__}: may not be executed; chmod +x"),
        (["serve", "--port", "x"], ExitCode.BAD_INPUT, "'--port': 'x' is not a valid integer"),
        (["certs", "/dev/null/x"], ExitCode.BAD_INPUT, "/dev/null/x: Not a directory"),
        (["conform", "--adapter", "pymango"], ExitCode.BAD_INPUT, "did you mean 'pymongo'?"),
        (["check-adapter", "cmd:no-such-program"], ExitCode.BAD_INPUT, ": no-such-program: No such file"),
    ],
)
def test_a_mistake_starts_nothing(
    home: Path, arguments: list[str], exit_code: ExitCode, message: str
) -> None:
    done = run(*arguments)
    assert done.exit_code == exit_code, done.output
    assert message in done.stderr.splitlines()[0]
    assert "integer range" not in done.stderr
    assert "Errno" not in done.stderr
    assert done.stdout == ""
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "environment", "arguments"),
    [
        ({}, {}, ()),
        (
            {"topology": "replset", "secondaries": 3, "arbiters": 1},
            {},
            ("--topology", "replicaset", "--members", "5", "--arbiters", "1"),
        ),
        ({"topology": "sharded", "shards": 2}, {}, ("--topology", "sharded", "--shards", "2")),
        ({"profile": "8.0.4", "debug": True}, {}, ("--profile", "8.0", "-v")),
        ({}, {"AUTH": "auth"}, ("--auth", "--user", "bob:pwd123")),
        ({}, {"MONGODB_VERSION": "7.0"}, ("--profile", "7.0")),
        ({}, {"REQUIRE_API_VERSION": "true"}, ("--setParameter", "requireApiVersion=1")),
        ({}, {"DISABLE_TEST_COMMANDS": "1"}, ("--setParameter", "enableTestCommands=0")),
    ],
)
def test_options_and_the_environment_are_arguments_of_serve(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, object],
    environment: dict[str, str],
    arguments: tuple[str, ...],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert starting_of({**OPTIONS, **options}, ()).arguments == arguments


def test_the_log_goes_where_the_arguments_of_serve_say(home: Path) -> None:
    assert starting_of(OPTIONS, ("--logpath", str(home / "a.log"))).log == home / "a.log"
    with pytest.raises(ControlError, match="--log-dir and --logpath both say where the log is"):
        starting_of({**OPTIONS, "log_folder": home}, ("--logpath", str(home / "a.log")))


def test_a_file_of_mongodb_runner_has_options_and_more(home: Path) -> None:
    file = home / "runner.json"
    members = '[{}, {}, {"arbiterOnly": true}]'
    users = '[{"username": "a", "password": "b"}]'
    file.write_text(f'{{"topology": "replset", "rsMembers": {members}, "args": ["-v"], "users": {users}}}')
    starting = starting_of({**OPTIONS, "config": file, "profile": "7.0"}, ())
    size = ("--topology", "replicaset", "--members", "3", "--arbiters", "1", "--profile", "7.0")
    assert starting.arguments == (*size, "-v", "--auth", "--user", "a:b")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('{"topologie": "replset"}', ":1:2: unknown key 'topologie'; did you mean 'topology'?"),
        ('{"secondaries": "two"}', ":1:17: secondaries: 'two' is no whole number"),
        ('{"rsMembers": [{"tags": {"a": "b"}}]}', "rsMembers[0]: tags of a member is not supported"),
        ('{"args": "-v"}', "args: holds a list of texts"),
        ('{"users": [{"username": "a"}]}', "users: holds a list of documents with username and password"),
        ("[]", "holds a document of topology"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(home: Path, text: str, mistake: str) -> None:
    (home / "runner.json").write_text(text)
    done = run("start", "--config", str(home / "runner.json"))
    assert done.exit_code == ExitCode.BAD_INPUT
    assert mistake in done.stderr


def test_an_id_names_the_topology_that_the_environment_asks_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPOLOGY", "replica_set")
    assert starting_of(OPTIONS, ()).name.startswith("replicaset-")


def test_options_are_variables_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_RUNNER_VERSION", "8.3")
    assert "unknown release '8.3'" in run("start").stderr


def test_servers_that_have_ended_are_listed_as_such_and_pruned(home: Path) -> None:
    registry = Registry(home)
    with controlled(home, "shop", ClusterSpec.standalone()):
        registry.write(
            RegistryEntry("till", 1, "mongodb://localhost:1/", "single", f"unix:{home}/gone", "token")
        )
        registry.log_file("till").write_text("{}\n")
        listed = [line.split()[:2] for line in run("ls").stdout.splitlines()]
        assert listed == [["id", "status"], ["shop", "running"], ["till", "ended"]]
        assert run("prune").stderr == "till: removed\n"
        assert registry.ids() == ["shop"]
        assert not registry.log_file("till").exists()


def test_a_server_that_is_another_one_is_left_alone(home: Path) -> None:
    with controlled(home, "shop", ClusterSpec.standalone()) as (_, entry):
        Registry(home).write(RegistryEntry("till", 1, entry.uri, "single", entry.control, "another token"))
        done = run("stop", "till")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "till does not answer" in done.stderr
    assert Registry(home).ids() == ["till"]


SOUND: dict[str, Any] = {
    "id": "bad",
    "pid": 1,
    "uri": "mongodb://localhost:1/",
    "topology": "single",
    "control": "tcp:127.0.0.1:1",
    "token": "t",
    "log": "",
    "started": "",
    "page": "",
}
NO_VALUES: tuple[Any, ...] = (None, 5, [], {}, "\0")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        *(json.dumps({**SOUND, name: value}).encode() for name in SOUND for value in NO_VALUES),
        *(json.dumps({**SOUND, "control": value}).encode() for value in ("tcp:a:b", "udp:a:1", "tcp:1")),
        json.dumps({**SOUND, "id": "../../shop"}).encode(),
    ],
)
def test_what_is_no_entry_of_a_server_is_passed_over_and_pruned(home: Path, content: bytes) -> None:
    registry = Registry(home)
    registry.file("bad").write_bytes(content)
    if registry.read("bad") is None:
        assert run("ls").stderr == "no server runs\n"
    for words in (("ls",), ("ls", "--json"), ("stop", "--all"), ("stop", "bad"), ("prune",)):
        done = run(*words)
        assert done.exception is None or isinstance(done.exception, SystemExit), words
        assert done.exit_code in {ExitCode.PASSED, ExitCode.BAD_INPUT}
    assert registry.ids() == []


@pytest.mark.parametrize("control", ["tcp:127.0.0.1:99999", "tcp:\u2603..x:1", "unix:" + "a" * 500])
def test_an_address_that_nobody_can_have_is_a_server_that_does_not_answer(home: Path, control: str) -> None:
    Registry(home).file("bad").write_text(json.dumps({**SOUND, "control": control}))
    done = run("ls")
    assert (done.exit_code, done.exception) == (ExitCode.PASSED, None)


def test_a_folder_that_is_called_like_an_entry_is_left_alone(home: Path) -> None:
    (home / "folder.json").mkdir()
    for words in (("ls",), ("stop", "--all"), ("prune",)):
        assert run(*words).exit_code == ExitCode.PASSED


@pytest.mark.slow
def test_the_page_of_a_server_in_the_background_is_told_to_its_owner_alone(home: Path) -> None:
    try:
        started = run("start", "--id", "shop", "--", "--ui", "0")
        page = next(line for line in started.stderr.splitlines() if line.startswith("live page: "))
        token = page.partition("#token=")[2]
        assert token
        listed = json.loads(run("ls", "--json").stdout)
        assert listed["page"] == page.removeprefix("live page: ")
        assert token not in Registry(home).log_file("shop").read_text()
        assert Registry(home).file("shop").stat().st_mode & 0o777 == 0o600
    finally:
        run("stop")


EMPTY = [
    *(("serve", option, "") for option in ("--scenario", "--logpath", "--id", "--config", "--replSet")),
    *(("serve", option, "") for option in ("--keyFile", "--journalFile", "--pidfilepath", "--bind_ip")),
    *(("serve", option, "") for option in ("--tlsCAFile", "--unixSocketPrefix", "--setParameter", "--user")),
    *(("start", option, "") for option in ("--id", "--version", "--topology", "--logDir", "--config")),
    ("start", "--", "--scenario", ""),
    ("exec", "--id", "", "--", "true"),
    *(("conform", "x.yml", option, "") for option in ("--scheduler", "--server-scenario", "--schedule")),
    ("conform", "x.yml", "--uri", ""),
    ("simulate", "swarm", "--schedule", ""),
    ("simulate", "sweep", "--grid", "rate=1", "--scheduler", ""),
    ("lint", "--select", "", "x.yml"),
    ("stop", "--id", ""),
]


@pytest.mark.parametrize("words", EMPTY, ids=" ".join)
def test_an_option_with_an_empty_text_is_a_mistake_that_names_it(home: Path, words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.exit_code in {ExitCode.BAD_INPUT, ExitCode.BAD_INPUT}
    assert "empty" in done.stderr or "''" in done.stderr
    assert not list(home.iterdir())


def test_no_server_is_nothing_on_standard_output(home: Path) -> None:
    done = run("ls")
    assert (done.exit_code, done.stdout, done.stderr) == (ExitCode.PASSED, "", "no server runs\n")


def test_the_files_of_the_evergreen_tools_quote_their_values(tmp_path: Path) -> None:
    write_expansions(tmp_path, {"MONGODB_URI": "mongodb://a/?b=c&d='e'"})
    assert (tmp_path / "mo-expansion.yml").read_text() == "MONGODB_URI: \"mongodb://a/?b=c&d='e'\"\n"
    assert (tmp_path / "mo-expansion.sh").read_text().startswith("export MONGODB_URI='mongodb://a/")
    assert (tmp_path / "uri.txt").read_text() == "mongodb://a/?b=c&d='e'\n"
