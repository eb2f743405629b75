"""What a request costs our server that comes together with others: with replies joined, and one by one.

`python -m benchmarks.pipelined` sends pings over one connection, so many in one piece, and prints the CPU
time of the server's process for each: the least of all rounds.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from benchmarks.raw_client import encoded
from benchmarks.server_cpu import contestant, serve_fake
from fakeserver.network.connection import Outflow
from mongowire.connection import Envelope, WireConnection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from benchmarks.server_cpu import Contestant

TOGETHER: Final = (1, 4, 16, 64)
_MICROSECONDS: Final = 1e6
_CHUNK: Final = 1 << 16


def serve_apart(pipe: Connection) -> None:
    """Run a fake server in this process that sends each reply for itself."""
    Outflow.joining = lambda *_: nullcontext()  # type: ignore[method-assign, assignment]
    serve_fake(pipe)


def exchange(server: Contestant, count: int, rounds: int) -> None:
    """Send so many pings in one piece, and read all replies, `rounds` times."""
    (sock,) = server.client.sockets
    message = encoded({"ping": 1, "$db": "admin"}) * count
    wire = WireConnection()
    for _ in range(rounds):
        sock.sendall(message)
        left = count
        while left:
            wire.receive_data(sock.recv(_CHUNK))
            while isinstance(wire.next_message(), Envelope):
                left -= 1


def measure(server: Contestant, count: int, requests: int) -> float:
    """Return the CPU time of a request, in microseconds."""
    rounds = max(requests // count, 1)
    before = server.usage()
    exchange(server, count, rounds)
    return (server.usage().cpu - before.cpu) / (rounds * count) * _MICROSECONDS


def run(*, rounds: int, requests: int, together: Sequence[int] = TOGETHER) -> dict[int, tuple[float, float]]:
    """Return the cost with joined replies and with others, by the number of requests that come together."""
    with contestant("joined", serve_fake, 1) as joined, contestant("apart", serve_apart, 1) as apart:
        for server in (joined, apart):
            exchange(server, max(together), 10)
        return {
            count: (
                min(measure(joined, count, requests) for _ in range(rounds)),
                min(measure(apart, count, requests) for _ in range(rounds)),
            )
            for count in together
        }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=5000, help="requests of each round")
    options = parser.parse_args()
    print("| pings in one piece | joined, µs | apart, µs |\n|---:|---:|---:|")
    for count, (joined, apart) in run(rounds=options.rounds, requests=options.requests).items():
        print(f"| {count} | {joined:.1f} | {apart:.1f} |")


if __name__ == "__main__":
    main()
