"""Conditions that a `$match` stage may not hold, though find accepts them.

`$where` (16395), searches by distance, which would have to sort (5626500), and `$text` behind the first stage
(17313), because only a query at the head of a pipeline uses the text index. A stage within `$lookup` or
`$unionWith` begins a pipeline of its own; one within `$facet` does not, as it follows the stages before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WHERE: Final = 16395
_TEXT_FIRST: Final = 17313
_NEAR: Final = 5626500
_NEARS: Final = frozenset({"$near", "$nearSphere"})
_PIPELINES: Final = ("$lookup", "$unionWith")


def check_matches(pipeline: Sequence[Mapping[str, Any]]) -> None:
    """Refuse scripts, searches by distance, and text searches behind the first stage.

    Raises `CommandError` 16395, 5626500 or 17313.
    """
    for index, stage in enumerate(pipeline):
        for name, argument in stage.items():
            if name == "$match":
                _check_match(argument, first=index == 0)
            elif name in _PIPELINES and isinstance(argument, dict):
                # A pipeline of its own: its first stage reads a collection, and may search it.
                check_matches(_documents(argument.get("pipeline")))
            elif name == "$facet" and isinstance(argument, dict):
                for branch in argument.values():
                    # {} stands for the stages before, so that no stage of a branch is the first.
                    check_matches([{}, *_documents(branch)])


def _documents(pipeline: Any) -> list[Mapping[str, Any]]:
    return [stage for stage in pipeline if isinstance(stage, dict)] if isinstance(pipeline, list) else []


def _check_match(condition: Any, *, first: bool) -> None:
    if isinstance(condition, list):
        for item in condition:
            _check_match(item, first=first)
    if not isinstance(condition, dict):
        return
    for name, value in condition.items():
        if name == "$where":
            raise CommandError(_WHERE, "$where is not allowed inside of a $match aggregation expression")
        if name == "$text" and not first:
            raise CommandError(_TEXT_FIRST, "$match with $text is only allowed as the first pipeline stage")
        if name in _NEARS:
            raise CommandError(
                _NEAR,
                "$geoNear, $near, and $nearSphere are not allowed in this context, as these operators require"
                " sorting geospatial data. If you do not need sort, consider using $geoWithin instead.",
            )
        if name != "$expr":
            _check_match(value, first=first)
