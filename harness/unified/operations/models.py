"""Write models: the elements of a bulk write, each a single key that names its kind.

Unified Test Format: bulkWrite, clientBulkWrite.

Checked by the runner because a driver's own builder would refuse a wrong model in its own words, or take a
misspelt option silently. Lint asks the same functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.unified.arguments import check_names, signature
from harness.unified.errors import ScenarioError
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODELS: Final[Mapping[str, Mapping[str, bool]]] = {
    "insertOne": signature("document"),
    "updateOne": signature("filter update", "arrayFilters collation hint sort upsert"),
    "updateMany": signature("filter update", "arrayFilters collation hint upsert"),
    "replaceOne": signature("filter replacement", "collation hint sort upsert"),
    "deleteOne": signature("filter", "collation hint"),
    "deleteMany": signature("filter", "collation hint"),
}


def check_models(models: Any) -> None:
    """Check the `requests` of a collection's bulk write. Raises `ScenarioError`."""
    _check("requests", models, {})


def check_client_models(models: Any) -> None:
    """Check the `models` of a client's bulk write, which name their namespaces. Raises `ScenarioError`."""
    _check("models", models, {"namespace": True})


def _check(field: str, models: Any, more: Mapping[str, bool]) -> None:
    if not isinstance(models, list):
        raise ScenarioError(f"{field} must be a list")
    for index, model in enumerate(models):
        if not isinstance(model, dict) or len(model) != 1:
            raise ScenarioError(f"{field}[{index}] must have one key, the kind of write")
        ((kind, body),) = model.items()
        if kind not in _MODELS:
            hint = did_you_mean(kind, _MODELS, f"one of {', '.join(_MODELS)}")
            raise ScenarioError(f"{field}[{index}] has unknown kind {kind!r}", fix=hint)
        check_names(f"{field}[{index}].{kind}", body, {**_MODELS[kind], **more})
