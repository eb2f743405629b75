"""Fields that stand twice in the argument of a stage, which most stages refuse.

A stage with a declared list of fields refuses one that has two values (40413); null is no value, so that of
`{count: {}, count: null}` the first is taken. `$sort`, `$planCacheStats` and the `_id` of a `$group` have
checks of their own. Other stages take the last one, as do documents in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.idl.fields import duplicate_field
from fakeserver.idl.repeated import Noticing, noticing
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DECLARED: Final = frozenset({
    "$changeStream", "$collStats", "$densify", "$fill", "$listClusterCatalog", "$listLocalSessions",
    "$listSessions", "$lookup", "$merge", "$out", "$querySettings", "$queryStats", "$setWindowFields",
    "$unionWith",
})  # fmt: skip
_OWN: Final = frozenset({"$sort", "$planCacheStats", "$group"})
_CHECKED: Final = _DECLARED | _OWN
_LARGEST: Final = 1 << 16
"""The bytes of a command up to which fields are counted."""
_FEW: Final = 64


def check_repeated(body: bytes, pipeline: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a field that stands twice in a stage of a command, and put the value that counts in its place.

    Raises `CommandError` 40413, 7472500, 9 or 15948.
    """
    if len(body) > _LARGEST or not any(_may_repeat(body, stage) for stage in pipeline):
        return
    command: Any = noticing(body)
    for stage, noticed in zip(pipeline, command["pipeline"], strict=True):
        for name, argument in noticed.items():
            if name in _CHECKED and isinstance(argument, Noticing) and argument.repeated is not None:
                _check(name, argument, stage[name])


def _may_repeat(body: bytes, stage: Mapping[str, Any]) -> bool:
    for name, argument in stage.items():
        if name in _CHECKED and isinstance(argument, dict):
            return len(argument) > _FEW or any(body.count(f"{field}\0".encode()) > 1 for field in argument)
    return False


def _check(name: str, noticed: Noticing, argument: dict[str, Any]) -> None:
    repeated = noticed.repeated
    if name == "$sort":
        raise CommandError(7472500, f"$sort key must not contain duplicate keys (duplicate: '{repeated}')")
    if name == "$planCacheStats":
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"$planCacheStats parameters object may contain only one field: {repeated}",
        )
    if name == "$group":
        if "_id" in dict(noticed.earlier):
            raise CommandError(15948, "a group's _id may only be specified once")
        return
    values = [each for each in noticed.earlier if each[1] is not None]
    for field, value in values:
        if argument[field] is not None:
            raise duplicate_field(f"{name}.{field}")
        argument[field] = value
