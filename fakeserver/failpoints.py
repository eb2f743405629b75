"""Fail points: faults that a client configures through the server's own commands.

The registry decides and waits for nothing: a decision names the effects, in their order, and the pipeline
has them happen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.errors import CommandError
from fakeserver.idl import type_name, whole
from fakeserver.waiting import Bell
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mongowire.ports import Rng

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
)

_INT32_MAX: Final = (1 << 31) - 1
_NUMBERS: Final = frozenset({"int", "long", "double", "decimal"})


class Mode(IntEnum):
    """How often a fail point fires on what it matches, numbered as `getParameter` shows it."""

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
        return _parse_mode_name(mode)
    if not isinstance(mode, dict):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "'mode' must be a string or JSON object")
    if "times" in mode:
        return Setting(Mode.TIMES, _count("times", mode["times"]))
    if "skip" in mode:
        return Setting(Mode.SKIP, _count("skip", mode["skip"]))
    if "activationProbability" in mode:
        return Setting(Mode.RANDOM, _probability(mode["activationProbability"]))
    raise CommandError(
        ErrorCode.BAD_VALUE,
        "'mode' must be one of 'off', 'alwaysOn', '{times:n}', '{skip:n}' or '{activationProbability:p}'",
    )


def _parse_mode_name(name: str) -> Setting:
    if name == "off":
        return Setting(Mode.OFF)
    if name == "alwaysOn":
        return Setting(Mode.ALWAYS_ON)
    raise CommandError(ErrorCode.BAD_VALUE, f"unknown mode: {name}")


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


def _probability(value: Any) -> float:
    if type_name(value) not in _NUMBERS:
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            "the 'activationProbability' option to 'mode' must be a double between 0 and 1",
        )
    probability = _number(value) or 0.0
    if not 0 <= probability <= 1:
        raise CommandError(
            ErrorCode.BAD_VALUE, f"activationProbability must be between 0.0 and 1.0; found {probability}"
        )
    return probability


@dataclass(slots=True)
class FailPoint:
    """One named fail point. `times_entered` counts its hits for as long as the server lives."""

    name: str
    mode: Mode = Mode.OFF
    value: float = 0.0
    data: Mapping[str, Any] = field(default_factory=dict)
    times_entered: int = 0
    named: Names = field(default_factory=lambda: Names.of({}))
    fault: CommandFault | None = None
    """What `failCommand` does, once it has been asked for: the same for every command that it meets."""

    def configure(self, setting: Setting, data: Mapping[str, Any]) -> None:
        """Replace mode and data."""
        self.mode, self.value = setting
        self.data = data
        self.named = Names.of(data)
        self.fault = None

    def fires(self, dice: Rng) -> bool:
        """Decide about something that matches, and count a hit. `times` of 0 fires once, as a server's."""
        if not self._decide(dice):
            return False
        self.times_entered += 1
        return True

    def _decide(self, dice: Rng) -> bool:
        if self.mode is Mode.RANDOM:
            return dice.random() < self.value
        if self.mode is Mode.SKIP and self.value > 0:
            self.value -= 1
            return False
        if self.mode is Mode.TIMES:
            self.value -= 1
            if self.value <= 0:
                self.mode = Mode.OFF
        return True

    def document(self) -> dict[str, Any]:
        """As `getParameter` shows it."""
        return {"mode": int(self.mode), "data": dict(self.data), "timesEntered": self.times_entered}


class Names(NamedTuple):
    """Which commands a fail point is about: those listed, or all but those listed."""

    listed: frozenset[str]
    all_but: bool

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Names:
        """Read `failCommands`, or `failAllCommands` and `failCommandsExcept`."""
        all_but = bool(data.get("failAllCommands"))
        listed = data.get("failCommandsExcept" if all_but else "failCommands")
        names = listed if isinstance(listed, list) else ()
        return cls(frozenset(name for name in names if isinstance(name, str)), all_but)

    def cover(self, names: tuple[str, ...]) -> bool:
        """Say whether a command of these names is one of them."""
        return self.listed.isdisjoint(names) is self.all_but and "configureFailPoint" not in names


_GET_MORE: Final = Names(frozenset({"getMore"}), all_but=False)


class Target(NamedTuple):
    """What a fail point's filters look at: a command's names, and who sent it."""

    names: tuple[str, ...]
    namespace: str
    app_name: str = ""
    thread_name: str = ""
    internal_client: bool = False


@dataclass(frozen=True, slots=True)
class CommandFault:
    """What `failCommand` does to a command before it runs, in this order.

    `labels` replace those of the reply (None: they do not). `block` is a time in seconds (`inf`: until the
    fail point is configured anew, 0: none). Then `close` ends the connection, or `error` is the answer; one
    error for all commands, so it is not to be raised.
    """

    labels: tuple[str, ...] | None = None
    block: float = 0.0
    close: bool = False
    error: CommandError | None = None
    rewrites: bool = False
    """Whether a mongos still rewrites state changes in this reply (`allowRewriteStateChange`)."""
    effect: str = field(init=False)
    """What happens, in words for a journal."""

    def __post_init__(self) -> None:
        """Put the effect in words, once for all commands that it meets."""
        names = {"block": self.block > 0, "close": self.close, "error": self.error is not None}
        object.__setattr__(self, "effect", "+".join(name for name, happens in names.items() if happens))


@dataclass(frozen=True, slots=True)
class WriteConcernFault:
    """What `failCommand` adds to a reply after the command ran."""

    error: Any
    labels: tuple[str, ...] | None = None


class TransactionalWriteFault(NamedTuple):
    """What `onPrimaryTransactionalWrite` does to a statement."""

    close: bool
    code: int | None


class FailPointRegistry:
    """The fail points of one server. `changed` rings when one is configured."""

    def __init__(self, dice: Rng) -> None:
        self._dice = dice
        self._points = {name: FailPoint(name) for name in NAMES}
        self._active: dict[str, FailPoint] = {}
        self.changed = Bell()

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
        self._active = {each.name: each for each in self if each.mode is not Mode.OFF}
        self.changed.ring()
        return point.times_entered

    @property
    def any_active(self) -> bool:
        return bool(self._active)

    def is_configured(self, name: str) -> bool:
        """Say whether a fail point is not off, without a hit."""
        return name in self._active

    def is_on(self, name: str) -> bool:
        """Say whether a fail point without filters fires now, and count the hit."""
        point = self._active.get(name)
        return point is not None and self._fires(point)

    def fail_command(self, target: Target) -> CommandFault | None:
        """Decide what happens to a command before it runs.

        Raises `CommandError` to the victim when the fail point's data cannot be used.
        """
        point = self._active.get(FAIL_COMMAND)
        if point is None or not point.named.cover(target.names) or not _admits(point.data, target):
            return None
        if point.fault is not None:
            return point.fault if self._fires(point) else None
        data = point.data
        code = _error_code(data)
        if not (data.get("closeConnection") or data.get("blockConnection") or code):
            return None
        if not self._fires(point):
            return None
        point.fault = _command_fault(data, code)
        return point.fault

    def write_concern_error(self, target: Target) -> WriteConcernFault | None:
        """Decide what `failCommand` adds after a command ran: a hit of its own."""
        point = self._active.get(FAIL_COMMAND)
        if point is None or "writeConcernError" not in point.data:
            return None
        data = point.data
        if not point.named.cover(target.names) or not _admits(data, target):
            return None
        return WriteConcernFault(data["writeConcernError"], _labels(data)) if self._fires(point) else None

    def get_more_failure(self, target: Target) -> CommandError | None:
        """Decide whether a getMore fails after it took its cursor, which is then destroyed."""
        point = self._active.get(FAIL_GET_MORE)
        if point is None or not _GET_MORE.cover(target.names) or not _admits(point.data, target):
            return None
        if not self._fires(point):
            return None
        code = _error_code(point.data) or ErrorCode.INTERNAL_ERROR
        return CommandError(code, f"Hit the '{FAIL_GET_MORE}' failpoint")

    def transactional_write(self) -> TransactionalWriteFault | None:
        """Decide what happens to a statement that carries a transaction number."""
        point = self._active.get(ON_PRIMARY_TRANSACTIONAL_WRITE)
        if point is None or not self._fires(point):
            return None
        close = point.data.get("closeConnection", True)
        code = _number(point.data.get("failBeforeCommitExceptionCode"))
        return TransactionalWriteFault(bool(close), None if code is None else int(code))

    def _fires(self, point: FailPoint) -> bool:
        fires = point.fires(self._dice)
        if point.mode is Mode.OFF:
            self._active.pop(point.name, None)
        return fires


def _admits(data: Mapping[str, Any], target: Target) -> bool:
    """Apply the filters of `failCommand` on who sent a command, and to what."""
    filters = (
        ("threadName", target.thread_name),
        ("appName", target.app_name),
        ("namespace", target.namespace),
    )
    for key, actual in filters:
        if isinstance(data.get(key), str) and data[key] != actual:
            return False
    if data.get("priorityPortOnly"):
        # There is no priority port that the connection could have come by.
        return False
    return not target.internal_client or bool(data.get("failInternalCommands"))


def _command_fault(data: Mapping[str, Any], code: int) -> CommandFault:
    block = _block(data) if data.get("blockConnection") else 0.0
    close = bool(data.get("closeConnection"))
    error = _error(data, code) if code and not close else None
    return CommandFault(_labels(data), block, close, error, data.get("allowRewriteStateChange") is True)


def _labels(data: Mapping[str, Any]) -> tuple[str, ...] | None:
    listed = data.get("errorLabels")
    return tuple(listed) if isinstance(listed, list) else None


def _block(data: Mapping[str, Any]) -> float:
    """Return how long to block, in seconds."""
    if "blockTimeMS" not in data:
        return math.inf
    block_ms = _number(data["blockTimeMS"])
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
    return int(_number(data.get("errorCode")) or 0)


def _number(value: Any) -> float | None:
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
