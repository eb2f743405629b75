"""The decisions behind faults of bytes: requests taken apart, replies turned into steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import splits, streams

from fakeserver.network.fault_effects import EFFECTS, ConnectionEnd, FaultEffect, edited
from fakeserver.network.fault_layer import Send, Wait, reply_steps
from fakeserver.network.fault_registry import FaultRegistry, Hit
from fakeserver.network.fault_requests import Reached, Requests, Whole
from fakeserver.network.faults import FaultPhase, parse_fault
from mongowire.compression import Compressor
from mongowire.connection import Envelope, WireConnection
from mongowire.documents.errors import ControlError
from mongowire.errors import RemoteProtocolError
from mongowire.messages import OpMsg, OpReply
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fakeserver.network.fault_effects import FaultEffects
    from fakeserver.network.fault_layer import Step

REPLY = WireConnection().send(OpMsg.of({"ok": 1.0, "text": "x" * 50}), request_id=5, response_to=7)


def effects(**do: Any) -> FaultEffects:
    return parse_fault({"at": "reply", "do": do}).effects


def registry() -> FaultRegistry:
    return FaultRegistry(SeededRng(0))


def walked(requests: Requests, pieces: Iterable[bytes]) -> list[Reached | Whole]:
    found: list[Reached | Whole] = []
    for piece in pieces:
        requests.receive(piece)
        while (progress := requests.progress()) is not None:
            found.append(progress)
    return found


@given(st.data())
def test_requests_come_out_as_they_went_in_wherever_they_are_cut(data: st.DataObject) -> None:
    stream = data.draw(streams())
    found = walked(Requests(), data.draw(splits(stream)))
    assert b"".join(each.data for each in found if isinstance(each, Whole)) == stream
    headers = [
        each for each in found if isinstance(each, Reached) and each.phase is FaultPhase.REQUEST_HEADER
    ]
    assert len(headers) == len([each for each in found if isinstance(each, Whole)])


@given(st.data())
def test_a_layer_that_comes_late_passes_on_what_is_left(data: st.DataObject) -> None:
    stream = data.draw(streams())
    at = data.draw(st.integers(0, len(stream)))
    found = walked(Requests(passed=stream[:at]), data.draw(splits(stream[at:])))
    assert b"".join(each.data for each in found if isinstance(each, Whole)) == stream[at:]


@given(st.binary(max_size=200))
def test_anything_is_passed_on_in_the_end(data: bytes) -> None:
    requests = Requests()
    found = walked(requests, [data])
    passed = b"".join(each.data for each in found if isinstance(each, Whole))
    assert data.startswith(passed)
    assert requests.idle is (passed == data)


@given(
    st.integers(1, 60) | st.none(),
    st.integers(1, 10_000) | st.none(),
    st.floats(0, 5),
    st.integers(0, len(REPLY)),
)
def test_a_reply_that_is_only_slow_arrives_whole(
    split: int | None, bandwidth: int | None, delay: float, byte: int
) -> None:
    do: dict[str, Any] = {"delay": f"{delay:.17f}s", "split": split}
    if bandwidth is not None:
        do["bandwidth"] = f"{bandwidth}B/s"
    fault = parse_fault(
        {"at": "reply", "byte": byte, "do": {key: each for key, each in do.items() if each is not None}}
    )
    steps = list(reply_steps(REPLY, [Hit(fault, byte)], registry()))
    assert b"".join(step.data for step in steps if isinstance(step, Send)) == REPLY
    assert all(len(step.data) <= (split or len(REPLY)) for step in _behind(steps, byte))
    waited = sum(step.seconds for step in steps if isinstance(step, Wait))
    assert waited >= delay + (0 if bandwidth is None else (len(REPLY) - byte) / bandwidth) - 1e-9


def _behind(steps: Sequence[Step], byte: int) -> list[Send]:
    sent = [step for step in steps if isinstance(step, Send)]
    return sent[1:] if byte else sent


@given(st.integers(0, len(REPLY)), st.integers(0, 200))
def test_a_cut_lets_so_many_bytes_pass(byte: int, count: int) -> None:
    fault = parse_fault({"at": "reply", "byte": byte, "do": {"cut": count}})
    *sent, end = reply_steps(REPLY, [Hit(fault, byte)], registry())
    assert end is ConnectionEnd.CLOSE
    assert b"".join(step.data for step in sent if isinstance(step, Send)) == REPLY[: byte + count]


@pytest.mark.parametrize("compressor", [None, Compressor.ZLIB])
def test_a_bad_checksum_is_seen_by_whoever_looks(compressor: Compressor | None) -> None:
    message = OpMsg.of({"ok": 1.0})
    reply = WireConnection().send(message, request_id=1, response_to=2, compressor=compressor)
    damaged = edited(reply, [effects(checksum="bad")])
    wire = WireConnection()
    wire.receive_data(damaged)
    envelope = wire.next_message()
    assert isinstance(envelope, Envelope)
    assert envelope.checksum_present
    assert envelope.compressor is None
    with pytest.raises(RemoteProtocolError, match="checksum"):
        envelope.parse()


def test_a_legacy_reply_has_no_checksum_to_damage() -> None:
    reply = WireConnection().send(OpReply.of({"ok": 1.0}), request_id=1, response_to=2)
    assert edited(reply, [effects(checksum="bad")]) == reply


@given(st.integers(1, 200), st.sampled_from([None, Compressor.ZLIB]))
def test_a_truncated_reply_has_a_header_that_agrees(count: int, compressor: Compressor | None) -> None:
    reply = WireConnection().send(
        OpMsg.of({"text": "x" * 100}), request_id=1, response_to=2, compressor=compressor
    )
    cut = edited(reply, [effects(truncate=count)])
    wire = WireConnection()
    wire.receive_data(cut)
    envelope = wire.next_message()
    assert isinstance(envelope, Envelope)
    assert (envelope.response_to, envelope.wire_size) == (2, len(cut))
    with pytest.raises(RemoteProtocolError):
        envelope.parse()


@pytest.mark.parametrize("name", EFFECTS)
def test_every_effect_of_the_table_changes_what_happens(name: str) -> None:
    values = {"checksum": "bad", "reset": True, "halfOpen": True, "duplicate": True}
    value = {**values, "delay": "7s", "jitter": "7s", "bandwidth": "7B/s"}.get(name, 7)
    assert effects(**{name: value}) != parse_fault({"at": "reply", "do": {"delay": 0}}).effects


def test_another_effect_is_a_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def bitten(count: int, reply: bytes) -> bytes:
        return reply[count:]

    row = FaultEffect(read=int, edit=bitten, of_replies=True)
    monkeypatch.setitem(EFFECTS, "bite", row)
    fault = parse_fault({"at": "reply", "do": {"bite": 9, "truncate": 2}})
    assert edited(REPLY, [fault.effects]) == edited(REPLY, [effects(truncate=2)])[9:]
    with pytest.raises(ControlError, match="bite changes a reply, and at accept there is none"):
        parse_fault({"at": "accept", "do": {"bite": 9}})
