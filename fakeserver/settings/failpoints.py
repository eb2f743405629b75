"""Fail points: faults that a client configures through the server's own commands.

The model: a fixed set of named points, each with a mode (how often it fires) and data (which requests it is
about, and what happens to them). A decision names effects and performs none; the stages of the request wait,
answer and close the connection.

A decision has three steps, in this order, which is a server's:

1. *Filters.* Names of commands, application, namespace, thread. A request that does not match leaves no
   trace: it uses up no `times`, no `skip`, and `count` stays. So a background heartbeat does not spend the
   one failure that a test has set up for its insert.
2. *Something to do.* `failCommand` without `closeConnection`, `blockConnection` or `errorCode` (with a
   `writeConcernError` alone, say) does not count before the command runs. That error counts when it
   is added, as a hit of its own: with a block beside it, one command takes two hits.
3. *Mode.* The hit is counted, and `times` goes down. After the last one the point is off by itself.

`failCommand` performs its effects in the order of `CommandFault`: labels, block, then close or error. A block
comes before a close, so a client can be made to wait for a connection that dies.

What a real server does, and so do we, though it surprises:

* `data` is not validated by `configureFailPoint`. What cannot be used fails the victim, not the test that set
  it up; a code given as a double is cut to an integer.
* `times: 0` fires once: the counter goes down before it is compared.
* `failAllCommands` never includes `configureFailPoint`, or nobody could switch it off again.
* Configuring a point ends the waits of those whom it blocks without a time (`changed` rings).
* A code of 0, or none, means no error. Labels from `errorLabels` replace the server's own, and an empty list
  takes them all away.

Points are looked up in `active`, which holds those that are not off, because nearly all requests meet none.

A fault that never happens is a test that proves nothing. So a deployment notes each setting of a fail point,
on whichever servers it was made, and whether one of them was hit. The notes outlive a server's restart, which
forgets its fail points and their counts.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import json_util

from fakeserver.errors import CommandError
from fakeserver.idl.fields import type_name, whole
from fakeserver.waiting.bell import Bell
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mongowire.ports import Rng


# The `mode` of a fail point, as `configureFailPoint` has it: how often it fires.


_INT32_MAX: Final = (1 << 31) - 1
_NUMBERS: Final = frozenset({"int", "long", "double", "decimal"})


class Mode(IntEnum):
    """The frequency with which a fail point fires on matches, numbered as `getParameter` shows it."""

    OFF = 0
    ALWAYS_ON = 1
    RANDOM = 2
    TIMES = 3
    SKIP = 4


class Setting(NamedTuple):
    """A mode and its number: how many times, how many to skip, or the probability."""

    mode: Mode
    value: float = 0.0


def parse_mode(mode: Any) -> Setting:
    """Read a `mode`. Raises `CommandError` with a server's codes and texts."""
    if isinstance(mode, str):
        if mode == "off":
            return Setting(Mode.OFF)
        if mode == "alwaysOn":
            return Setting(Mode.ALWAYS_ON)
        raise CommandError(ErrorCode.BAD_VALUE, f"unknown mode: {mode}")
    if not isinstance(mode, dict):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "'mode' must be a string or JSON object")
    if "times" in mode:
        return Setting(Mode.TIMES, _count("times", mode["times"]))
    if "skip" in mode:
        return Setting(Mode.SKIP, _count("skip", mode["skip"]))
    if "activationProbability" in mode:
        value = mode["activationProbability"]
        if type_name(value) not in _NUMBERS:
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                "the 'activationProbability' option to 'mode' must be a double between 0 and 1",
            )
        probability = number_of(value) or 0.0
        if not 0 <= probability <= 1:
            raise CommandError(
                ErrorCode.BAD_VALUE, f"activationProbability must be between 0.0 and 1.0; found {probability}"
            )
        return Setting(Mode.RANDOM, probability)
    raise CommandError(
        ErrorCode.BAD_VALUE,
        "'mode' must be one of 'off', 'alwaysOn', '{times:n}', '{skip:n}' or '{activationProbability:p}'",
    )


def _count(key: str, value: Any) -> int:
    if type_name(value) not in _NUMBERS:
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f'Expected field "{key}" to have numeric type, but found {type_name(value)}',
        )
    number = whole(value)
    if number < 0:
        raise CommandError(ErrorCode.BAD_VALUE, f"'{key}' option to 'mode' must be positive")
    if number > _INT32_MAX:
        raise CommandError(ErrorCode.BAD_VALUE, f"'{key}' option to 'mode' is too large")
    return number


def number_of(value: Any) -> float | None:
    """Return a BSON number, or None for another value."""
    if type_name(value) not in _NUMBERS:
        return None
    return (
        float(value)
        if isinstance(value, float)
        else whole(value)
        if isinstance(value, int)
        else float(str(value))
    )


_KEPT: Final = 1000
_WITHOUT_HITS: Final = frozenset(
    {
        "stopReplProducer",
        "hangInRateLimiter",
        "ingressRequestRateLimiterFractionalRateOverride",
        "flowControlTicketOverride",
    }
)
"""Points that act from the moment in which they are set, and count nothing."""


@dataclass(slots=True, eq=False)
class FailPointUse:
    """One setting of a fail point; `servers` are those on which it was made."""

    name: str
    data: Mapping[str, Any]
    servers: set[str] = field(default_factory=set)
    hits: int = 0

    @property
    def is_met(self) -> bool:
        """Whether a server met it; one that acts from its setting on counts no hits, and is met."""
        return self.hits > 0 or self.name in _WITHOUT_HITS

    def __str__(self) -> str:
        """As a reader knows it: the name, and what it was about."""
        if not self.data:
            return f"fail point {self.name}"
        data = json_util.dumps(self.data, json_options=json_util.RELAXED_JSON_OPTIONS, ensure_ascii=False)
        return f"fail point {self.name} {data}"


class FailPointUses:
    """The newest settings of a deployment's fail points."""

    def __init__(self) -> None:
        self._uses: deque[FailPointUse] = deque(maxlen=_KEPT)

    def begin(self, server: str, name: str, data: Mapping[str, Any]) -> FailPointUse:
        """Note a setting on a server: the use of the same setting on the others, or a new one."""
        for use in reversed(self._uses):
            if use.name == name and server not in use.servers and use.data == data:
                break
        else:
            use = FailPointUse(name, data)
            self._uses.append(use)
        use.servers.add(server)
        return use

    def never_met(self) -> Sequence[FailPointUse]:
        """Return the settings that no server met, oldest first."""
        return [use for use in self._uses if not use.is_met]

    def __iter__(self) -> Iterator[FailPointUse]:
        """Iterate over the settings, oldest first."""
        return iter(self._uses)

    def forget(self) -> None:
        """Forget all settings so far."""
        self._uses.clear()


class CommandNames(NamedTuple):
    """The commands that a fail point is about: those listed, or all but those listed."""

    listed: frozenset[str]
    all_but: bool

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> CommandNames:
        """Read `failCommands`, or `failAllCommands` and `failCommandsExcept`."""
        all_but = bool(data.get("failAllCommands"))
        listed = data.get("failCommandsExcept" if all_but else "failCommands")
        names = listed if isinstance(listed, list) else ()
        return cls(frozenset(name for name in names if isinstance(name, str)), all_but)

    def cover(self, names: tuple[str, ...]) -> bool:
        """Return whether a command of these names is one of them."""
        # `configureFailPoint` never is, or a point for all commands could not be switched off.
        return self.listed.isdisjoint(names) is self.all_but and "configureFailPoint" not in names


NO_COMMANDS: Final[CommandNames] = CommandNames(frozenset(), all_but=False)
ONLY_GET_MORE: Final = CommandNames(frozenset({"getMore"}), all_but=False)


class FailPointTarget(NamedTuple):
    """A command as the filters of a fail point see it: its names, and its client."""

    names: tuple[str, ...]
    namespace: str
    app_name: str = ""
    thread_name: str = ""
    internal_client: bool = False
    has_priority: bool = False
    """It came by the port for priority."""


FAIL_COMMAND: Final = "failCommand"
ON_PRIMARY_TRANSACTIONAL_WRITE: Final = "onPrimaryTransactionalWrite"
FAIL_GET_MORE: Final = "failGetMoreAfterCursorCheckout"
MAX_TIME_ALWAYS_TIME_OUT: Final = "maxTimeAlwaysTimeOut"
MAX_TIME_NEVER_TIME_OUT: Final = "maxTimeNeverTimeOut"
RESPOND_WITH_NOT_PRIMARY: Final = "respondWithNotPrimaryInCommandDispatch"
SKIP_NOT_PRIMARY_CHECK: Final = "skipCheckingForNotPrimaryInCommandDispatch"
STOP_REPL_PRODUCER: Final = "stopReplProducer"
FAIL_INGRESS_REQUEST_RATE_LIMITING: Final = "failIngressRequestRateLimiting"
HANG_IN_RATE_LIMITER: Final = "hangInRateLimiter"
FRACTIONAL_RATE_OVERRIDE: Final = "ingressRequestRateLimiterFractionalRateOverride"
FLOW_CONTROL_TICKET_OVERRIDE: Final = "flowControlTicketOverride"
RETURN_MAX_BACKOFF_DELAY: Final = "returnMaxBackoffDelay"
SET_BACKOFF_DELAY: Final = "setBackoffDelayForTesting"
FAIL_IN_RUN_COMMAND: Final = "failWithErrorCodeInRunCommand"
FAIL_AFTER_SESSION_CHECK_OUT: Final = "failWithErrorCodeAfterSessionCheckOut"
WAIT_IN_HELLO: Final = ("shardWaitInHello", "routerWaitInHello", "waitInHello")
"""On a mongod, on a mongos, and the older name on both."""
APPEND_HELLO_OK: Final = ("appendHelloOkToHelloResponse", "routerAppendHelloOkToHelloResponse")
DELAY_OR_FAIL_SEND: Final = "sessionWorkflowDelayOrFailSendMessage"
DO_NOT_SET_MORE_TO_COME: Final = "doNotSetMoreToCome"
MOCK_SHUTDOWN: Final = "errorLabelBuilderMockShutdown"
REJECT_CONNECTIONS: Final = "rejectNewNonPriorityConnections"
FROM_LOAD_BALANCER_PORT: Final = "loadBalancerSupportClientIsFromLoadBalancerPort"
DISABLE_AWAIT_DATA: Final = "disableAwaitDataForGetMoreCmd"

NAMES: Final = (
    FAIL_COMMAND,
    ON_PRIMARY_TRANSACTIONAL_WRITE,
    FAIL_GET_MORE,
    MAX_TIME_ALWAYS_TIME_OUT,
    MAX_TIME_NEVER_TIME_OUT,
    RESPOND_WITH_NOT_PRIMARY,
    SKIP_NOT_PRIMARY_CHECK,
    STOP_REPL_PRODUCER,
    FAIL_INGRESS_REQUEST_RATE_LIMITING,
    HANG_IN_RATE_LIMITER,
    FRACTIONAL_RATE_OVERRIDE,
    FLOW_CONTROL_TICKET_OVERRIDE,
    RETURN_MAX_BACKOFF_DELAY,
    SET_BACKOFF_DELAY,
    FAIL_IN_RUN_COMMAND,
    FAIL_AFTER_SESSION_CHECK_OUT,
    *WAIT_IN_HELLO,
    *APPEND_HELLO_OK,
    DELAY_OR_FAIL_SEND,
    DO_NOT_SET_MORE_TO_COME,
    MOCK_SHUTDOWN,
    REJECT_CONNECTIONS,
    FROM_LOAD_BALANCER_PORT,
    DISABLE_AWAIT_DATA,
)


@dataclass(slots=True)
class FailPoint:
    """One named fail point. `times_entered` counts its hits for as long as the server lives."""

    name: str
    mode: Mode = Mode.OFF
    value: float = 0.0
    """The number of the mode: hits that are left (`times`, `skip`), or a probability."""
    data: Mapping[str, Any] = field(default_factory=dict)
    times_entered: int = 0
    """Never reset, not by `configureFailPoint` either: tests wait for it to grow."""
    named: CommandNames = field(default_factory=lambda: NO_COMMANDS)
    """The commands that `data` names, read once."""
    fault: CommandFault | None = None
    """The effects of `failCommand`, made at its first hit: the same for every command that it meets."""
    use: FailPointUse | None = None
    """The note of its setting, where it is not off."""

    def configure(self, setting: Setting, data: Mapping[str, Any]) -> None:
        """Replace mode and data."""
        self.mode, self.value = setting
        self.data = data
        self.named = CommandNames.of(data)
        self.fault = None

    def fires(self, rng: Rng) -> bool:
        """Decide about something that matches the filters, and count a hit if it fires."""
        if self.mode is Mode.RANDOM and rng.random() >= self.value:
            self._note()  # that it let this one pass is what it was set to do
            return False
        if self.mode is Mode.SKIP and self.value > 0:
            self.value -= 1
            return False
        if self.mode is Mode.TIMES:
            # Down first and compared then, as on a server: `times: 0` fires once.
            self.value -= 1
            if self.value <= 0:
                self.mode = Mode.OFF
        self.times_entered += 1
        self._note()
        return True

    @property
    def setting(self) -> Any:
        """The mode, as `configureFailPoint` takes it."""
        if self.mode in {Mode.OFF, Mode.ALWAYS_ON}:
            return "off" if self.mode is Mode.OFF else "alwaysOn"
        if self.mode is Mode.RANDOM:
            return {"activationProbability": self.value}
        return {"times" if self.mode is Mode.TIMES else "skip": int(self.value)}

    def _note(self) -> None:
        if self.use is not None:
            self.use.hits += 1

    def document(self) -> dict[str, Any]:
        """As `getParameter` shows it."""
        return {"mode": int(self.mode), "data": dict(self.data), "timesEntered": self.times_entered}


@dataclass(frozen=True, slots=True)
class CommandFault:
    """The effects of `failCommand` on a command before it runs, in this order."""

    labels: tuple[str, ...] | None = None
    """The labels of the reply, in place of the server's own; None leaves those."""
    block: float = 0.0
    """Seconds to wait; `inf` until the fail point is configured anew."""
    close: bool = False
    """Close the connection without a reply. A server that closes has no error to send."""
    error: CommandError | None = None
    """The reply. One object for all commands that the point meets, so it is not to be raised."""
    rewrites: bool = False
    """A mongos rewrites state changes in this reply, as in any other (`allowRewriteStateChange`)."""
    effect: str = field(init=False)
    """The effects in words, for the journal."""

    def __post_init__(self) -> None:
        """Put the effect in words, once for all commands that it meets."""
        names = {"block": self.block > 0, "close": self.close, "error": self.error is not None}
        object.__setattr__(self, "effect", "+".join(name for name, happens in names.items() if happens))


@dataclass(frozen=True, slots=True)
class WriteConcernFault:
    """The write concern error that `failCommand` adds to a reply after the command ran."""

    error: Any
    labels: tuple[str, ...] | None = None


class TransactionalWriteFault(NamedTuple):
    """The effect of `onPrimaryTransactionalWrite` on a statement."""

    close: bool
    code: int | None


class SendFault(NamedTuple):
    """The effect of `sessionWorkflowDelayOrFailSendMessage` on a reply: late by seconds, or not sent."""

    delay: float
    fails: bool


class FailPointRegistry:
    """The fail points of one server. `changed` rings when one is configured.

    `uses` notes for the whole deployment which settings were met.
    """

    def __init__(self, rng: Rng, server: str = "", uses: FailPointUses | None = None) -> None:
        self._rng = rng
        self._server = server
        self._uses = FailPointUses() if uses is None else uses
        self._points = {name: FailPoint(name) for name in NAMES}
        self.active: dict[str, FailPoint] = {}
        """The points that are not off, by name. Several stages of a request ask whether there are any."""
        self.toggled: Callable[[], None] = _nothing
        """Called when the first point is active, and when the last one is no more."""
        self.changed = Bell()
        self.was_set: Callable[[str, Any, Any], None] | None = None
        """Hears of each point that is configured: its name, its mode and its data."""

    def __iter__(self) -> Iterator[FailPoint]:
        """Iterate over all fail points."""
        return iter(self._points.values())

    def get(self, name: str) -> FailPoint:
        """Return a fail point. Raises `CommandError` 266 FailPointSetFailed for an unknown name."""
        try:
            return self._points[name]
        except KeyError:
            raise CommandError(ErrorCode.FAIL_POINT_SET_FAILED, f"{name} not found") from None

    def configure(self, name: str, *, mode: Any, data: Any = None) -> int:
        """Replace mode and data; return how often it was entered so far. Raises `CommandError`."""
        point = self.get(name)
        setting = parse_mode(mode)
        if data is not None and not isinstance(data, dict | list):
            raise CommandError(ErrorCode.TYPE_MISMATCH, "the 'data' option must be a JSON object")
        point.configure(setting, data if isinstance(data, dict) else {})
        is_off = point.mode is Mode.OFF
        point.use = None if is_off else self._uses.begin(self._server, name, point.data)
        was_off = name not in self.active
        before = self.active
        self.active = {each.name: each for each in self if each.mode is not Mode.OFF}
        if bool(before) is not bool(self.active):
            self.toggled()
        if self.was_set is not None and not (is_off and was_off):
            self.was_set(name, mode, None if is_off else data)
        self.changed.ring()
        return point.times_entered

    def forget_hits(self) -> None:
        """Begin to count hits anew, as a new process would."""
        for point in self:
            point.times_entered = 0

    def is_configured(self, name: str) -> bool:
        """Return whether a fail point is not off, without a hit."""
        return name in self.active

    def is_on(self, name: str) -> bool:
        """Return whether a fail point without filters fires now, and count the hit."""
        point = self.active.get(name)
        return point is not None and self._fires(point)

    def fail_command(self, target: FailPointTarget) -> CommandFault | None:
        """Decide what happens to a command before it runs.

        Raises `CommandError` to the victim when the fail point's data cannot be used.
        """
        point = self.active.get(FAIL_COMMAND)
        if point is None or not point.named.cover(target.names) or not _admits(point.data, target):
            return None
        if point.fault is not None:
            return point.fault if self._fires(point) else None
        data = point.data
        code = _error_code(data)
        close = bool(data.get("closeConnection"))
        if not (close or data.get("blockConnection") or code):
            return None
        # Counted before the data are read further: a hit whose data cannot be used is a hit.
        if not self._fires(point):
            return None
        block = _block_seconds(data) if data.get("blockConnection") else 0.0
        error = _error(data, code) if code and not close else None
        rewrites = data.get("allowRewriteStateChange") is True
        point.fault = CommandFault(_labels(data), block, close, error, rewrites)
        return point.fault

    def write_concern_error(self, target: FailPointTarget) -> WriteConcernFault | None:
        """Decide what `failCommand` adds after a command ran: a hit of its own."""
        point = self.active.get(FAIL_COMMAND)
        if point is None or "writeConcernError" not in point.data:
            return None
        data = point.data
        if not point.named.cover(target.names) or not _admits(data, target):
            return None
        return WriteConcernFault(data["writeConcernError"], _labels(data)) if self._fires(point) else None

    def get_more_failure(self, target: FailPointTarget) -> CommandError | None:
        """Decide whether a getMore fails after it took its cursor, which is then destroyed."""
        point = self.active.get(FAIL_GET_MORE)
        if point is None or not ONLY_GET_MORE.cover(target.names) or not _admits(point.data, target):
            return None
        if not self._fires(point):
            return None
        code = _error_code(point.data) or ErrorCode.INTERNAL_ERROR
        return CommandError(code, f"Hit the '{FAIL_GET_MORE}' failpoint")

    def transactional_write(self) -> TransactionalWriteFault | None:
        """Decide what happens to a statement that carries a transaction number."""
        point = self.active.get(ON_PRIMARY_TRANSACTIONAL_WRITE)
        if point is None or not self._fires(point):
            return None
        close = point.data.get("closeConnection", True)
        code = number_of(point.data.get("failBeforeCommitExceptionCode"))
        return TransactionalWriteFault(bool(close), None if code is None else int(code))

    def error_code(self, name: str) -> int | None:
        """Return the `errorCode` of a fail point that fires now, None where it does not or has none."""
        point = self.active.get(name)
        code = 0 if point is None else _error_code(point.data)
        return code if point is not None and code and self._fires(point) else None

    def backoff(self) -> float | None:
        """Return the seconds of each backoff of a mongos, None where no fail point says so."""
        point = self.active.get(SET_BACKOFF_DELAY)
        if point is None or not self._fires(point):
            return None
        return max(number_of(point.data.get("backoffDelayMs")) or 0.0, 0.0) / 1000

    def hello_delay(self, name: str, *, internal: bool) -> float | None:
        """Return the seconds that a hello waits; `inf` until the fail point is configured anew."""
        point = self.active.get(name)
        if point is None or (point.data.get("notInternalClient" if internal else "internalClient")):
            return None
        if not self._fires(point):
            return None
        millis = number_of(point.data.get("delayMillis"))
        return math.inf if millis is None else max(millis, 0.0) / 1000

    def tells_hello_ok(self, name: str, thread_name: str) -> bool:
        """Return whether a hello's reply has `helloOk`."""
        point = self.active.get(name)
        wanted = None if point is None else point.data.get("threadName")
        return point is not None and wanted in {None, thread_name} and self._fires(point)

    def send_fault(self, app_name: str) -> SendFault | None:
        """Decide what happens to a reply: `millis` delay it, else it fails for a client of `appName`."""
        point = self.active.get(DELAY_OR_FAIL_SEND)
        if point is None:
            return None
        millis, wanted = number_of(point.data.get("millis")), point.data.get("appName")
        if millis is None and wanted not in {None, app_name}:
            return None
        if not self._fires(point):
            return None
        return SendFault(0.0, fails=True) if millis is None else SendFault(max(millis, 0) / 1000, fails=False)

    def _fires(self, point: FailPoint) -> bool:
        fires = point.fires(self._rng)
        if point.mode is Mode.OFF:
            self.active.pop(point.name, None)
            if not self.active:
                self.toggled()
        return fires


def _nothing() -> None:
    """Do nothing: nobody listens."""


def _admits(data: Mapping[str, Any], target: FailPointTarget) -> bool:
    """Apply the filters of `failCommand` on who sent a command, and to what."""
    filters = (
        ("threadName", target.thread_name),
        ("appName", target.app_name),
        ("namespace", target.namespace),
    )
    for key, actual in filters:
        if isinstance(data.get(key), str) and data[key] != actual:
            return False
    if data.get("priorityPortOnly") and not target.has_priority:
        return False
    return not target.internal_client or bool(data.get("failInternalCommands"))


def _labels(data: Mapping[str, Any]) -> tuple[str, ...] | None:
    listed = data.get("errorLabels")
    return tuple(listed) if isinstance(listed, list) else None


def _block_seconds(data: Mapping[str, Any]) -> float:
    """Return the seconds to block; without `blockTimeMS`, until the fail point is configured anew."""
    if "blockTimeMS" not in data:
        return math.inf
    block_ms = number_of(data["blockTimeMS"])
    if block_ms is None:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "Failed to parse 'blockTimeMS'")
    if block_ms < 0:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "'blockTimeMS' must be non-negative")
    return int(block_ms) / 1000


def _error(data: Mapping[str, Any], code: int) -> CommandError:
    message = data.get("errorMsg", "Failing command via 'failCommand' failpoint")
    if not isinstance(message, str):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH, f"wrong type for field (errorMsg) {type_name(message)} != string"
        )
    extra = data.get("errorExtraInfo")
    return CommandError(code, message, extra=extra if isinstance(extra, dict) else None)


def _error_code(data: Mapping[str, Any]) -> int:
    return int(number_of(data.get("errorCode")) or 0)
