"""Deployments in processes of their own, and programs in other languages that speak to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pymongo import MongoClient
from started import Started
from tls_files import certificates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DEPLOYMENTS: Final = {
    "replica_set": ("--replSet", "rs0"),
    "sharded": ("--topology", "sharded", "--mongos", "1"),
    "load_balanced": ("--topology", "load-balanced", "--mongos", "1"),
}
"""Those that programs run against; of one mongos, since a fail point is of the server that it is set on."""

PROGRAMS: Final = Path(__file__).parents[1] / "clients" / "programs"
_PATIENCE: Final = 60


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """Run `pushbackd serve` with these arguments, and yield its connection string; it must end well."""
    command = [sys.executable, "-m", "harness.cli", "serve", *arguments]
    with Started(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            uri = process.stdout.readline().strip()
            assert uri, "the deployment does not start"
            yield uri
        finally:
            process.terminate()
        assert process.wait(_PATIENCE) == 0


def with_options(uri: str, *options: str) -> str:
    """Return a connection string with more options, `name=value` each."""
    return f"{uri}{'&' if '?' in uri else '?'}{'&'.join(options)}" if options else uri


def told(
    command: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> list[dict[str, Any]]:
    """Run a program, which must succeed, and return the lines of JSON that it printed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def server_tls() -> list[str]:
    """Return the options of a deployment that speaks nothing but TLS."""
    made = certificates()
    files = ["--tlsCertificateKeyFile", str(made.server_file), "--tlsCAFile", str(made.ca_file)]
    return ["--tlsMode", "requireTLS", "--tlsAllowConnectionsWithoutCertificates", *files]


def bytes_received(uri: str) -> int:
    """Return how many bytes of clients the primary, or the mongos, has read off the wire."""
    with MongoClient[dict[str, Any]](uri) as client:
        return int(client.admin.command("serverStatus")["network"]["bytesIn"])
