"""Messages and connections, for tests that put bytes on a wire."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from mongowire.compression import Compressor
from mongowire.connection import Envelope, Signal, WireConnection
from mongowire.messages import DocumentSequence, OpMsg, OpQuery, OpReply

if TYPE_CHECKING:
    from collections.abc import Iterable


def drain(connection: WireConnection) -> list[Envelope | Signal]:
    """Return every message that is there, and the signal behind them."""
    found: list[Envelope | Signal] = []
    while isinstance(message := connection.next_message(), Envelope):
        found.append(message)
    return [*found, message]


class ConnectionPair:
    """Two ends of a wire: what one sends, the other receives."""

    def __init__(self) -> None:
        self.client = WireConnection()
        self.server = WireConnection()

    def carry(self, sender: WireConnection, *args: Any, **kwargs: Any) -> Envelope:
        """Send a message from one end, and return it as it arrives at the other."""
        receiver = self.server if sender is self.client else self.client
        receiver.receive_data(sender.send(*args, **kwargs))
        arrived, rest = drain(receiver)
        assert isinstance(arrived, Envelope)
        assert rest is Signal.NEED_DATA
        return arrived


_keys = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=6)
_scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
)
documents = st.dictionaries(_keys, _scalars | st.lists(_scalars, max_size=3), max_size=5)
int32s = st.integers(-(2**31), 2**31 - 1)
compressors = st.none() | st.sampled_from(Compressor)


@st.composite
def op_msgs(draw: st.DrawFn) -> OpMsg:
    body = draw(documents)
    names = draw(st.lists(_keys.filter(lambda name: name not in body), max_size=2, unique=True))
    return OpMsg.of(
        body,
        sequences=[DocumentSequence.of(name, draw(st.lists(documents, max_size=3))) for name in names],
        more_to_come=draw(st.booleans()),
        exhaust_allowed=draw(st.booleans()),
        checksum=draw(st.booleans()),
    )


op_queries = st.builds(OpQuery.of, st.sampled_from(["admin", "test"]), documents, flags=int32s)
op_replies = st.builds(lambda found, flags: OpReply.of(*found, flags=flags), st.lists(documents), int32s)
messages = op_msgs() | op_queries | op_replies


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Return the bytes of a few good messages."""
    sender = WireConnection()
    return b"".join(
        sender.send(
            draw(messages), request_id=draw(int32s), response_to=draw(int32s), compressor=draw(compressors)
        )
        for _ in range(draw(st.integers(1, 3)))
    )


@st.composite
def splits(draw: st.DrawFn, data: bytes) -> Iterable[bytes]:
    """Return `data` cut at any places."""
    cuts = sorted({0, len(data), *draw(st.lists(st.integers(0, len(data)), max_size=8))})
    return [data[start:end] for start, end in pairwise(cuts)]


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Return `data` with a few bytes changed, removed, doubled or put in."""
    damaged = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        _mutate(draw, damaged)
    return bytes(damaged)


_SPECIAL = [b"", b"\0", b"\xff", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80"]


def _mutate(draw: st.DrawFn, data: bytearray) -> None:
    # Sizes and flags stand near the front: half of the blows go there.
    at = draw(st.integers(0, min(40, len(data))) | st.integers(0, len(data)))
    width = draw(st.sampled_from([0, 1, 4, 16]))
    data[at : at + width] = draw(st.sampled_from(_SPECIAL) | st.binary(max_size=width))
