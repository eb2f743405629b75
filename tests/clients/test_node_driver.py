"""The Node driver against a served deployment: SCRAM, TLS, writes, and a retry under a fail point."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest
from tls_files import tls

import fakeserver
from fakeserver import ClusterSpec, UserSpec

MODULES = os.environ.get("PUSHBACKD_NODE_MODULES", "")
NODE = shutil.which("node")
SCRIPT = Path(__file__).with_name("smoke.cjs")
PATIENCE = 30

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None, reason="there is no node on this machine"),
    pytest.mark.skipif(
        not (Path(MODULES) / "mongodb").is_dir(),
        reason="PUSHBACKD_NODE_MODULES names no folder with the Node driver (npm install mongodb)",
    ),
]


async def smoke(uri: str) -> str:
    """Run the script, and return what it printed."""
    assert NODE is not None
    process = await asyncio.create_subprocess_exec(
        NODE,
        str(SCRIPT),
        uri,
        env={**os.environ, "NODE_PATH": MODULES},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        printed, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()
    return printed.decode()


@pytest.mark.parametrize("mechanism", ["", "&authMechanism=SCRAM-SHA-1"])
@pytest.mark.parametrize("secure", [True, False], ids=["tls", "plain"])
def test_the_node_driver_authenticates_writes_and_retries(mechanism: str, secure: bool) -> None:  # noqa: FBT001 - a case
    users = (UserSpec("bob", "pwd123"),)
    spec = ClusterSpec.replica_set(3, auth=True, users=users, tls=tls() if secure else None)

    async def main() -> None:
        async with fakeserver.start(spec) as cluster:
            told = json.loads(await smoke(cluster.uri + mechanism))
            assert told["found"] == [{"_id": 1, "x": 11}, {"_id": 3, "x": 3}]
            assert told["users"] == [{"user": "bob", "db": "admin"}]

    asyncio.run(main())
