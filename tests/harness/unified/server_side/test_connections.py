"""`expectConnections`: connections read out of a record of the wire, and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from written_wire import PLACE, Wire, connection, exactly, expected, judged, used

from fakeserver.network.wire_entries import Received
from harness.unified.errors import ScenarioError
from harness.unified.server_side.model import Range
from mongowire.compression import Compressor
from mongowire.connection import Envelope
from mongowire.framing import OpCode

if TYPE_CHECKING:
    from harness.unified.server_side.connection_judge import ConnectionLife

AT_ONCE = "atOnce"
HANDSHAKE_OF = "the handshake of connection"
NOT_TRUE = "expected True (bool), got '2' (string)"


def one(wire: Wire) -> ConnectionLife:
    (connection,) = wire.seen()
    return connection


class TestReading:
    def test_a_connection_has_its_handshake_and_its_commands(self) -> None:
        wire = Wire()
        wire.say(wire.connect(), "find", "insert")
        seen = one(wire)
        assert (seen.commands, seen.authentication) == (("hello", "find", "insert"), ())
        assert (seen.name, seen.role, seen.closed_by) == ("connection 1 to node0", "primary", "nobody")
        assert seen.established == pytest.approx(0.03)

    @pytest.mark.parametrize("name", ["isMaster", "ismaster"])
    def test_a_legacy_hello_is_a_hello(self, name: str) -> None:
        wire = Wire()
        number = wire.accept()
        wire.ask_in_old_words(number, {name: 1, "client": {"application": {"name": "old"}}})
        wire.answer(number)
        wire.say(number, "find")
        assert (one(wire).commands, one(wire).seen.app_name) == (("hello", "find"), "old")

    def test_authentication_belongs_to_the_establishment(self) -> None:
        wire = Wire()
        number = wire.connect()
        wire.say(number, "saslStart", "saslContinue")
        established = wire.now
        wire.say(number, "find")
        seen = one(wire)
        assert (seen.authentication, seen.commands) == (("saslStart", "saslContinue"), ("hello", "find"))
        assert seen.established == established

    @pytest.mark.parametrize("name", ["configureFailPoint", "endSessions"])
    def test_what_no_operation_sends_is_left_out(self, name: str) -> None:
        wire = Wire()
        wire.say(wire.connect(), name)
        assert (one(wire).commands, one(wire).is_monitoring) == (("hello",), False)

    @pytest.mark.parametrize(
        ("fields", "commands", "monitoring"),
        [
            ({}, [], True),
            ({}, ["hello", "hello"], True),
            ({}, ["find"], False),
            ({}, ["saslStart"], False),
            ({"loadBalanced": True}, [], False),
            ({"speculativeAuthenticate": {"saslStart": 1}}, [], False),
        ],
    )
    def test_a_monitors_connection_says_nothing_but_hello(
        self, fields: dict[str, Any], commands: list[str], *, monitoring: bool
    ) -> None:
        wire = Wire()
        wire.say(wire.connect(**fields), *commands)
        assert one(wire).is_monitoring is monitoring

    def test_the_longest_idle_time_is_that_before_a_command(self) -> None:
        wire = Wire()
        number = wire.connect()
        wire.say(number, "find")
        wire.wait(0.5)
        wire.say(number, "find")
        wire.wait(2)
        wire.close(number)
        assert one(wire).idle == pytest.approx(0.51)

    def test_a_connection_that_waits_for_a_reply_is_not_idle(self) -> None:
        wire = Wire()
        number = wire.connect()
        wire.ask(number, {"find": 1})
        wire.wait(0.5)
        wire.answer(number)
        wire.say(number, "find")
        assert one(wire).idle == pytest.approx(0.01)

    def test_a_command_without_a_reply_leaves_it_idle(self) -> None:
        wire = Wire()
        number = wire.connect()
        wire.ask(number, {"insert": 1}, more=1)
        wire.wait(0.5)
        wire.say(number, "find")
        assert one(wire).idle == pytest.approx(0.51)

    @pytest.mark.parametrize("by", ["client", "server"])
    def test_who_closed_it_is_known(self, by: str) -> None:
        wire = Wire()
        wire.close(wire.connect(), by)
        assert one(wire).closed_by == by

    def test_what_cannot_be_read_is_no_command(self) -> None:
        wire = Wire()
        number = wire.accept()
        envelope = Envelope(9, 0, OpCode.MSG, b"\0\0", None, 18)
        wire.entries.append(Received(2, 0.5, number, envelope, "primary"))
        assert (one(wire).commands, one(wire).hello) == (("",), {})


def said(wire: Wire, **fields: Any) -> tuple[str, str]:
    wrong = judged(wire, expected(**fields))
    assert wrong is not None
    assert wrong.expected.location == PLACE
    return wrong.wrong.mismatch.path, wrong.wrong.reason


def overlapping(sizes: int) -> Wire:
    """Return a record of connections that are all accepted before the first handshake is answered."""
    wire = Wire()
    numbers = [wire.accept() for _ in range(sizes)]
    for number in numbers:
        wire.ask(number, {"hello": 1})
    for number in numbers:
        wire.answer(number)
        wire.say(number, "find")
    return wire


class TestEstablishedAtTheSameTime:
    @pytest.mark.parametrize("wanted", [exactly(3), Range(most=3), Range(2, 4)])
    def test_handshakes_that_overlap_are_counted(self, wanted: Range) -> None:
        assert judged(overlapping(3), expected(at_once=wanted)) is None

    def test_one_too_many_is_named(self) -> None:
        assert said(overlapping(3), at_once=Range(most=2)) == (
            AT_ONCE,
            "3 connections were being established at the same time (1, 2, 3), expected at most 2",
        )

    def test_one_after_the_other_is_one_at_a_time(self) -> None:
        wire = Wire()
        for _ in range(3):
            used(wire)
        assert judged(wire, expected(at_once=exactly(1))) is None

    def test_authentication_is_part_of_it(self) -> None:
        wire = Wire()
        first = wire.connect()
        second = wire.connect()
        for number in (first, second):
            wire.say(number, "saslStart")
            wire.say(number, "find")
        assert judged(wire, expected(at_once=exactly(2))) is None

    def test_a_handshake_that_is_never_answered_lasts_until_the_connection_is_closed(self) -> None:
        wire = Wire()
        wire.ask(wire.accept(), {"hello": 1, "loadBalanced": True})
        given_up = wire.accept()
        wire.ask(given_up, {"hello": 1, "loadBalanced": True})
        wire.close(given_up)
        used(wire)
        assert judged(wire, expected(at_once=exactly(2))) is None

    def test_what_ends_at_the_instant_at_which_another_begins_is_not_at_the_same_time(self) -> None:
        wire = Wire()
        for _ in range(2):
            used(wire)
        wire.entries = [entry._replace(at=1.0) for entry in wire.entries]
        assert judged(wire, expected(at_once=exactly(1))) is None


class TestNumbers:
    def test_connections_are_counted(self) -> None:
        wire = Wire()
        used(wire)
        assert judged(wire, expected(established=exactly(1), open=exactly(1), open_at_end=exactly(1))) is None
        assert said(wire, established=exactly(2)) == (
            "established",
            "1 connection was established, expected 2",
        )

    def test_those_open_at_one_time_are_not_those_established(self) -> None:
        wire = Wire()
        wire.close(used(wire))
        used(wire)
        assert judged(wire, expected(established=exactly(2), open=exactly(1), open_at_end=exactly(1))) is None
        used(wire)
        assert said(wire, open=Range(most=1)) == (
            "open",
            "2 connections were open at the same time, expected at most 1",
        )

    def test_those_left_at_the_end_are_named(self) -> None:
        wire = Wire()
        wire.close(used(wire))
        used(wire)
        assert said(wire, open_at_end=exactly(0)) == (
            "openAtEnd",
            "1 connection was open at the end (2), expected 0",
        )

    def test_the_longest_idle_time_is_in_seconds(self) -> None:
        wire = Wire()
        number = used(wire)
        wire.wait(0.49)
        wire.say(number, "find")
        assert judged(wire, expected(idle=Range(most=0.6))) is None
        assert said(wire, idle=Range(most=0.4)) == (
            "idle",
            "connection 1 to node0 was idle for 0.500 s before a command, expected at most 0.4 s",
        )


class TestWhichConnections:
    def mixed(self) -> Wire:
        wire = Wire()
        used(wire)
        used(wire, app="other")
        used(wire, server="node1", role="secondary")
        wire.connect()  # a monitor's
        used(wire, app="harness")
        wire.accept()  # nobody knows whose it is
        return wire

    @pytest.mark.parametrize(
        ("fields", "number"),
        [
            ({}, 3),
            ({"app_name": "app"}, 2),
            ({"app_name": "nobody"}, 0),
            ({"on": "primary"}, 2),
            ({"on": "secondary"}, 1),
            ({"on": "node1"}, 1),
            ({"app_name": "app", "on": "node0"}, 1),
            ({"monitoring": True}, 1),
        ],
    )
    def test_selectors_leave_out_all_others(self, fields: dict[str, Any], number: int) -> None:
        assert judged(self.mixed(), expected(established=exactly(number), **fields)) is None

    def test_each_is_every_server_for_itself(self) -> None:
        wire = self.mixed()
        assert judged(wire, expected(app_name="app", on="each", established=exactly(1))) is None
        assert said(wire, on="each", established=exactly(2)) == (
            "established",
            "1 connection to node1 was established, expected 2",
        )

    def test_the_words_name_the_client_and_the_server(self) -> None:
        assert said(self.mixed(), app_name="app", on="node0", established=exactly(0)) == (
            "established",
            "1 connection of app to node0 was established, expected 0",
        )


class TestOneByOne:
    def two(self) -> Wire:
        wire = Wire()
        first = wire.connect(backpressure=True)
        second = wire.connect(backpressure="2")
        wire.say(first, "find")
        wire.say(second, "insert", "find")
        wire.close(second)
        wire.close(first, "server")
        return wire

    def test_what_holds_is_no_failure(self) -> None:
        wanted = (
            connection(commands=("hello", "find"), closed_by="server", hello={"backpressure": True}),
            connection(commands=("hello", "insert", "find"), closed_by="client", authentication=()),
        )
        each = connection(hello={"client": {"application": {"name": "app"}}})
        assert judged(self.two(), expected(connections=wanted, each=each, closed_in_order=(1, 0))) is None

    @pytest.mark.parametrize(
        ("fields", "path", "reason"),
        [
            (
                {"connections": (connection(),)},
                "connections",
                "expected 1 connections, 2 were established",
            ),
            (
                {"connections": (connection(), connection(commands=("hello", "find")))},
                "connections[1].commands",
                "connection 2 to node0 carried hello, insert, find, expected hello, find",
            ),
            (
                {"each": connection(closed_by="nobody")},
                "each.closedBy",
                "connection 1 to node0 was closed by server, expected nobody",
            ),
            (
                {"each": connection(authentication=("saslStart",))},
                "each.authentication",
                "connection 1 to node0 authenticated by nothing, expected saslStart",
            ),
            (
                {"each": connection(hello={"backpressure": {"$$exists": False}})},
                "each.hello.backpressure",
                f"{HANDSHAKE_OF} 1 to node0 is not as expected: backpressure: is there, but must not be",
            ),
            (
                {"each": connection(hello={"backpressure": "rule: backpressure"})},
                "each.hello.backpressure",
                f"{HANDSHAKE_OF} 2 to node0 is not as expected: backpressure: {NOT_TRUE}",
            ),
            (
                {"closed_in_order": (0, 1)},
                "closedInOrder",
                "connections were closed in the order 1, 0, expected 0, 1",
            ),
            (
                {"closed_in_order": ()},
                "closedInOrder",
                "connections were closed in the order 1, 0, expected nothing",
            ),
        ],
    )
    def test_what_does_not_hold_is_said_with_its_place(
        self, fields: dict[str, Any], path: str, reason: str
    ) -> None:
        assert said(self.two(), **fields) == (path, reason)

    def test_a_rule_that_no_edition_has_is_an_error_of_the_scenario(self) -> None:
        with pytest.raises(ScenarioError, match="there is no rule 'pressure' for a handshake") as raised:
            said(self.two(), each=connection(hello={"a": {"b": "rule: pressure"}}))
        assert raised.value.fix == "one of backpressure"

    def test_the_first_expectation_that_does_not_hold_is_said(self) -> None:
        wanted = [expected(established=exactly(2)), expected(established=exactly(3))]
        wrong = judged(self.two(), *wanted)
        assert wrong is not None
        assert wrong.expected is wanted[1]
        assert [each.seen.number for each in wrong.connections] == [1, 2]


class TestCompressionAndStreams:
    def test_what_was_compressed_is_named(self) -> None:
        wire = Wire()
        number = used(wire)
        wire.ask(number, {"insert": 1}, compressor=Compressor.ZLIB)
        wire.answer(number)
        assert one(wire).compressed == ("insert",)
        assert judged(wire, expected(each=connection(compressed=("insert",)))) is None
        assert said(wire, each=connection(compressed=())) == (
            "each.compressed",
            "connection 1 to node0 compressed insert, expected nothing",
        )

    def test_a_request_that_allows_several_replies_has_the_first_and_the_last(self) -> None:
        wire = Wire()
        number = wire.connect()
        wire.ask(number, {"hello": 1}, streams=True)
        for count in range(3):
            wire.answer(number, more=True, count=count)
        (_, request) = one(wire).seen.requests
        assert request.latest is not None
        assert [(request.reply or {})["count"], request.latest.document["count"]] == [0, 2]
        assert request.is_streaming
        assert said(wire, monitoring=True, each=connection(streamed=False)) == (
            "each.streamed",
            "connection 1 to node0 allowed several replies to a request",
        )
