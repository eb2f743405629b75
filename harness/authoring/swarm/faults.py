"""Faults of the swarm: a table of them, each a function from the dice to steps of the runner.

All are set by a client of the runner's own (`faults`), and meet commands of the client under test alone: they
name its `appName`, for otherwise the fault would be used up by the runner or by a monitor of another client.

A fail point replaces the one of its name on a server, while rules and faults of bytes add up. So what is to
happen beside another fault is a rule. What outlives the case is undone at its end (`scenario._operations`);
a fault that sets something new has to be undone there too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.authoring.swarm.answers import WRITES, sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    Fault: TypeAlias = dict[str, Any]

FAULTS: Final = "faults"
ADMIN: Final = "admin"
APP_NAME: Final = "swarm"
_OVERLOADED: Final = "SystemOverloadedError"
_RETRYABLE: Final = "RetryableError"
_NOTHING_WRITTEN: Final = "NoWritesPerformed"
_RETRYABLE_WRITE: Final = "RetryableWriteError"


def fail(mode: Any, commands: Sequence[str], **data: Any) -> Fault:
    """Return a step that sets `failCommand` for the client under test."""
    return _set(
        {"configureFailPoint": "failCommand", "mode": mode, "data": {"failCommands": list(commands), **data}}
    )


def _set(fail_point: dict[str, Any]) -> Fault:
    if fail_point["configureFailPoint"] == "failCommand":
        fail_point["data"]["appName"] = APP_NAME
    arguments = {"client": FAULTS, "failPoint": fail_point}
    return {"name": "failPoint", "object": "testRunner", "arguments": arguments}


def admin(command: dict[str, Any]) -> Fault:
    """Return a step that has a server do something, whatever comes of it."""
    arguments = {"commandName": next(iter(command)), "command": command}
    return {"name": "runCommand", "object": ADMIN, "arguments": arguments, "ignoreResultAndError": True}


def slow(commands: Sequence[str], milliseconds: int, *, times: int) -> Fault:
    """Return a step that has commands of the client under test wait, beside whatever a fail point does."""
    when = {"command": list(commands), "appName": APP_NAME}
    rule = {"when": when, "then": [{"delay": f"{milliseconds}ms"}], "times": times}
    return admin({"pushbackd": "addRule", "rule": rule})


def refuse_all(commands: Sequence[str], **extra: Any) -> Fault:
    """Return a step that refuses commands for overload, on every server, until `NO_RULES`."""
    error: dict[str, Any] = {"error": 462, "labels": [_OVERLOADED, _RETRYABLE]}
    when = {"command": list(commands), "appName": APP_NAME}
    rule = {"when": when, "then": [error | ({"extra": extra} if extra else {})]}
    return admin({"pushbackd": "addRule", "rule": rule})


def transient(commands: Sequence[str], *, times: int | None) -> Fault:
    """Return a step that has transactions begin anew, so often, or until `NO_RULES`."""
    when = {"command": list(commands), "appName": APP_NAME}
    rule = {"when": when, "then": [{"error": 112, "labels": ["TransientTransactionError"]}]}
    return admin({"pushbackd": "addRule", "rule": rule | ({"times": times} if times else {})})


NO_RULES: Final = admin({"pushbackd": "removeRule", "id": "all"})
"""The step that ends all rules."""


def _overload(dice: Random, commands: Sequence[str]) -> list[Fault]:
    """Refuse for overload as a limiter does."""
    labels = [_OVERLOADED, _RETRYABLE, *([_NOTHING_WRITTEN] if dice.random() < 0.7 else [])]  # noqa: PLR2004
    return [fail({"times": dice.choice((1, 1, 2, 3, 4, 6, 9))}, commands, errorCode=462, errorLabels=labels)]


def _advised(dice: Random, commands: Sequence[str]) -> list[Fault]:
    """Refuse for overload with a base for the backoff, which servers from 9.0 on give."""
    base = dice.choice((0, 10, 20, 50, 20_000))
    return [admin({"setParameter": 1, "externalClientBaseBackoffMS": base}), *_overload(dice, commands)]


def _half_overload(dice: Random, commands: Sequence[str]) -> list[Fault]:
    """Give one of the two labels of overload, or neither."""
    labels = dice.choice(([_OVERLOADED], [_RETRYABLE], [], [_OVERLOADED, _NOTHING_WRITTEN]))
    return [fail({"times": dice.randint(1, 2)}, commands, errorCode=462, errorLabels=labels)]


def _state_change(dice: Random, commands: Sequence[str]) -> list[Fault]:
    code = dice.choice((10107, 13435, 11602, 11600, 189, 91))
    return [fail({"times": dice.choice((1, 1, 2))}, commands, errorCode=code)]


def _retryable(dice: Random, commands: Sequence[str]) -> list[Fault]:
    """Fail with a code that may be retried and says nothing of the server, labelled by the server or not."""
    labels = dice.choice((None, None, [_RETRYABLE_WRITE], [_RETRYABLE_WRITE, _NOTHING_WRITTEN], []))
    given = {} if labels is None else {"errorLabels": labels}
    return [
        fail(
            {"times": dice.choice((1, 1, 2))}, commands, errorCode=dice.choice((6, 7, 89, 262, 9001)), **given
        )
    ]


def _error(dice: Random, commands: Sequence[str]) -> list[Fault]:
    labels = dice.choice((None, None, [_RETRYABLE_WRITE]))
    given = {} if labels is None else {"errorLabels": labels}
    return [fail({"times": 1}, commands, errorCode=dice.choice((2, 8000, 50, 20)), **given)]


def _lost(dice: Random, commands: Sequence[str]) -> list[Fault]:
    """Lose the connection before the command is executed."""
    return [fail({"times": dice.choice((1, 1, 2, 3))}, commands, closeConnection=True)]


def _lost_reply(_dice: Random, _commands: Sequence[str]) -> list[Fault]:
    """Lose the connection after a retryable write was executed."""
    fail_point = {"configureFailPoint": "onPrimaryTransactionalWrite", "mode": {"times": 1}}
    return [_set({**fail_point, "data": {"closeConnection": True}})]


def _mixed(dice: Random, commands: Sequence[str]) -> list[Fault]:
    """Let the first attempt's reply be lost, and refuse the next one for overload or by its code."""
    labels = dice.choice(
        (
            [_OVERLOADED, _RETRYABLE, _NOTHING_WRITTEN],
            [_RETRYABLE_WRITE, _NOTHING_WRITTEN],
            [_RETRYABLE_WRITE],
            [],
        )
    )
    code = dice.choice((462, 91, 6, 2))
    mode = dice.choice(({"skip": 1}, {"times": 1}))
    if "commitTransaction" in commands:
        mode = {"times": 1}  # withTransaction repeats a commit without a wait: for two minutes, in thousands
    refuse = fail(mode, commands, errorCode=code, errorLabels=labels)
    return [*_lost_reply(dice, commands), refuse]


def _write_concern(dice: Random, commands: Sequence[str]) -> list[Fault]:
    writes = [command for command in commands if command in WRITES]
    if not writes:
        return _overload(dice, commands)
    code = dice.choice((91, 64, 11600, 100, 6))
    labels = dice.choice(({}, {"errorLabels": [_RETRYABLE_WRITE]}))
    error = {"code": code, "errmsg": "swarm", **labels}
    return [fail({"times": 1}, writes, writeConcernError=error)]


def _slow(dice: Random, commands: Sequence[str]) -> list[Fault]:
    return [fail({"times": 1}, commands, blockConnection=True, blockTimeMS=dice.choice((30, 120, 400)))]


def _slow_lost(dice: Random, commands: Sequence[str]) -> list[Fault]:
    return [
        fail(
            {"times": 1},
            commands,
            blockConnection=True,
            blockTimeMS=dice.choice((30, 120)),
            closeConnection=True,
        )
    ]


def _handshake(dice: Random, _commands: Sequence[str]) -> list[Fault]:
    """Have new connections fail: closed, refused or slow."""
    how: dict[str, Any] = dice.choice(
        (
            {"closeConnection": True},
            {"errorCode": 91},
            {"blockConnection": True, "blockTimeMS": 60},
        )
    )
    return [fail({"times": dice.choice((1, 2))}, ["hello", "isMaster", "ismaster"], **how)]


def _authentication(dice: Random, _commands: Sequence[str]) -> list[Fault]:
    how: dict[str, Any] = dice.choice(({"closeConnection": True}, {"errorCode": 91}, {"errorCode": 18}))
    return [fail({"times": 1}, ["saslStart", "saslContinue"], **how)]


def _cut(dice: Random, commands: Sequence[str]) -> list[Fault]:
    """Lose a reply: before its first byte, or within it."""
    where: dict[str, Any] = dice.choice(({"at": "beforeReply"}, {"at": "reply", "byte": 20}))
    end: dict[str, Any] = dice.choice(({"cut": 0}, {"reset": True}))
    met = {"appName": APP_NAME, "command": commands[0], "times": 1}
    return [admin({"pushbackd": "addFault", "fault": {"name": CUT, **where, **met, "do": end}})]


def _sequence(dice: Random, commands: Sequence[str]) -> list[Fault]:
    """Give the next attempts an answer each, on whatever server they come to."""
    return [admin({"pushbackd": "addRule", "rule": sequence(dice, commands, APP_NAME)})]


CUT: Final = "cut"
"""The name of a fault of bytes, by which it is removed at the end."""

KINDS: Final[Mapping[str, tuple[int, Callable[[Random, Sequence[str]], list[Fault]]]]] = {
    "sequence": (20, _sequence),
    "overload": (8, _overload),
    "half-overload": (3, _half_overload),
    "state-change": (3, _state_change),
    "retryable": (3, _retryable),
    "error": (2, _error),
    "lost": (4, _lost),
    "lost-reply": (2, _lost_reply),
    "mixed": (3, _mixed),
    "write-concern": (2, _write_concern),
    "slow": (2, _slow),
    "slow-lost": (1, _slow_lost),
    "handshake": (2, _handshake),
    "cut": (2, _cut),
}
"""Each kind with its weight."""
RARE: Final = {
    "authentication": _authentication,
    "step-down": lambda _dice, _commands: [admin({"pushbackd": "stepDown", "seconds": 1})],
    "advised": _advised,
}
"""Those that some deployments alone have: with access control, replica sets, and of release 9.0."""
