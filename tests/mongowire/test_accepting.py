"""At the limit of open files a connection is refused, and the server goes on (POSIX: `EMFILE`)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the platform has no limit of open files to lower"),
]

_PROGRAM = r"""
import asyncio, json, resource, socket, sys, time
import fakeserver
from fakeserver import ClusterSpec
from mongowire.loops import fast_loop

complaints = []

async def hung_up(sock):
    loop = asyncio.get_running_loop()
    sock.setblocking(False)
    try:
        return await asyncio.wait_for(loop.sock_recv(sock, 1), 5) == b""
    except ConnectionResetError:
        return True

async def main():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: complaints.append(str(context.get("exception"))))
    async with fakeserver.start(ClusterSpec.standalone()) as cluster:
        node = cluster.nodes[0]
        host, _, port = node.address.rpartition(":")
        address = ("127.0.0.1", int(port))
        # The clients' ends are files of this process, too: they are opened before the limit is lowered.
        clients = [socket.socket() for _ in range(12)]
        used = max(sock.fileno() for sock in clients) + 1
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 4, most))
        for sock in clients:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
        before = time.process_time()
        await asyncio.sleep(0.5)
        spent = time.process_time() - before
        refused = sum([await hung_up(sock) for sock in clients[4:]])
        rejected, logged = node.gate.stats()["rejected"], node.log.lines
        accepted = len(node.connections)
        for sock in clients:
            sock.close()
        await asyncio.sleep(0.1)
        late = socket.socket()
        late.setblocking(False)
        await loop.sock_connect(late, address)
        await asyncio.sleep(0.1)
        print(json.dumps({
            "refused": refused, "rejected": rejected, "accepted": accepted,
            "spent": spent, "complaints": complaints,
            "logged": sum("too many open files" in line for line in logged),
            "open afterwards": len(node.connections),
        }))
        late.close()

with asyncio.Runner(loop_factory=fast_loop() if sys.argv[1] == "uvloop" else None) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_server_without_a_free_file_refuses_at_once_counts_says_so_once_and_goes_on(
    loop: str,
) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    finished = subprocess.run(
        [sys.executable, "-c", _PROGRAM, loop], capture_output=True, text=True, check=False, timeout=60
    )
    assert finished.returncode == 0, finished.stderr
    told = json.loads(finished.stdout)
    assert told["refused"] == 8
    # uvloop takes a file more for itself.
    assert told["accepted"] == (4 if loop == "asyncio" else 3)
    assert told["rejected"] == 12 - told["accepted"]
    assert told["logged"] == 1
    assert told["complaints"] == []
    assert told["spent"] < 0.25
    assert told["open afterwards"] == 1
