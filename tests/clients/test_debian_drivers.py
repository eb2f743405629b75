"""The drivers that Debian packs, some of them many years old, against served deployments.

Each has a program under `programs/` that writes, reads, and survives a lost connection, and prints what it
found. A driver that is not installed is skipped, with the packages that it comes in.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final

import pytest
from served import DEPLOYMENTS, PROGRAMS, bytes_received, served, server_tls, told, with_options
from sizes import some_of
from tls_files import certificates

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.slow

LONG_TEXT = 100_000
"""The characters of a document that every program writes: what compression leaves little of."""
JAVA_LIBRARY = "/usr/share/java/mongo-java-driver.jar"
BOB = ("--auth", "--user", "bob:pwd123")


@dataclass(frozen=True, eq=False)
class Client:
    """A driver: how to know that it is there, to build its program and to run it."""

    packages: str
    probe: str
    run: str
    build: str = "true"
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Settings that it does not know, with what they lack."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Patterns of what its connection strings put in another way."""


CLIENTS: Final = {
    "c": Client(
        packages="gcc pkg-config libmongoc-dev",
        probe="pkg-config --exists libmongoc-1.0",
        build="gcc -Wall -Werror {programs}/crud.c -o crud $(pkg-config --cflags --libs libmongoc-1.0)",
        run="./crud",
    ),
    "php": Client(
        packages="php-cli php-mongodb",
        probe="""php -r 'exit(extension_loaded("mongodb") ? 0 : 1);'""",
        run="php {programs}/crud.php",
    ),
    "perl": Client(
        packages="libmongodb-perl libio-socket-ssl-perl",
        probe="perl -MMongoDB -MIO::Socket::SSL -e 1",
        run="perl {programs}/crud.pl",
        options={"loadBalanced=true": "appName=perl"},
    ),
    "ruby": Client(
        packages="ruby-mongo",
        probe="ruby -W0 -r mongo -e 1",
        run="ruby -W0 {programs}/crud.rb",
        cannot={"sha256": "the driver is older than SCRAM-SHA-256"},
        options={"tls=true&tlsCAFile=[^&]*": "ssl=true"},
    ),
    "go": Client(
        packages="golang-go golang-mongodb-mongo-driver-dev",
        probe="command -v go && test -d /usr/share/gocode/src/go.mongodb.org/mongo-driver",
        build="GOCACHE=$PWD GOPATH=/usr/share/gocode GO111MODULE=off go build -o crud {programs}/crud.go",
        run="./crud",
    ),
    "java": Client(
        packages="default-jdk-headless libmongodb-java",
        probe=f"command -v javac && test -e {JAVA_LIBRARY}",
        build=f"javac -cp {JAVA_LIBRARY} -d . {{programs}}/Crud.java",
        run=f"java -cp {JAVA_LIBRARY}:. Crud",
        cannot={
            "sha256": "the driver is older than SCRAM-SHA-256",
            "tls": "Java trusts a key store, which a connection string cannot name",
        },
    ),
}


@cache
def installed(client: Client) -> bool:
    return _shell(client.probe).returncode == 0


@cache
def built(client: Client) -> Path:
    """Build the program, once a session, in a folder of its own, and return that."""
    folder = Path(mkdtemp())
    done = _shell(client.build.format(programs=PROGRAMS), folder)
    assert done.returncode == 0, done.stderr
    return folder


def _shell(command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    shell = shutil.which("sh")
    assert shell is not None
    return subprocess.run([shell, "-c", command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    chosen = CLIENTS[request.param]
    if not installed(chosen):
        pytest.skip(f"not installed: apt-get install {chosen.packages}")
    setting = request.node.get_closest_marker("setting")
    for lacking in () if setting is None else setting.args:
        if lacking in chosen.cannot:
            pytest.skip(chosen.cannot[lacking])
    return chosen


def writes_and_reads(client: Client, uri: str, *more: str) -> list[str]:
    """Let a client do its work, and return the names of the users that it was."""
    for ours, theirs in client.options.items():
        uri = re.sub(ours, theirs, uri)
    uri = with_options(uri, "retryWrites=true", *more)
    command = [*client.run.format(programs=PROGRAMS).split(), uri]
    (line,) = told(command, {"SSL_CERT_FILE": str(certificates().ca_file)}, built(client))
    assert line["found"] == [{"_id": 1, "x": 11}, {"_id": 3, "x": 3}]
    return [user["user"] for user in line["users"]]


@pytest.mark.parametrize("topology", some_of(DEPLOYMENTS, 0))
def test_a_client_writes_reads_and_retries(client: Client, topology: str) -> None:
    with served(*DEPLOYMENTS[topology]) as uri:
        before = bytes_received(uri)
        assert writes_and_reads(client, uri) == []
        if topology == "replica_set":
            assert bytes_received(uri) - before > LONG_TEXT


def test_a_client_says_who_it_is_by_scram_sha_1(client: Client) -> None:
    with served(*DEPLOYMENTS["replica_set"], *BOB) as uri:
        assert writes_and_reads(client, uri, "authMechanism=SCRAM-SHA-1") == ["bob"]


@pytest.mark.setting("sha256")
def test_a_client_says_who_it_is_by_scram_sha_256(client: Client) -> None:
    with served(*DEPLOYMENTS["replica_set"], *BOB) as uri:
        assert writes_and_reads(client, uri, "authMechanism=SCRAM-SHA-256") == ["bob"]


@pytest.mark.setting("tls")
def test_a_client_speaks_tls(client: Client) -> None:
    with served(*DEPLOYMENTS["replica_set"], *BOB, *server_tls()) as uri:
        assert writes_and_reads(client, uri) == ["bob"]


def test_a_client_compresses_what_it_sends(client: Client) -> None:
    with served(*DEPLOYMENTS["replica_set"]) as uri:
        before = bytes_received(uri)
        assert writes_and_reads(client, uri, "compressors=zlib") == []
        assert bytes_received(uri) - before < LONG_TEXT / 2
