from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from controlled import controlled

from fakeserver.admission.ticket_sizes import READ
from fakeserver.control.verbs.table import VERBS
from harness.cli import SUBCOMMANDS, cli
from harness.commands.control import commands
from harness.commands.options.rule import rule_of
from harness.commands.output import show
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fakeserver import BackgroundCluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundCluster]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch, controlled(home) as (running, _):
        patch.setenv("PUSHBACKD_HOME", str(home))
        patch.delenv("PUSHBACKD_ID", raising=False)
        yield running


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def told(*arguments: str) -> str:
    """Return the first line of the error of a command that must fail with exit code 2."""
    done = run(*arguments)
    assert done.exit_code == ExitCode.BAD_INPUT, done.output
    assert done.stdout == ""
    return done.stderr.splitlines()[0]


@pytest.mark.parametrize("verb", list(VERBS), ids=lambda verb: verb.name)
def test_every_verb_has_a_command_with_its_help(verb: Any) -> None:
    done = run(*verb.command.split(" "), "--help")
    assert done.exit_code == ExitCode.PASSED
    assert verb.help.split(",")[0].split(" ")[0] in done.stdout


def test_every_first_word_is_listed() -> None:
    listed = {name for name, subcommand in SUBCOMMANDS.items() if subcommand.module == "control"}
    assert {verb.command.split(" ")[0] for verb in VERBS} <= listed
    assert set(commands) == listed


def test_a_verb_is_performed_and_its_answer_printed(server: BackgroundCluster) -> None:
    assert run("node", "restart", "node1").stdout == "node: node1\n"
    assert json.loads(run("node", "restart", "node1", "--json").stdout)["node"] == "node1"


def test_the_verbs_of_rules_are_performed_under_their_former_name(server: BackgroundCluster) -> None:
    run("fault", "add", "--command", "find", "--error", "462", "--name", "mine")
    listed = json.loads(run("fault", "ls", "--json").stdout)
    assert [rule["id"] for rule in listed["rules"]] == ["mine"]
    assert listed == json.loads(run("rule", "ls", "--json").stdout)
    removed = run("fault", "rm", "mine")
    assert removed.exit_code == ExitCode.PASSED
    assert removed.stderr == "pushbackd fault is called pushbackd rule now\n"
    assert json.loads(run("rule", "ls", "--json").stdout)["rules"] == []


def test_people_read_thousandths_and_programs_all_digits(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"frozen": 57.71893924399774, "servers": [{"name": "node1", "frozen": 5.0}]}
    show(document, as_json=False)
    assert capsys.readouterr().out == "frozen: 57.719\nservers:\n  name   frozen\n  node1  5\n"
    show(document, as_json=True)
    assert json.loads(capsys.readouterr().out) == document


def test_people_read_the_state_in_words_with_units(server: BackgroundCluster) -> None:
    in_force = {
        ("limits", "--requests", "20/s", "--connections", "5/s"): "requests 20/s, connections 5/s",
        ("limits", "tickets", "--read", "3", "--write", "2"): "read 3, write 2",
        ("limits", "service-time", "20ms"): "time 20ms, atWork 0, peak 0",
        ("node", "slow", "node1", "--seconds", "200ms"): "  200ms",
        ("node", "lag", "node1", "--seconds", "1m30s"): "  90s",
        ("fail-point", "set", "waitInHello"): "waitInHello",
    }
    assert run("limits", "--requests", "20/s", "--nodes", "node0,node1").stdout == "nodes: node0, node1\n"
    for words in in_force:
        assert run(*words).exit_code == ExitCode.PASSED
    shown = run("state").stdout
    run("reset")
    assert [text for text in in_force.values() if text not in shown] == []
    assert not set('{["') & set(shown)
    assert "limits" not in run("state").stdout


def test_the_journal_is_printed_without_a_subcommand_and_has_some(server: BackgroundCluster) -> None:
    run("node", "restart", "node1")
    printed = run("journal")
    assert printed.exit_code == ExitCode.PASSED
    assert len(printed.stdout.splitlines()) > 2
    assert len(run("journal", "--limit", "2").stdout.splitlines()) == 2
    assert told("limits") == "Error: limits takes either requests, connections or both, or off"
    assert run("journal", "count").stdout.startswith("count: ")
    mixed = run("journal", "--limit", "2", "count")
    assert mixed.exit_code == ExitCode.BAD_INPUT
    assert "options of journal go with no command of it" in mixed.stderr


def test_what_is_not_as_expected_is_no_wrong_input(server: BackgroundCluster) -> None:
    unmet = run("journal", "verify", "--command", "drop")
    assert unmet.exit_code == ExitCode.FAILED
    assert unmet.stderr.startswith("Error: 1 or more drop requests expected, 0 came")
    assert run("journal", "verify", "--command", "drop", "--count", "0").exit_code == ExitCode.PASSED


UNDONE: list[list[str]] = [
    ["node", "kill", "node1"],
    ["node", "pause", "node1"],
    ["node", "slow", "node1", "--seconds", "10ms", "--jitter", "1ms"],
    ["node", "lag", "node1", "--seconds", "5s"],
    ["node", "freeze", "node1"],
    ["network", "partition", "node0,node2,clients", "node1"],
    ["network", "fault", '{"at": "reply", "command": "drop", "do": {"delay": "1ms"}}'],
    ["limits", "--requests", "20/s"],
    ["limits", "tickets", "--read", "8"],
    ["limits", "service-time", "1ms"],
    ["limits", "shed", "2%", "--duration", "30s"],
    ["fail-point", "set", "failCommand", "--data", '{"failCommands": ["drop"], "errorCode": 91}'],
    ["rule", "add", "--command", "drop", "--error", "91"],
    ["data", "seed", "shop.undone", '{"_id": 1}'],
]


def what_is_wrong(server: BackgroundCluster) -> Mapping[str, Any]:
    """Return the state of a deployment, without what only grows."""
    state = json.loads(run("state", "--json").stdout)
    points = json.loads(run("fail-point", "ls", "--json").stdout)["failPoints"]
    servers = [
        {key: value for key, value in each.items() if key not in {"connections", "term", "uptime"}}
        for each in state["servers"]
    ]
    rest = {key: state.get(key) for key in ("rules", "faults", "partition", "shedding")}
    rest["parameters"] = [server.nodes[0].parameters[name] for name in ("serviceTimeBaseMillis", READ)]
    return {"servers": servers, "on": [each["name"] for each in points if each["on"]], **rest}


@pytest.mark.parametrize("words", UNDONE, ids=" ".join)
def test_what_is_in_force_ends_with_the_command_that_is_told(
    server: BackgroundCluster, words: list[str]
) -> None:
    before = what_is_wrong(server)
    done = run(*words)
    assert done.exit_code == ExitCode.PASSED, done.output
    told = done.stderr.splitlines()
    ending = told[-1].removeprefix("ends with: pushbackd ")
    if words[0] != "data":
        assert what_is_wrong(server) != before
    ended = run(*shlex.split(ending))
    assert ended.exit_code == ExitCode.PASSED, (ending, ended.output)
    assert ended.stderr == ""
    assert what_is_wrong(server) == before


def test_the_command_that_ends_it_names_the_server_that_was_named(server: BackgroundCluster) -> None:
    for words in (("limits", "--requests", "20/s"), ("rule", "add", "--command", "find", "--error", "462")):
        told = run(*words, "--id", "shop").stderr.splitlines()[-1]
        ending = shlex.split(told.removeprefix("ends with: pushbackd "))
        assert ending[-2:] == ["--id", "shop"]
        assert run(*ending).exit_code == ExitCode.PASSED, told


def test_groups_of_servers_are_words_of_the_command_line(server: BackgroundCluster) -> None:
    try:
        answer = json.loads(run("network", "partition", "node0,clients", "node1", "--json").stdout)
        assert answer["groups"] == [["node0", "clients"], ["node1"]]
    finally:
        assert run("network", "heal").stdout == "done\n"


def test_documents_come_from_a_file_or_standard_input(server: BackgroundCluster, tmp_path: Any) -> None:
    (tmp_path / "orders.json").write_text('[{"_id": 1}, {"_id": 2}]')
    assert "inserted: 2" in run("data", "seed", "shop.orders", f"@{tmp_path / 'orders.json'}").stdout
    assert "inserted: 1" in run("data", "seed", "shop.orders", "-", stdin='{"_id": 3}').stdout
    missing = run("data", "seed", "shop.orders", "@nowhere.json")
    assert missing.exit_code == ExitCode.BAD_INPUT
    assert "nowhere.json: No such file" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["node", "kill", "nod1"], "there is no 'nod1' now"),
        (["node", "slow", "--seconds", "1 sec"], "--seconds: '1 sec' is no duration"),
        (["node", "step-down", "--seconds", "-1"], "--seconds: '-1' is negative"),
        (["node", "kill", "--id", "shpo"], "unknown server 'shpo'; did you mean 'shop'?"),
        (["data", "seed", "shop.orders", "[{]"], "DOCUMENTS: '[{]' is no JSON"),
        (["fail-point", "set", "failComand"], "did you mean 'failCommand'"),
        (["rule", "add", "--error", "91", "--times", "-1"], "--times: '-1' is negative"),
        (["rule", "add", "--error", "91", "--times", "abc"], "--times: 'abc' is no number"),
        (["rule", "add", "--error", "91", "--for", "-5s"], "--for: '-5s' is negative"),
        (["rule", "add", "--error", "91", "--for", "0s"], "--for: the time is 0"),
        (["rule", "add", "--error", "91", "--for", "5"], "--for: 5 what? Write 5ms or 5s"),
        (["rule", "add", "--expect", "x"], "--expect: 'x' is no number"),
        (["rule", "add", "--error", "91", "--nth", "0"], "--nth: '0' is less than 1"),
        (["rule", "add", "--delay", "200"], "--delay: 200 what? Write 200ms or 200s"),
        (["rule", "add", "{}"], "RULE"),
        (["rule", "rm", "nobody"], "ID: there is no rule 'nobody'"),
        (["node", "slow", "--seconds", "1e20"], "--seconds: '1e20' is more than a year"),
        (["node", "slow", "--jitter", "1"], "--jitter: 1 what? Write 1ms or 1s"),
        (["node", "restart", "--down", "5"], "--down: 5 what? Write 5ms or 5s"),
        (["limits", "--requests", "20"], "--requests: 20 what? Write 20/s or 20/min"),
        (["limits", "--requests", "100/min"], "--requests: 1.66667/s is no whole number"),
        (["limits", "shed", "2"], "SHARE: '2' is more than 1"),
        (["data", "seed", "a.b", f'{{"a": {"9" * 30}}}'], 'DOCUMENTS: \'{"a": 99'),
        (["data", "restore", "nothing"], "NAME: unknown snapshot 'nothing'; there is none"),
        (["network", "fault", "{}"], "FAULT: a fault needs at"),
        (["network", "partition", "nobody"], "there is no 'nobody' now"),
        (["journal", "--outcome", "fine"], "--outcome: unknown outcome 'fine'"),
        (["journal", "verify", "--count", "x"], "--count: 'x' is no number"),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_the_cure(
    server: BackgroundCluster, arguments: list[str], message: str
) -> None:
    assert message in told(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["node", "kil"], "unknown command 'kil'; did you mean 'kill'?"),
        (["node", "slow", "--secnds", "1"], "no such option: --secnds; did you mean '--seconds'?"),
        (["node", "start"], "Missing argument 'NODE'"),
        (["node", "kill", "a", "b"], "unexpected extra argument"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert message in done.stderr


def test_without_a_server_the_cure_is_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUSHBACKD_HOME", str(tmp_path))
    monkeypatch.delenv("PUSHBACKD_ID", raising=False)
    assert told("node", "kill") == "Error: no server runs; `pushbackd start` starts one"


def options(**given: Any) -> dict[str, Any]:
    return {f"rule_{name}": value for name, value in given.items()}


@pytest.mark.parametrize(
    ("given", "start", "rule"),
    [
        (
            options(command="find", error="462", times="2"),
            None,
            {"when": {"command": "find"}, "then": [{"error": "462"}], "times": "2"},
        ),
        (
            options(namespace="shop.orders", delay="200ms", close=True),
            None,
            {"when": {"namespace": "shop.orders"}, "then": [{"delay": "200ms"}, {"close": True}]},
        ),
        (
            options(when='{"command": "find"}', every="3", then='{"error": 91}', writeConcernError="64"),
            None,
            {
                "when": {"command": "find", "every": "3"},
                "then": [{"error": 91}, {"writeConcernError": {"code": 64}}],
            },
        ),
        (options(name="n"), '{"then": [{"close": true}]}', {"name": "n", "then": [{"close": True}]}),
        (
            options(error="91", labels="A,B", message="m"),
            None,
            {"then": [{"error": "91", "labels": "A,B", "message": "m"}]},
        ),
        (options(sequence='[[{"error": 462}], []]'), None, {"sequence": [[{"error": 462}], []]}),
    ],
)
def test_options_describe_a_rule(given: dict[str, Any], start: str | None, rule: dict[str, Any]) -> None:
    assert rule_of(given, start) == rule


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the rule has no effect"),
        (["--labels", "A"], "--labels: goes with --error"),
        (["--when", '{"command": "find"}', "--command", "find", "--close"], "--command: the document has"),
        (["--then", "{"], "--then: '{' is no JSON"),
        (["--write-concern-error", "x"], "--write-concern-error: 'x' is no error code"),
        (["[1]", "--close"], "RULE: [1] is no document"),
    ],
)
def test_a_rule_that_options_cannot_mean_is_refused(arguments: list[str], message: str) -> None:
    assert message in told("rule", "add", *arguments)
