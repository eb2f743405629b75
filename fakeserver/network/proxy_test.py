"""The field `proxyTest` of a request: the way of its own reply, as MongoDB's test proxy for drivers has it.

    {ping: 1, proxyTest: {actions: [{sendBytes: 2}, {delayMs: 400}, {sendAll: true}]}}

`delayMs` waits, `sendBytes` sends so many bytes of the reply, `sendAll` those that are left; what no action
has sent follows at the end. The command does not see the field. Connections are left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.network.fault_steps import Send, Wait
from mongowire.documents import arguments
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeserver.network.fault_steps import Step

FIELD: Final = "proxyTest"
_ACTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "delayMs": arguments.count,
    "sendBytes": arguments.count,
    "sendAll": arguments.flag,
}


def parse_proxy_test(value: Any) -> Callable[[bytes], Iterator[Step]]:
    """Return what makes steps of a reply. Raises `ControlError` with the path of the field."""
    if not isinstance(value, dict):
        raise ControlError("it is no document; write {actions: […]}", path=(FIELD,))
    for name in value:
        if name != "actions":
            raise unknown("field", name, ["actions"], path=(FIELD,))
    actions = value.get("actions")
    if not isinstance(actions, list):
        raise ControlError("it needs actions: a list of documents", path=(FIELD,))
    parsed = [_action(action, number) for number, action in enumerate(actions)]
    return lambda reply: _steps(reply, parsed)


def _action(action: Any, number: int) -> dict[str, Any]:
    path = (FIELD, "actions", number)
    if not isinstance(action, dict):
        raise ControlError(f"{action!r} is no document", path=path)
    parsed = {}
    for name, value in action.items():
        if name not in _ACTIONS:
            raise unknown("action", name, _ACTIONS, path=path)
        try:
            parsed[name] = _ACTIONS[name](value)
        except ControlError as error:
            raise error.within(*path, name) from None
    return parsed


def _steps(reply: bytes, actions: list[dict[str, Any]]) -> Iterator[Step]:
    for action in actions:
        if action.get("delayMs"):
            yield Wait(action["delayMs"] / 1000)
        count = len(reply) if action.get("sendAll") else action.get("sendBytes", 0)
        if count:
            yield Send(reply[:count])
            reply = reply[count:]
    yield Send(reply)
