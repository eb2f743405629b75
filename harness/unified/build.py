"""From a checked document to frozen cases. What a file says twice (its own entities and data) is shared.

`build` may trust the shape of the document, because `schema.check` has seen it, with one exception: the
arguments of operations are free in the format. Those that hold parts of a scenario (a callback's operations,
an event to wait for) are checked here by `schema.check_part` when they are made, so that a mistake within a
loop is found before the run like any other.

Extended JSON is decoded here, once, so that all that comes later compares BSON values. Ids of cases are made
here as well; expectations files and reports name cases by them, so that a change of `id_prefix` or
`case_names` breaks every such file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bson import json_util
from bson.errors import BSONError

from harness.adapters.base import EntityKind
from harness.unified.errors import ScenarioError
from harness.unified.model import (
    UNSET,
    Case,
    CollectionData,
    EntitySpec,
    ExpectedError,
    ExpectedEvent,
    ExpectedEvents,
    ExpectedLog,
    ExpectedLogs,
    ExpectedSpan,
    ExpectedSpans,
    Operation,
    Requirement,
    TestFile,
)
from harness.unified.schema import check_part
from harness.unified.server_side.build import server_side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    from mongowire.documents.marks import Marked

    T = TypeVar("T")

# Dates without a zone, in UTC: as drivers give them by default, and comparable with each other.
_EXTENDED_JSON: Final[json_util.JSONOptions] = json_util.JSONOptions(tz_aware=False, tzinfo=None)
# Folders of the public repository between a specification and its files; they would be in every id.
_WITHIN_SPECIFICATION: Final = frozenset({"tests", "unified"})
ROOTS: Final = frozenset({"source", "spec_tests"})
"""The names of folders that hold one folder for each specification."""


def build(document: Marked) -> TestFile:
    """Return the cases of a valid file. Raises `ScenarioError` for Extended JSON that is wrong."""
    tests = document["tests"].items()
    names = case_names([case.value["description"] for case in tests])
    prefix = id_prefix(document.path)
    shared = {
        "path": document.path,
        "schema_version": document.value["schemaVersion"],
        "file_requirements": _each(document.get("runOnRequirements"), requirement),
        "entities": _each(document.get("createEntities"), entity),
        "initial_data": _each(document.get("initialData"), _collection_data),
    }
    return TestFile(
        path=document.path,
        description=document.value["description"],
        schema_version=document.value["schemaVersion"],
        cases=tuple(
            _case(case, index, f"{prefix}::{names[index]}", shared) for index, case in enumerate(tests)
        ),
    )


def id_prefix(path: Path) -> str:
    """Return the folder of the specification and the stem of the file."""
    folders = path.resolve().parent.parts
    # The last folder of that name counts: a checkout may lie below another one named `source`.
    roots = [index for index, name in enumerate(folders) if name in ROOTS]
    below = folders[roots[-1] + 1 :] if roots else folders[-1:]
    return "/".join([*(name for name in below if name not in _WITHIN_SPECIFICATION), path.stem])


def suite_of(path: Path) -> Path:
    """Return the folder of a suite: ids of a file's cases begin below it."""
    folder = path.resolve().parent
    roots = [index for index, name in enumerate(folder.parts) if name in ROOTS]
    return Path(*folder.parts[: roots[-1] + 1]) if roots else folder.parent


def case_names(descriptions: Sequence[str]) -> list[str]:
    """Return names that differ: an empty or repeated description gets the index of its case.

    The index is added to all that share a description, also to the first. Such an id changes when cases
    before it come or go; that of a case with a description of its own never does.
    """
    repeated = {name for name in descriptions if not name.strip() or descriptions.count(name) > 1}
    return [
        f"{name} [{index}]".strip() if name in repeated else name for index, name in enumerate(descriptions)
    ]


def _case(case: Marked, index: int, name: str, shared: Mapping[str, Any]) -> Case:
    own = case.get("pushbackd")
    return Case(
        id=name,
        description=case.value["description"],
        line=case.mark.line,
        index=index,
        requirements=_each(case.get("runOnRequirements"), requirement),
        skip_reason=case.value.get("skipReason"),
        operations=_each(case["operations"], operation),
        expected_events=_each(case.get("expectEvents"), _expected_events),
        expected_logs=_each(case.get("expectLogMessages"), _expected_logs),
        expected_spans=_each(case.get("expectTracingMessages"), _expected_spans),
        outcome=_each(case.get("outcome"), _collection_data),
        server_side=None if own is None else server_side(own, decoded),
        **shared,
    )


def _each(items: Marked | None, make: Callable[[Marked], T]) -> tuple[T, ...]:
    return tuple(make(item) for item in items.items()) if items else ()


def requirement(item: Marked) -> Requirement:
    """Return one element of `runOnRequirements`."""
    value = item.value
    return Requirement(
        min_server_version=value.get("minServerVersion"),
        max_server_version=value.get("maxServerVersion"),
        topologies=tuple(value.get("topologies", ())),
        serverless=value.get("serverless"),
        server_parameters=value.get("serverParameters", {}),
        auth=value.get("auth"),
        auth_mechanism=value.get("authMechanism"),
        csfle=value.get("csfle"),
    )


def entity(item: Marked) -> EntitySpec:
    """Return one element of `createEntities`."""
    (name,) = item.value
    body = item[name]
    return EntitySpec(EntityKind(name), body.value["id"], decoded(body), item.location)


def _collection_data(item: Marked) -> CollectionData:
    options = item.get("createOptions")
    return CollectionData(
        database_name=item.value["databaseName"],
        collection_name=item.value["collectionName"],
        documents=tuple(decoded(item["documents"])),
        create_options=decoded(options) if options else None,
        location=item.location,
    )


def operation(item: Marked) -> Operation:
    """Return one operation. Raises `ScenarioError` when a part inside its arguments is malformed."""
    value, arguments = item.value, item.get("arguments")
    expected, error = item.get("expectResult"), item.get("expectError")
    # Arguments that are parts of a scenario themselves become parts of the model.
    parts = {**_PARTS, **_PARTS_OF.get(value["name"], {})}
    made = {name: parts.get(name, decoded)(arguments[name]) for name in arguments.value} if arguments else {}
    return Operation(
        name=value["name"],
        object=value["object"],
        arguments=made,
        location=item.location,
        ignore_result_and_error=bool(value.get("ignoreResultAndError")),
        expect_error=_expected_error(error) if error else None,
        expect_result=decoded(expected) if expected else UNSET,
        save_result_as_entity=value.get("saveResultAsEntity"),
    )


def _checked(name: str, make: Callable[[Marked], T]) -> Callable[[Marked], T]:
    """Return a maker of a part of the model that validation of the file has not seen."""

    def check_and_make(item: Marked) -> T:
        check_part(name, item)
        return make(item)

    return check_and_make


def _listed(
    name: str, make: Callable[[Marked], T], *, at_least: int = 0
) -> Callable[[Marked], tuple[T, ...]]:
    """Return a maker of a list of such parts."""

    def check_and_make(item: Marked) -> tuple[T, ...]:
        if not isinstance(item.value, list):
            raise ScenarioError(f"must be a list of {name} documents", location=item.location)
        if len(item.value) < at_least:
            raise ScenarioError("is empty", location=item.location, fix=f"give at least one {name}")
        return _each(item, _checked(name, make))

    return check_and_make


def _entity_operation(item: Marked) -> Operation:
    """Return an operation of a loop or a thread, which run on entities only."""
    made = operation(item)
    if made.object == EntityKind.TEST_RUNNER.value:
        raise ScenarioError(
            f"{made.name} cannot stand here: loops and threads run operations on entities",
            location=item["object"].location,
        )
    return made


def _expected_error(item: Marked) -> ExpectedError:
    value, response, errors = item.value, item.get("errorResponse"), item.get("writeConcernErrors")
    result, by_index = item.get("expectResult"), item.get("writeErrors")
    return ExpectedError(
        location=item.location,
        is_client_error=value.get("isClientError"),
        is_timeout_error=value.get("isTimeoutError"),
        contains=value.get("errorContains"),
        code=value.get("errorCode"),
        code_name=value.get("errorCodeName"),
        labels_contain=tuple(value.get("errorLabelsContain", ())),
        labels_omit=tuple(value.get("errorLabelsOmit", ())),
        response=decoded(response) if response else None,
        write_errors=decoded(by_index) if by_index else None,
        write_concern_errors=tuple(decoded(errors)) if errors else None,
        result=decoded(result) if result else UNSET,
    )


def _expected_events(item: Marked) -> ExpectedEvents:
    return ExpectedEvents(
        client=item.value["client"],
        event_type=item.value.get("eventType", "command"),
        events=_each(item["events"], expected_event),
        ignore_extra=bool(item.value.get("ignoreExtraEvents")),
        location=item.location,
    )


def _expected_logs(item: Marked) -> ExpectedLogs:
    return ExpectedLogs(
        client=item.value["client"],
        messages=_each(item["messages"], _expected_log),
        ignored=_each(item.get("ignoreMessages"), _expected_log),
        ignore_extra=bool(item.value.get("ignoreExtraMessages")),
        location=item.location,
    )


def _expected_log(item: Marked) -> ExpectedLog:
    return ExpectedLog(
        level=item.value["level"],
        component=item.value["component"],
        data=decoded(item["data"]),
        failure_is_redacted=item.value.get("failureIsRedacted"),
        location=item.location,
    )


def _expected_spans(item: Marked) -> ExpectedSpans:
    return ExpectedSpans(
        client=item.value["client"],
        spans=_each(item["spans"], _expected_span),
        ignore_extra=bool(item.value.get("ignoreExtraSpans")),
        location=item.location,
    )


def _expected_span(item: Marked) -> ExpectedSpan:
    return ExpectedSpan(
        name=item.value["name"],
        attributes=decoded(item["attributes"]),
        nested=_each(item.get("nested"), _expected_span),
        location=item.location,
    )


def expected_event(item: Marked) -> ExpectedEvent:
    """Return one expected event."""
    (kind,) = item.value
    return ExpectedEvent(kind, decoded(item[kind]), item.location)


# By the name of the argument, whatever the operation: the format gives these names one meaning.
_PARTS: Final[Mapping[str, Callable[[Marked], Any]]] = {
    "callback": _listed("operation", operation),
    "operations": _listed("operation", _entity_operation),
    "operation": _checked("operation", _entity_operation),
    "entities": _listed("entity", entity, at_least=1),
    "event": _checked("event", expected_event),
}
"""Arguments of `withTransaction`, `loop`, `runOnThread`, `createEntities`, `waitForEvent`."""

_PARTS_OF: Final[Mapping[str, Mapping[str, Callable[[Marked], Any]]]] = {
    "repeat": {"operations": _listed("operation", operation, at_least=1)},
}
"""Arguments of single operations that differ from those of all others under their name.

`repeat` is our own: it repeats the runner's operations, too, such as setting a fail point anew.
"""


def decoded(item: Marked) -> Any:
    """Return a value with its Extended JSON decoded; documents and lists are new ones.

    Raises `ScenarioError` for Extended JSON that is malformed.
    """
    try:
        return _decode(item.value)
    except (TypeError, ValueError, KeyError, ArithmeticError, BSONError) as error:
        raise ScenarioError(f"wrong Extended JSON: {error}", location=item.location) from error


def _decode(value: Any) -> Any:
    """Return a plain value with BSON values in the place of Extended JSON, without changing it.

    Members are decoded before their document, so `object_hook` meets what it would meet in a JSON parser.
    """
    if isinstance(value, dict):
        members = {name: _decode(member) for name, member in value.items()}
        # A document of Extended JSON begins with a dollar. So do special operators, with two, and the query
        # operators, of which $regex is also the name of a legacy form.
        first = next(iter(members), "")
        extended = first.startswith("$") and not first.startswith("$$") and first != "$regex"
        return json_util.object_hook(members, _EXTENDED_JSON) if extended else members
    if isinstance(value, list):
        return [_decode(element) for element in value]
    return value
