"""The formats as tables: every object and its fields. What is not in them is an error that names it.

Server Discovery and Monitoring, Server Selection, Max Staleness, Connection String, URI Options,
Authentication, Read and Write Concern and Connection Monitoring and Pooling: the formats of their tests.

These formats are defined by prose. A field that nobody reads, such as a misspelt expectation, would leave a
case that passes untested: so all that is not in a table is refused. A table is JSON Schema, written in the
notation of the unified format and explained by the same module, so that mistakes read alike in all formats.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from harness.formats import UNIFIED
from harness.unified import schema
from harness.unified.schema.explanation import beyond_64_bits, explain, in_order
from harness.unified.schema.grammar import MINOR_MAX, REQUIREMENT
from harness.unified.schema.notation import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    OBJECT,
    STRING,
    array,
    choice,
    record,
    schema_of,
    word,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.formats import Format
    from harness.unified.errors import ScenarioError
    from harness.unified.schema.notation import Schema
    from mongowire.documents.marks import Marked


def check(document: Marked, of: Format) -> None:
    """Raise `ScenarioError` for the first thing in a file that its format does not allow."""
    found = mistakes(document, of)
    if found:
        raise found[0]


def mistakes(document: Marked, of: Format) -> list[ScenarioError]:
    """Return all that its format does not allow in a file, in its order."""
    if of is UNIFIED:
        return schema.mistakes(document)
    problems = _validator(of.name).iter_errors(document.value)
    # A number beyond 64 bits is no BSON; JSON Schema has no word for that, so that it is looked for beside
    # it.
    found = explain(document, problems, lambda _: SCHEMAS[of.name])
    return in_order([*found, *beyond_64_bits(document)])


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    """Compile a schema, once in a process: folders hold hundreds of files of one format."""
    return jsonschema_rs.Draft202012Validator(SCHEMAS[name])


def _nullable(kind: str) -> dict[str, Any]:
    return {"type": [kind, "null"]}


def _mapping(values: Schema) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _where(field: str, value: Any, then: Schema) -> dict[str, Any]:
    """Return a condition: where a field has a value, the object is what `then` says.

    The branch is read only for objects that have the value, so that a mistake is told in the terms of that
    kind of object, and not of all kinds.
    """
    return {"if": {"properties": {field: {"const": value}}, "required": [field]}, "then": then}


NUMBER: Final[Schema] = {"type": "number"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
INT64: Final[Schema] = {"type": ["integer", "object"]}
"""An integer, or one in extended JSON."""

# --- Connection Monitoring and Pooling ---

POOL_EVENTS: Final = (
    "ConnectionPoolCreated",
    "ConnectionPoolReady",
    "ConnectionPoolCleared",
    "ConnectionPoolClosed",
    "ConnectionCreated",
    "ConnectionReady",
    "ConnectionClosed",
    "ConnectionCheckOutStarted",
    "ConnectionCheckOutFailed",
    "ConnectionCheckedOut",
    "ConnectionCheckedIn",
)

# A later operation of the specification has to be entered here and in both runners of `cmap`.
POOL_OPERATIONS: Final[Mapping[str, tuple[Mapping[str, Schema], tuple[str, ...]]]] = {
    "start": ({"target": STRING}, ("target",)),
    "wait": ({"ms": COUNT}, ("ms",)),
    "waitForThread": ({"target": STRING}, ("target",)),
    "waitForEvent": ({"event": word(*POOL_EVENTS), "count": COUNT, "timeout": COUNT}, ("event", "count")),
    "checkOut": ({"label": STRING}, ()),
    "checkIn": ({"connection": STRING}, ("connection",)),
    "clear": ({"interruptInUseConnections": BOOLEAN}, ()),
    "close": ({}, ()),
    "ready": ({}, ()),
}
"""The operations on a pool: the arguments of each, and those that it needs."""


def _pool_operation() -> Schema:
    about = {"name": STRING, "thread": STRING}
    return {
        "type": "object",
        "required": ["name"],
        "properties": {"name": word(*POOL_OPERATIONS)},
        "allOf": [
            _where("name", name, record({**about, **fields}, required))
            for name, (fields, required) in POOL_OPERATIONS.items()
        ],
    }


_CMAP: Final = record(
    {
        "version": {"type": "integer", "const": 1},
        "style": word("unit", "integration"),
        "description": STRING,
        "runOn": array(schema_of(REQUIREMENT, MINOR_MAX)),
        "failPoint": {"type": "object", "required": ["configureFailPoint", "mode"]},
        "poolOptions": record(
            {
                "maxPoolSize": COUNT,
                "minPoolSize": COUNT,
                "maxConnecting": {"type": "integer", "minimum": 1},
                "maxIdleTimeMS": COUNT,
                "waitQueueTimeoutMS": COUNT,
                # Negative where no background thread shall run, unlike the other times.
                "backgroundThreadIntervalMS": INTEGER,
                "appName": STRING,
            }
        ),
        "operations": array(_pool_operation()),
        "error": record(
            {
                "type": word("PoolClosedError", "PoolClearedError", "WaitQueueTimeoutError"),
                "message": STRING,
                "address": ANYTHING,
            },
            ("type",),
        ),
        "events": array(
            record(
                {
                    "type": word(*POOL_EVENTS),
                    **dict.fromkeys(
                        (
                            *("address", "connectionId", "duration", "interruptInUseConnections"),
                            *("options", "reason"),
                        ),
                        ANYTHING,
                    ),
                    # Ours: public files say of durations only that they are there.
                    "pushbackd": record({"durationMS": record({"min": NUMBER, "max": NUMBER}, ("min",))}),
                },
                ("type",),
            )
        ),
        "ignore": array(word(*POOL_EVENTS)),
    },
    ("version", "style", "description", "operations", "events"),
)

# --- Server Discovery and Monitoring ---

TOPOLOGY_TYPES: Final = (
    "Single",
    "ReplicaSetNoPrimary",
    "ReplicaSetWithPrimary",
    "Sharded",
    "LoadBalanced",
    "Unknown",
)
SERVER_TYPES: Final = (
    *("Standalone", "Mongos", "PossiblePrimary", "RSPrimary", "RSSecondary", "RSArbiter", "RSOther"),
    *("RSGhost", "LoadBalancer", "Unknown"),
)

_OBJECT_ID: Final[Schema] = {"type": ["object", "null"]}
_SERVER_FIELDS: Final[Mapping[str, Schema]] = {
    "type": word(*SERVER_TYPES),
    "setName": _nullable("string"),
    "setVersion": _nullable("integer"),
    "electionId": _OBJECT_ID,
    "logicalSessionTimeoutMinutes": _nullable("integer"),
    "minWireVersion": _nullable("integer"),
    "maxWireVersion": _nullable("integer"),
    "topologyVersion": _nullable("object"),
    "primary": _nullable("string"),
}

_APPLICATION_ERROR: Final = {
    **record(
        {
            "address": STRING,
            "generation": COUNT,
            "maxWireVersion": INTEGER,
            "when": word("beforeHandshakeCompletes", "afterHandshakeCompletes"),
            "type": word("command", "network", "timeout"),
            "response": OBJECT,
        },
        ("address", "when", "type"),
    ),
    **_where("type", "command", {"required": ["response"]}),
}

_DESCRIBED_SERVER: Final = record(
    {
        **_SERVER_FIELDS,
        "address": STRING,
        **dict.fromkeys(("hosts", "passives", "arbiters"), array(STRING)),
    },
    ("address", "type", "hosts", "passives", "arbiters"),
)
_DESCRIBED_TOPOLOGY: Final = record(
    {
        "topologyType": word(*TOPOLOGY_TYPES),
        "setName": _nullable("string"),
        "servers": array(_DESCRIBED_SERVER),
    },
    ("topologyType", "servers"),
)


def _discovery_event(described: Schema | None = None, **fields: Schema) -> Schema:
    """Return an event; one that tells of a change has the description before and the one after."""
    changes = {"previousDescription": described, "newDescription": described} if described else {}
    return record({"topologyId": ANYTHING, **fields, **changes}, tuple(changes))


_DISCOVERY_EVENT: Final = choice(
    {
        "topology_opening_event": _discovery_event(),
        "topology_closed_event": _discovery_event(),
        "topology_description_changed_event": _discovery_event(_DESCRIBED_TOPOLOGY),
        "server_opening_event": _discovery_event(address=STRING),
        "server_closed_event": _discovery_event(address=STRING),
        "server_description_changed_event": _discovery_event(_DESCRIBED_SERVER, address=STRING),
    }
)
# An outcome of a phase has a state, or events, or both. Of a state at least the type and the servers must
# stand there, because the runner compares these first.
_OUTCOME: Final = record(
    {
        "topologyType": word(*TOPOLOGY_TYPES),
        "setName": _nullable("string"),
        "maxSetVersion": _nullable("integer"),
        "maxElectionId": _OBJECT_ID,
        "logicalSessionTimeoutMinutes": _nullable("integer"),
        "compatible": BOOLEAN,
        "servers": _mapping(
            record({**_SERVER_FIELDS, "error": STRING, "pool": record({"generation": COUNT})}, ("type",))
        ),
        "events": array(_DISCOVERY_EVENT),
    },
    at_least=1,
    dependentRequired={
        name: ["topologyType", "servers"]
        for name in (
            *("topologyType", "servers", "setName", "maxSetVersion", "maxElectionId"),
            *("logicalSessionTimeoutMinutes", "compatible"),
        )
    },
)

_SDAM: Final = record(
    {
        "description": STRING,
        "uri": STRING,
        "phases": array(
            record(
                {
                    "description": STRING,
                    "responses": array(
                        # A pair, of the server's address and its reply to hello; an empty reply stands for a
                        # network error.
                        {"type": "array", "prefixItems": [STRING, OBJECT], "minItems": 2, "maxItems": 2}
                    ),
                    "applicationErrors": array(_APPLICATION_ERROR),
                    "outcome": _OUTCOME,
                },
                ("outcome",),
            ),
            at_least=1,
        ),
    },
    ("description", "uri", "phases"),
)

# --- Server Selection, Max Staleness ---

_SELECTABLE: Final = record(
    {
        "address": STRING,
        "type": word(*SERVER_TYPES),
        "avg_rtt_ms": NUMBER,
        "tags": _mapping(STRING),
        "lastUpdateTime": INTEGER,
        "lastWrite": record({"lastWriteDate": INT64}, ("lastWriteDate",)),
        "maxWireVersion": INTEGER,
    },
    ("address", "type"),
)
_TOPOLOGY: Final = record({"type": word(*TOPOLOGY_TYPES), "servers": array(_SELECTABLE)}, ("type", "servers"))
_READ_MODES: Final = ("Primary", "PrimaryPreferred", "Secondary", "SecondaryPreferred", "Nearest")
_LISTED: Final = ("suitable_servers", "in_latency_window")

_SERVER_SELECTION: Final = {
    **record(
        {
            "description": STRING,
            "heartbeatFrequencyMS": COUNT,
            "topology_description": _TOPOLOGY,
            "operation": word("read", "write"),
            "read_preference": record(
                {
                    "mode": word(*_READ_MODES),
                    "tag_sets": array(_mapping(STRING)),
                    "maxStalenessSeconds": NUMBER,
                }
            ),
            "error": BOOLEAN,
            **dict.fromkeys((*_LISTED, "deprioritized_servers"), array(_SELECTABLE)),
        },
        ("topology_description",),
    ),
    "if": {"properties": {"error": {"const": True}}, "required": ["error"]},
    "else": {"required": [*_LISTED]},
}

_IN_WINDOW: Final = record(
    {
        "description": STRING,
        "topology_description": _TOPOLOGY,
        "mocked_topology_state": array(
            record({"address": STRING, "operation_count": COUNT}, ("address", "operation_count"))
        ),
        "iterations": {"type": "integer", "minimum": 1},
        "outcome": record(
            {"tolerance": NUMBER, "expected_frequencies": _mapping(NUMBER)},
            ("tolerance", "expected_frequencies"),
        ),
    },
    ("topology_description", "mocked_topology_state", "iterations", "outcome"),
)

_RTT: Final = record(
    {
        "description": STRING,
        # A number, or the text "NULL" for the first measurement.
        "avg_rtt_ms": {"type": ["number", "string"], "if": STRING, "then": word("NULL")},
        "new_rtt_ms": NUMBER,
        "new_avg_rtt": NUMBER,
    },
    ("avg_rtt_ms", "new_rtt_ms", "new_avg_rtt"),
)

# --- Connection String, URI Options, Authentication, Read and Write Concern ---


def _tests(fields: Mapping[str, Schema], required: Sequence[str], **more: Any) -> Schema:
    """Return a file whose cases are listed."""
    case = record({"description": STRING, "valid": BOOLEAN, **fields}, ("description", "valid", *required))
    return record({"description": STRING, "tests": array({**case, **more}, at_least=1)}, ("tests",))


def _nullable_record(fields: Mapping[str, Schema]) -> Schema:
    return {**record(fields, tuple(fields)), "type": ["object", "null"]}


_CONNECTION_STRING: Final = _tests(
    {
        "uri": STRING,
        "warning": _nullable("boolean"),
        "hosts": {
            "type": ["array", "null"],
            "items": record(
                {
                    "type": word("hostname", "ipv4", "ip_literal", "unix"),
                    "host": STRING,
                    "port": _nullable("integer"),
                },
                ("type", "host"),
            ),
        },
        "auth": _nullable_record(dict.fromkeys(("username", "password", "db"), _nullable("string"))),
        "options": _nullable("object"),
        "credential": _nullable_record(
            {
                **dict.fromkeys(("username", "password", "source", "mechanism"), _nullable("string")),
                "mechanism_properties": _nullable("object"),
            }
        ),
        "readConcern": OBJECT,
        "writeConcern": OBJECT,
    },
    ("uri",),
)

_CONCERN: Final = _tests(
    {
        "readConcern": OBJECT,
        "readConcernDocument": OBJECT,
        "writeConcern": OBJECT,
        "writeConcernDocument": _nullable("object"),
        "isServerDefault": _nullable("boolean"),
        "isAcknowledged": _nullable("boolean"),
    },
    (),
    allOf=[
        {
            "if": {"properties": {"valid": {"const": True}}, "required": [concern]},
            "then": {"required": [f"{concern}Document"]},
        }
        for concern in ("readConcern", "writeConcern")
    ],
)

SCHEMAS: Final[Mapping[str, Schema]] = {
    "cmap": _CMAP,
    "sdam": _SDAM,
    "server-selection": _SERVER_SELECTION,
    "in-window": _IN_WINDOW,
    "rtt": _RTT,
    "connection-string": _CONNECTION_STRING,
    "concern": _CONCERN,
}
"""JSON Schema of every format but the unified one, by its name."""
