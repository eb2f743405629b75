from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from pymongo import MongoClient
from started import Started

from fakeserver.access import UserSpec
from fakeserver.cli.command import options_of
from fakeserver.cli.description import spec_of
from fakeserver.cli.options import OPTIONS
from fakeserver.cli.program import main
from fakeserver.control.client import ControlClient
from fakeserver.control.registry import Registry
from fakeserver.deployment.spec import ClusterSpec, TlsMode, TlsSpec, Topology

if TYPE_CHECKING:
    from pathlib import Path


def _spec(*arguments: str, **environment: str) -> ClusterSpec:
    return spec_of(options_of(arguments), environment)


@pytest.mark.parametrize(
    ("arguments", "spec"),
    [
        ([], ClusterSpec.standalone(bind_ip="localhost")),
        (["--port", "27017"], ClusterSpec.standalone(bind_ip="localhost", ports=(27017,))),
        (
            ["--replSet", "rs1", "--port", "27017"],
            ClusterSpec.replica_set(3, set_name="rs1", bind_ip="localhost", ports=(27017, 27018, 27019)),
        ),
        (
            ["--topology", "replicaset", "--members", "1", "--profile", "7.0", "--seed", "5"],
            ClusterSpec.replica_set(1, profile="7.0", seed=5, bind_ip="localhost"),
        ),
        (
            ["--setParameter", "logLevel=1", "--setParameter", "enableTestCommands=0"],
            ClusterSpec.standalone(
                bind_ip="localhost", parameters={"logLevel": "1", "enableTestCommands": "0"}
            ),
        ),
        (["--bind_ip", "127.0.0.1"], ClusterSpec.standalone(host="127.0.0.1", bind_ip="127.0.0.1")),
        (
            ["--bind_ip_all", "--listen-beyond-loopback-without-authentication"],
            ClusterSpec.standalone(host="localhost", bind_ip="0.0.0.0"),
        ),
        (
            ["--networkMessageCompressors", "zlib, snappy"],
            ClusterSpec.standalone(bind_ip="localhost", compressors=("zlib", "snappy")),
        ),
        (
            ["--networkMessageCompressors", "disabled"],
            ClusterSpec.standalone(bind_ip="localhost", compressors=()),
        ),
        (
            ["--auth", "--user", "bob:a:b"],
            ClusterSpec.standalone(bind_ip="localhost", auth=True, users=(UserSpec("bob", "a:b"),)),
        ),
        (["--noscripting"], ClusterSpec.standalone(bind_ip="localhost", javascript=False)),
        (
            ["--keyFile", "key", "--bind_ip_all"],
            ClusterSpec.standalone(host="localhost", bind_ip="0.0.0.0", auth=True),
        ),
        (
            ["--sslMode", "requireSSL", "--sslPEMKeyFile", "s.pem", "--tlsCAFile", "ca.pem"],
            ClusterSpec.standalone(
                bind_ip="localhost", tls=TlsSpec(certificate_key_file="s.pem", ca_file="ca.pem")
            ),
        ),
        (
            ["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", "s.pem", "--tlsAllowInvalidCertificates"],
            ClusterSpec.standalone(
                bind_ip="localhost",
                tls=TlsSpec(
                    mode=TlsMode.PREFER, certificate_key_file="s.pem", allow_invalid_certificates=True
                ),
            ),
        ),
        (
            ["--topology", "sharded", "--mongos", "3", "--shards", "2", "--members", "1", "--port", "27017"],
            ClusterSpec.sharded(3, 2, members=1, bind_ip="localhost", ports=(27017, 27018, 27019)),
        ),
        (
            ["--topology", "load-balanced", "--loadBalancerPort", "27050"],
            ClusterSpec.load_balanced(bind_ip="localhost", balancer_ports=(27050, 27051)),
        ),
        (["--dbpath", "/data", "--journal"], ClusterSpec.standalone(bind_ip="localhost")),
    ],
)
def test_a_mongods_flags_describe_a_deployment(arguments: list[str], spec: ClusterSpec) -> None:
    assert _spec(*arguments) == spec


@pytest.mark.parametrize(
    ("environment", "topology"),
    [
        ({"TOPOLOGY": "replica_set"}, Topology.REPLICA_SET),
        ({"TOPOLOGY": "server"}, Topology.SINGLE),
        ({"TOPOLOGY": "sharded_cluster"}, Topology.SHARDED),
        ({"TOPOLOGY": "sharded_cluster", "LOAD_BALANCER": "true"}, Topology.LOAD_BALANCED),
        ({"FAKESERVER_TOPOLOGY": "replicaset", "TOPOLOGY": "server"}, Topology.REPLICA_SET),
    ],
)
def test_the_environment_gives_the_default_topology(environment: dict[str, str], topology: Topology) -> None:
    assert _spec(**environment).topology is topology
    assert _spec("--topology", "single", **environment).topology is Topology.SINGLE


@pytest.mark.parametrize(
    ("spelling", "topology"),
    [
        ("standalone", Topology.SINGLE),
        ("replica_set", Topology.REPLICA_SET),
        ("replica-set", Topology.REPLICA_SET),
        ("ReplicaSet", Topology.REPLICA_SET),
        ("sharded-replicaset", Topology.SHARDED),
        ("sharded_cluster", Topology.SHARDED),
        ("load_balanced", Topology.LOAD_BALANCED),
        ("loadBalanced", Topology.LOAD_BALANCED),
    ],
)
def test_other_spellings_of_a_topology_are_accepted(spelling: str, topology: Topology) -> None:
    assert _spec("--topology", spelling).topology is topology
    assert _spec(FAKESERVER_TOPOLOGY=spelling).topology is topology


@pytest.mark.parametrize(
    ("arguments", "environment", "complaint"),
    [
        (["--bind_ip", "0.0.0.0"], {}, "lets other machines in"),
        (["--user", "bob"], {}, "--user must have the form NAME:PASSWORD"),
        (["--tlsCAFile", "ca.pem"], {}, "no use without --tlsMode"),
        (["--tlsMode", "requireTLS"], {}, "needs a tlsCertificateKeyFile"),
        (["--bind_ip", "example.org"], {}, "lets other machines in"),
        (["--bind_ip_all"], {}, "lets other machines in"),
        (["--members", "3"], {}, "--members is for a replica set"),
        (["--topology", "single", "--replSet", "x"], {}, "--replSet contradicts --topology single"),
        (["--topology", "sharded", "--replSet", "x"], {}, "--replSet contradicts --topology sharded"),
        (["--mongos", "2"], {}, "--mongos and --shards are for a sharded cluster"),
        (["--topology", "sharded", "--mongos", "0"], {}, "mongos must be from 1 to 50"),
        (["--topology", "sharded", "--loadBalancerPort", "1"], {}, "--loadBalancerPort is for a load"),
        (["--setParameter", "logLevel"], {}, "must have the form NAME=VALUE"),
        ([], {"TOPOLOGY": "ring"}, "unknown topology 'ring'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: list[str], environment: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        _spec(*arguments, **environment)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fork"], "`pushbackd start` runs a server in the background"),
        (["--shutdown"], "`pushbackd stop` ends a server"),
        (["--id", "a/b"], "'a/b' is no id"),
        (["--id", "a", "--control", "none"], "leave --control none away"),
        (["--arbiters", "3", "--replSet", "x"], "--arbiters must be from 0 to 2"),
        (["--bind_ip", "0.0.0.0"], "lets other machines in"),
        (["--bogus"], "no such option: --bogus"),
        (["--replSt", "x"], "did you mean '--replSet'?"),
        (["--profile", "8.3"], "did you mean '8.2'?"),
        (["--topology", "rplicaset"], "did you mean 'replicaset'?"),
        (["shop"], "unexpected extra argument (shop)"),
        (["--members", "0", "--replSet", "x"], "members must be from 1 to 50"),
    ],
)
def test_a_mistake_on_the_command_line_is_explained(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err


MONGODS_OWN = (
    *("--port", "--bind_ip", "--bind_ip_all", "--ipv6", "--unixSocketPrefix", "--maxConns", "--config", "-f"),
    *("--replSet", "--setParameter", "--networkMessageCompressors", "--auth", "--keyFile", "--noscripting"),
    *("--tlsMode", "--sslMode", "--tlsCertificateKeyFile", "--sslPEMKeyFile", "--tlsCAFile", "--sslCAFile"),
    *("--logpath", "--logappend", "--syslog", "--quiet", "-v", "--verbose", "--pidfilepath", "--version"),
    *("--dbpath", "--storageEngine", "--oplogSize", "--wiredTigerCacheSizeGB", "--configdb", "--journal"),
    *("--nojournal", "--directoryperdb", "--shardsvr", "--configsvr", "--fork", "--shutdown"),
)


def test_options_are_spelled_as_a_mongod_spells_them() -> None:
    spellings = {word for row in OPTIONS for word in row.spellings}
    assert [each for each in MONGODS_OWN if each not in spellings] == []


def test_the_fake_server_loads_no_command_line() -> None:
    script = "import sys, fakeserver; print('click' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version", "--profile", "9.0"]) == 0
    assert capsys.readouterr().out == "db version v9.0.0\n"


def test_a_parameter_that_no_server_has_keeps_it_from_starting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--setParameter", "bogus=1"]) == 2
    assert "unrecognized parameter [bogus]" in capsys.readouterr().err


def _serve(*arguments: str, home: Path | None = None) -> Started[str]:
    return Started(
        [sys.executable, "-m", "fakeserver", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error", **({"PUSHBACKD_HOME": str(home)} if home else {})},
    )


def _stop(process: subprocess.Popen[str], number: int) -> tuple[str, list[dict[str, Any]]]:
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    return out, [json.loads(line) for line in err.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_served_deployment_answers_until_a_signal_stops_it(number: int) -> None:
    with _serve("--replSet", "rs0", "--dbpath", "/data") as process:
        assert process.stdout is not None
        uri = process.stdout.readline().strip()
        with MongoClient[Any](uri, serverSelectionTimeoutMS=10_000) as client:
            assert client.admin.command("ping")["ok"] == 1.0
        out, log = _stop(process, number)
    assert process.returncode == 0
    assert out == ""
    messages = [line["msg"] for line in log]
    assert messages.count("Waiting for connections") == 3
    useless = [line["attr"]["option"] for line in log if line["msg"] == "Option has no effect here"]
    assert useless == ["--dbpath"]
    assert any("Test commands are enabled" in message for message in messages)


@pytest.mark.slow
def test_log_process_number_sockets_and_control_are_where_the_options_say(tmp_path: Path) -> None:
    log, pid, home = tmp_path / "mongod.log", tmp_path / "mongod.pid", tmp_path / "home"
    options = ["--logpath", str(log), "--pidfilepath", str(pid), "--unixSocketPrefix", str(tmp_path)]
    with _serve(*options, "--id", "shop", "--control", "tcp", "-v", home=home) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip().rstrip("/").rpartition(":")[2]
        assert int(pid.read_text()) == process.pid
        path = quote(str(tmp_path / f"mongodb-{port}.sock"), safe="")
        with MongoClient[Any](f"mongodb://{path}", serverSelectionTimeoutMS=10_000) as client:
            assert client.admin.command("getParameter", logLevel=1)["logLevel"] == 1
        entry = Registry(home).read("shop")
        assert entry is not None
        assert entry.control.startswith("tcp:127.0.0.1:")
        assert (entry.pid, entry.log) == (process.pid, str(log))
        ControlClient(entry).shut_down()
        assert process.wait(20) == 0
    assert "Waiting for connections" in log.read_text()
    assert {path.name for path in tmp_path.rglob("*")} == {"mongod.log", "home"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--setParameter", "loglevel=1"], "unrecognized parameter [loglevel]"),
        (["--setParameter", "loglevel=1"], "did you mean 'logLevel'?"),
        (["--setParameter", "failpoint.failComand={mode: 'off'}"], "did you mean 'failCommand'?"),
    ],
)
def test_what_keeps_it_from_starting_is_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) in {2, 48}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: cannot start: ")
    assert complaint in line


@pytest.mark.parametrize("option", ["--logpath", "--journalFile"])
def test_a_file_that_cannot_be_written_is_a_wrong_input(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([option, "/nowhere/file"]) == 2
    assert capsys.readouterr().err == "Error: /nowhere/file: No such file or directory\n"


@pytest.mark.slow
def test_a_port_that_is_taken_is_an_exit_code() -> None:
    with _serve() as first:
        assert first.stdout is not None
        port = first.stdout.readline().strip().rstrip("/").rpartition(":")[2]
        with _serve("--port", port) as second:
            assert second.wait(timeout=20) == 48
            assert second.stderr is not None
            assert second.stderr.read().startswith("Error: cannot start: ")
        _stop(first, signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_has_read_the_line_may_end_the_server_at_once(number: signal.Signals) -> None:
    for _ in range(3):
        with Started(
            [sys.executable, "-m", "harness", "serve"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith("mongodb://")
            process.send_signal(number)
            assert "Traceback" not in process.stderr.read()
        assert process.returncode == 0


@pytest.mark.slow
def test_a_log_that_nobody_reads_holds_no_server_up() -> None:
    with Started(
        [sys.executable, "-m", "harness", "serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": ""},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        uri = process.stdout.readline().strip()
        process.stderr.close()
        with MongoClient[dict[str, Any]](uri) as client:
            assert client.admin.command("ping")["ok"] == 1
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
