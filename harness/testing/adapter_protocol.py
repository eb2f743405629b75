"""The line protocol of adapters, part by part, on a deployment: what holds, without a scenario.

Each part is judged by itself where it can be: a program that does not answer one request is asked the next.
docs/WRITING-ADAPTERS.md is the protocol for those who implement it.

Parts stand in the order of a run: introduction, entities, calls, errors, refusals, the end of a case, the
next one, the end of the process. A part that was not declared is told as such and is no failure, so that a
skeleton which refuses everything passes. What a run would make of a mistake (it kills the program) is not
done here: the author wants the list of all mistakes at once.

Requests are judged by their answers alone (`_judged`), but for events and times, for which all messages are
looked through afterwards. The broken line has a process of its own, which it may end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.adapters import lines
from harness.adapters.base import Feature
from harness.adapters.child import CLOSE_SECONDS, START_SECONDS
from harness.adapters.lines import PROTOCOL, AdapterProtocolError, Answer, Hello, Observed
from harness.testing.program import NoReplyError, Program
from harness.testing.verdict import Holds, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.adapters.deployment import Deployment

Verdicts: TypeAlias = AsyncIterator[Verdict]

_CALL_SECONDS: Final = 15.0
"""How long a request may take here; a run allows three quarters of its --case-timeout."""

_AT_ONCE: Final = 5.0
"""How long `client` may take without a reachable server."""

# Port 1 refuses at once. The short limits are for drivers that look for a server when a client is made.
_NOBODY: Final = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200&connectTimeoutMS=200"
_COMMAND_EVENTS: Final = ("commandStartedEvent", "commandSucceededEvent", "commandFailedEvent")
# CommandNotFound, a server's answer to `noSuchCommand`.
_NOT_FOUND: Final = 59
_UNKNOWN: Final = "noSuch"


async def check_protocol(command: str, deployment: Deployment) -> Verdicts:
    """Yield a verdict for each part of the protocol. Raises `CannotStartError`."""
    async with aclosing(
        _ProtocolSession(await Program.start(command, deployment.clock), deployment)
    ) as session:
        async for verdict in session.verdicts():
            yield verdict
    async with aclosing(await Program.start(command, deployment.clock)) as program:
        yield await _bad_input(program)


async def introduction(command: str, deployment: Deployment) -> Hello | None:
    """Return what a program says of itself, None when it says nothing that makes sense.

    A process of its own, so that whatever the checks of the protocol did to theirs does not count.
    """
    async with aclosing(await Program.start(command, deployment.clock)) as program:
        try:
            answer = await program.ask("hello", within=START_SECONDS, params={"protocol": PROTOCOL})
            return lines.hello(answer.result)
        except (NoReplyError, AdapterProtocolError):
            return None


class _ProtocolSession:
    """One process, asked for everything in turn. Entities are known by the ids of their requests."""

    def __init__(self, program: Program, deployment: Deployment) -> None:
        self.program = program
        self.deployment = deployment
        self.hello: Hello | None = None
        self.client = self.unreachable = self.database = self.collection = 0

    async def aclose(self) -> None:
        await self.program.aclose()

    async def verdicts(self) -> Verdicts:
        """Yield all verdicts. Those after the hello are left out when it fails."""
        verdict = await self._hello()
        yield verdict
        if verdict.holds is Holds.OK:
            for part in (
                self._beginnings,
                self._entities,
                self._calls,
                self._errors,
                self._refusals,
                self._ends,
            ):
                async for verdict in part():
                    yield verdict
                    if self.program.end:  # nothing can be asked any more
                        return
        yield await self._exit()
        yield self._output()

    async def _hello(self) -> Verdict:
        part, expected = "hello", f"protocol {PROTOCOL}, a name, and features that there are"
        try:
            answer = await self.program.ask("hello", within=START_SECONDS, params={"protocol": PROTOCOL})
            self.hello = lines.hello(answer.result)
        except (NoReplyError, AdapterProtocolError) as error:
            return Verdict(part, Holds.FAILED, expected=expected, got=str(error))
        features = ", ".join(sorted(feature.name for feature in self.hello.features)) or "none"
        return Verdict(part, Holds.OK, f"{self.hello.name}; features: {features}")

    async def _beginnings(self) -> Verdicts:
        """Check what the future may bring: another version, other methods, other parameters."""
        other = {"protocol": PROTOCOL + 1}
        own = f"a result with its own protocol, {PROTOCOL}"
        # A runner of a later version says hello with its number. The answer is no error but the adapter's
        # own number: both sides then know what to say.
        yield await self._judged("hello of another version", own, _version, "hello", params=other)
        more = {"protocol": PROTOCOL, "noSuchParameter": 1}
        yield await self._judged(
            "unknown parameters are ignored", "a result", _a_result, "hello", params=more
        )
        yield await self._judged("unknown method", _UNSUPPORTED, _refusal, "noSuchMethod")

    async def _entities(self) -> Verdicts:
        # Runs make clients of servers that are down, or come up later; the first operation has to fail, not
        # this.
        part = "client is answered without a reachable server"
        nobody = _client(_NOBODY)
        unreachable = await self._judged(
            part, _ENTITY, _entity, "client", params=nobody, within=_AT_ONCE, may_refuse=True
        )
        yield unreachable
        self.unreachable = self.program.last if unreachable.holds is Holds.OK else 0
        uri = self.deployment.uri
        yield await self._judged("create a client", _ENTITY, _entity, "client", params=_client(uri))
        self.client = self.program.last
        spec = {"id": "database", "client": "client", "databaseName": "check_adapter"}
        yield await self._create("database", self.client, spec)
        self.database = self.program.last
        spec = {"id": "collection", "database": "database", "collectionName": "documents"}
        yield await self._create("collection", self.database, spec)
        self.collection = self.program.last
        kind = {"kind": "noSuchKind", "spec": {"id": "entity"}}
        yield await self._judged(
            "unknown entity", _UNSUPPORTED, _refusal, "create", on=self.client, params=kind
        )

    async def _create(self, kind: str, on: int, spec: Mapping[str, Any]) -> Verdict:
        params = {"kind": kind, "spec": spec}
        return await self._judged(f"create a {kind}", _ENTITY, _entity, "create", on=on, params=params)

    async def _calls(self) -> Verdicts:
        command = {"command": {"ping": 1}, "commandName": "ping"}
        ping = await self._call(
            "call runCommand", "database", "runCommand", command, "a reply with ok", _pong
        )
        yield ping
        if ping.holds is Holds.OK:
            yield await self._driver()
        before, document = len(self.program.heard), {"_id": 1, "x": {"$numberLong": "5"}}
        inserted = "a document, such as {insertedId: 1}"
        arguments: dict[str, Any] = {"document": document}
        yield await self._call("call insertOne", "collection", "insertOne", arguments, inserted, _a_document)
        yield self._events(before)
        yield self._times()
        found = [{"_id": 1, "x": 5}]
        yield await self._call(
            "call find",
            "collection",
            "find",
            {"filter": {}},
            f"the list of all documents, {found}",
            _equal(found),
        )
        yield await self._two_at_once()

    async def _driver(self) -> Verdict:
        """Judge the driver that `hello` names: it is one that servers were told of."""
        part = "hello names the driver that connects"
        if self.hello is None or not self.hello.driver:
            return Verdict(part, Holds.NOT_DECLARED, "without `driver`, no report shows its version")
        # Servers hear name and version in the handshake of each connection and show them in `$currentOp`. A
        # driver that wraps another one appends its own behind a bar, which is left off.
        told: dict[str, None] = {}
        connections = {"$currentOp": {"allUsers": True, "idleConnections": True}}
        for address in self.deployment.addresses:
            reply = await self.deployment.admin(
                "admin", {"aggregate": 1, "pipeline": [connections], "cursor": {}}, address=address
            )
            for each in reply["cursor"]["firstBatch"]:
                if driver := each.get("clientMetadata", {}).get("driver"):
                    told[" ".join(driver[word].partition("|")[0] for word in ("name", "version"))] = None
        if self.hello.driver in told:
            return Verdict(part, Holds.OK, self.hello.driver)
        expected = f"one of those that servers were told of: {', '.join(told)}"
        return Verdict(part, Holds.FAILED, expected=expected, got=self.hello.driver)

    def _events(self, before: int) -> Verdict:
        """Judge the events of an insert: those that came before its answer count."""
        part = "events come before the answer"
        if self.hello is None or Feature.COMMAND_EVENTS not in self.hello.features:
            return Verdict(part, Holds.NOT_DECLARED, Feature.COMMAND_EVENTS.name)
        events = [
            each
            for each in self.program.heard[before:]
            if isinstance(each, Observed) and each.client == self.client
        ]
        of_insert = [each for each in events if each.fields.get("commandName") == "insert"]
        answered = next(
            (
                at
                for at, each in enumerate(self.program.heard)
                if isinstance(each, Answer) and each.id == self.program.last
            ),
            len(self.program.heard),
        )
        # An event that comes later may be missed: a case reads them when its operation has been answered.
        early = [each.kind for each in of_insert if self.program.heard.index(each) < answered]
        expected = "commandStartedEvent (with command) and commandSucceededEvent (with reply) of insert"
        with_parts = [each.kind for each in of_insert if {"command", "reply"} & each.fields.keys()]
        if early == with_parts == list(_COMMAND_EVENTS[:2]):
            return Verdict(part, Holds.OK)
        return Verdict(
            part, Holds.FAILED, expected=expected, got=f"before the answer: {', '.join(early) or 'none'}"
        )

    def _times(self) -> Verdict:
        """Judge the times of events: where there are any, each answer gives the clock behind them."""
        part = "events and answers have times"
        at = [each.at for each in self.program.heard if isinstance(each, Observed)]
        if not any(each is not None for each in at):
            return Verdict(part, Holds.NOT_DECLARED, "without `at`, an event happened when it was heard of")
        clocks = [each.clock for each in self.program.heard if isinstance(each, Answer)]
        if None not in at and None not in clocks:
            return Verdict(part, Holds.OK)
        expected = "`at` in every event, and `clock` in every answer"
        without = f"{at.count(None)} events without `at`, {clocks.count(None)} answers without `clock`"
        return Verdict(part, Holds.FAILED, expected=expected, got=without)

    async def _two_at_once(self) -> Verdict:
        part = "two requests at once"
        params = _call("database", "runCommand", {"command": {"ping": 1}, "commandName": "ping"})
        numbers = [await self.program.send("call", on=self.database, params=params) for _ in range(2)]
        try:
            for number in numbers:
                await self.program.answer(number, within=_CALL_SECONDS)
        except NoReplyError as error:
            return Verdict(part, Holds.FAILED, expected="an answer to each, with its id", got=str(error))
        return Verdict(part, Holds.OK)

    async def _errors(self) -> Verdicts:
        refused = {"command": {"noSuchCommand": 1}, "commandName": "noSuchCommand"}
        expected = f"error with message and code {_NOT_FOUND}, isClientError left out or false"
        yield await self._call(
            "error of the server", "database", "runCommand", refused, expected, _server_error
        )
        # Without a client of nobody there is no error of the client to ask for.
        if not self.unreachable:
            return
        spec = {"kind": "database", "spec": {"id": "d", "client": "c", "databaseName": "nobody"}}
        made = await self._judged("", _ENTITY, _entity, "create", on=self.unreachable, params=spec)
        if made.holds is Holds.OK:
            params = _call("database", "runCommand", {"command": {"ping": 1}, "commandName": "ping"})
            yield await self._judged(
                "error of the client",
                "error with isClientError: no server answered",
                _client_error,
                "call",
                on=self.program.last,
                params=params,
                may_refuse=True,
            )

    async def _refusals(self) -> Verdicts:
        params = _call("collection", f"{_UNKNOWN}Operation", {})
        yield await self._judged(
            "unknown operation", f"{_UNSUPPORTED} that names it", _refusal_of("noSuchOperation"), "call",
            on=self.collection, params=params,
        )  # fmt: skip
        params = _call("collection", "find", {"filter": {}, "noSuchArgument": 1})
        yield await self._judged(
            "unknown argument", _UNSUPPORTED, _refusal, "call", on=self.collection, params=params
        )

    async def _ends(self) -> Verdicts:
        # A case may close a client that its end closes once more.
        for part in ("closeClient", "closeClient again"):
            yield await self._judged(part, _NULL, _null, "closeClient", on=self.client, within=CLOSE_SECONDS)
        yield await self._judged("close", _NULL, _null, "close", within=CLOSE_SECONDS)
        uri = self.deployment.uri
        yield await self._judged(
            "the next case: a client after close", _ENTITY, _entity, "client", params=_client(uri)
        )
        yield await self._judged("close again", _NULL, _null, "close", within=CLOSE_SECONDS)
        seconds, what = self.program.slowest
        yield Verdict("answers come in time", Holds.OK, f"the slowest, to {what}, took {seconds:.3f} s")

    def _output(self) -> Verdict:
        part = "standard output has messages only"
        if not self.program.strays:
            return Verdict(part, Holds.OK)
        return Verdict(part, Holds.FAILED, expected="one JSON document a line", got=self.program.strays[0])

    async def _exit(self) -> Verdict:
        part, expected = "exit", f"the program ends within {CLOSE_SECONDS:g} seconds after its input"
        if await self.program.end_of_input(within=CLOSE_SECONDS):
            return Verdict(part, Holds.OK, self.program.end.partition(": ")[0])
        return Verdict(part, Holds.FAILED, expected=expected, got="it goes on")

    async def _call(
        self, part: str, kind: str, operation: str, arguments: Mapping[str, Any], expected: str, judge: Judge
    ) -> Verdict:
        """Call an operation. An adapter that has none of the name says so, which is not wrong."""
        on = self.database if kind == "database" else self.collection
        return await self._judged(
            part, expected, judge, "call", on=on, params=_call(kind, operation, arguments), may_refuse=True
        )

    async def _judged(
        self,
        part: str,
        expected: str,
        judge: Judge,
        method: str,
        *,
        on: int | None = None,
        params: Mapping[str, Any] | None = None,
        within: float | None = None,
        may_refuse: bool = False,
    ) -> Verdict:
        """Make a request, and judge its answer."""
        try:
            answer = await self.program.ask(method, on=on, params=params, within=within or _CALL_SECONDS)
        except NoReplyError as error:
            return Verdict(part, Holds.FAILED, expected=expected, got=str(error))
        if may_refuse and answer.unsupported is not None:
            return Verdict(part, Holds.NOT_DECLARED, answer.unsupported)
        if judge(answer):
            return Verdict(part, Holds.OK)
        if answer.error is not None:
            said = f"error: {lines.error_document(answer.error)}"
        elif answer.unsupported is not None:
            said = f"unsupported: {answer.unsupported!r}"
        else:
            said = _ENTITY if answer.entity else f"result: {answer.result!r}"
        return Verdict(part, Holds.FAILED, expected=expected, got=said)


Judge: TypeAlias = Callable[[Answer], bool]

_ENTITY: Final = '"entity": true'
_NULL: Final = '"result": null'
_UNSUPPORTED: Final = '"unsupported" with a reason'


def _client(uri: str) -> dict[str, Any]:
    return {
        "uri": uri,
        "options": {},
        "observeEvents": list(_COMMAND_EVENTS),
        "observeLogs": [],
        "observeSpans": None,
        "serverApi": None,
    }


def _call(kind: str, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "operation": operation, "arguments": arguments}


def _entity(answer: Answer) -> bool:
    return answer.entity


def _refusal(answer: Answer) -> bool:
    return bool(answer.unsupported)


def _refusal_of(name: str) -> Judge:
    return lambda answer: name in (answer.unsupported or "")


def _a_result(answer: Answer) -> bool:
    return answer.error is None and answer.unsupported is None and not answer.entity


def _null(answer: Answer) -> bool:
    return _a_result(answer) and answer.result is None


def _version(answer: Answer) -> bool:
    return isinstance(answer.result, dict) and answer.result.get("protocol") == PROTOCOL


def _pong(answer: Answer) -> bool:
    return isinstance(answer.result, dict) and answer.result.get("ok") == 1


def _a_document(answer: Answer) -> bool:
    return _a_result(answer) and isinstance(answer.result, (dict, type(None)))


def _equal(wanted: Any) -> Judge:
    return lambda answer: bool(answer.result == wanted)


def _server_error(answer: Answer) -> bool:
    error = answer.error
    return error is not None and error.code == _NOT_FOUND and not error.is_client_error


def _client_error(answer: Answer) -> bool:
    return answer.error is not None and answer.error.is_client_error


async def _bad_input(program: Program) -> Verdict:
    """Judge the reaction to a line that is no request: an end with an error, or the next answer."""
    part = "a line that is no request"
    expected = "the program goes on, or ends with an exit code above 0"
    with_answer = ""
    try:
        await program.ask("hello", within=START_SECONDS, params={"protocol": PROTOCOL})
        await program.write(b"this is no request\n")
        await program.ask("hello", within=CLOSE_SECONDS, params={"protocol": PROTOCOL})
        with_answer = "it goes on"
    except NoReplyError as error:
        # Going on is right, and so is an end with an error; an end as if all were well would hide the
        # mistake.
        ended = program.end
        if not ended or "exit code 0" in ended:
            return Verdict(part, Holds.FAILED, expected=expected, got=str(error))
    if program.strays:
        return Verdict(part, Holds.FAILED, expected="nothing but messages", got=program.strays[0])
    return Verdict(part, Holds.OK, with_answer or program.end.partition(": ")[0])
