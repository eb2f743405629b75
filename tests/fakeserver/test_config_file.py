from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakeserver.cli.command import options_of
from fakeserver.cli.config_file import arguments_of
from fakeserver.cli.description import spec_of
from fakeserver.cli.program import main
from fakeserver.control.scenario.loader import ScenarioFileError
from fakeserver.deployment.spec import ClusterSpec

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """\
net:
  port: 27017
  bindIp: 127.0.0.1
  maxIncomingConnections: 50
  compression: {compressors: "zlib,snappy"}
replication: {replSetName: shop, oplogSizeMB: 100}
security: {authorization: enabled, javascriptEnabled: false}
setParameter:
  enableTestCommands: 1
  ingressRequestRateLimiterEnabled: true
  ingressRequestRateLimiterExemptions: {ranges: [10.0.0.0/8]}
systemLog: {destination: file, path: mongod.log, logAppend: true, verbosity: 2, quiet: false}
processManagement: {pidFilePath: mongod.pid}
storage: {dbPath: /data, journal: {enabled: true}, wiredTiger: {engineConfig: {cacheSizeGB: 0.5}}}
"""


def test_the_keys_of_mongod_stand_for_its_options(tmp_path: Path) -> None:
    file = tmp_path / "mongod.conf"
    file.write_text(WHOLE)
    options = options_of(["--config", str(file)])
    assert spec_of(options, {}) == ClusterSpec.replica_set(
        3,
        set_name="shop",
        host="127.0.0.1",
        bind_ip="127.0.0.1",
        ports=(27017, 27018, 27019),
        compressors=("zlib", "snappy"),
        auth=True,
        javascript=False,
        parameters={
            "logLevel": "2",
            "maxIncomingConnections": "50",
            "enableTestCommands": "1",
            "ingressRequestRateLimiterEnabled": "true",
            "ingressRequestRateLimiterExemptions": '{"ranges": ["10.0.0.0/8"]}',
        },
    )
    assert (options.logpath, options.logappend, options.pidfilepath) == ("mongod.log", True, "mongod.pid")


def test_an_option_of_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mongod.conf"
    file.write_text("net: {port: 27017}\nsetParameter: {logLevel: 1}\n")
    spec = spec_of(options_of(["-f", str(file), "--port", "27018", "--setParameter", "logLevel=3"]), {})
    assert spec.ports == (27018,)
    assert spec.parameters == {"logLevel": "3"}


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n"])
def test_an_empty_file_changes_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mongod.conf"
    file.write_text(text)
    assert arguments_of(file) == []


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("net:\n  prt: 1\n", ":2:3: net: unknown key 'prt'; did you mean 'port'?"),
        ("nett: {}\n", ":1:1: unknown key 'nett'; did you mean 'net'?"),
        ("net: {port: many}\n", ":1:13: net.port: 'many' is not a whole number"),
        ("net: {port: -1}\n", ":1:13: net.port: -1 is not a whole number"),
        ("net: {ipv6: 1}\n", ":1:13: net.ipv6: 1 is not true or false"),
        ("net: 27017\n", ":1:6: net: holds keys of mongod: port, "),
        ("net:\n  tls: {mode: requireTSL}\n", "net.tls.mode: unknown value 'requireTSL'; did you mean"),
        ("replication: {replSetName: 5}\n", ":1:28: replication.replSetName: 5 is not a text"),
        ("security: {authorization: on}\n", "unknown value 'on'; known are disabled, enabled"),
        ("setParameter: [logLevel]\n", ":1:15: setParameter: ['logLevel'] is not a mapping of parameters"),
        ("net: {port: 1\n", "is not YAML"),
        ("net: {port: 1, port: 2}\n", "key 'port' is repeated"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_the_cure(tmp_path: Path, text: str, mistake: str) -> None:
    file = tmp_path / "mongod.conf"
    file.write_text(text)
    with pytest.raises(ScenarioFileError) as raised:
        arguments_of(file)
    assert str(raised.value).startswith(str(file))
    assert mistake in str(raised.value)


def test_every_mistake_of_a_file_is_told_and_the_exit_code_is_that_of_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mongod.conf"
    file.write_text("net: {prt: 1}\nstorag: {}\n")
    assert main(["-f", str(file)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"Error: {file}:1:7: ")
    assert second.startswith(f"{file}:2:1: ")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFileError, match="cannot be read: No such file"):
        arguments_of(tmp_path / "missing.conf")
