"""The unified test format as a table: every object, its fields, and the schema version that brought each.

Unified Test Format: Test Format.

The table holds what the public schemas of all minor versions say, and two keys of our own that those do not
have: `pushbackd` of a case and of a client. Reading order is from the leaves (a requirement, an entity, an
operation) to `CASE` and `FILE` at the end. `Since` marks what a version brought; what stands bare was in 1.0.
A part that the format itself leaves open, arguments above all, is `OBJECT` or `ANYTHING` here and judged
later, by `PARTS` or by lint.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from harness.unified.schema.events import COMMAND_EVENTS, EVENTS, LOG_LEVELS, POOL_EVENTS, SDAM_EVENTS
from harness.unified.schema.notation import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    OBJECT,
    STRING,
    VERSION,
    Since,
    array,
    choice,
    exclusive,
    record,
    schema_of,
    word,
)
from harness.unified.schema.server_side import SERVER_SIDE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.unified.schema.notation import Schema

MINOR_MAX: Final = 28
"""The newest minor version of the format that is understood."""

REQUIREMENT: Final[Schema] = record(
    {
        "minServerVersion": VERSION,
        "maxServerVersion": VERSION,
        "topologies": array(
            word("single", "replicaset", "sharded", "sharded-replicaset", Since(3, "load-balanced")),
            at_least=1,
        ),
        "serverParameters": Since(1, {"type": "object", "minProperties": 1}),
        "auth": Since(3, BOOLEAN),
        "serverless": Since(4, word("require", "forbid", "allow")),
        "csfle": Since(
            8,
            {
                "type": ["boolean", Since(25, "object")],
                "additionalProperties": False,
                "minProperties": 1,
                "properties": {"minLibmongocryptVersion": Since(25, VERSION)},
            },
        ),
        "authMechanism": Since(19, STRING),
    },
    at_least=1,
)

_OBSERVABLE: Final[Schema] = word(
    *COMMAND_EVENTS,
    *(Since(3, name) for name in POOL_EVENTS),
    Since(10, "serverDescriptionChangedEvent"),
    Since(14, "topologyDescriptionChangedEvent"),
    Since(20, "topologyOpeningEvent"),
    Since(20, "topologyClosedEvent"),
)
# Stored events have the names of their specifications, which begin with a capital.
_STORABLE: Final[Schema] = word(
    *(name[0].upper() + name[1:] for name in (*COMMAND_EVENTS, *POOL_EVENTS)),
    Since(10, "ServerDescriptionChangedEvent"),
    Since(14, "TopologyDescriptionChangedEvent"),
)

_LEVEL: Final[Schema] = word(*LOG_LEVELS)
_COMPONENTS: Final = ("command", "topology", "serverSelection", "connection")

# A credential, or the placeholder in its stead. uriOptions may have one too, and are open to any value here.
_SECRET: Final[Schema] = {
    "type": ["string", "object"],
    "properties": {"$$placeholder": ANYTHING},
    "additionalProperties": False,
    "required": ["$$placeholder"],
}


def _provider(*fields: str, or_token: bool = False) -> dict[str, Any]:
    """Return a KMS provider's credentials, or in their place a ready-made access token."""
    properties: dict[str, Schema] = dict.fromkeys(fields, _SECRET)
    if not or_token:
        return record(properties)
    # A token stands in place of the other credentials; a file with both would not say which the driver uses.
    alone = exclusive(("accessToken", fields))
    return record({**properties, "accessToken": Since(28, _SECRET)}, **alone)


_PROVIDERS: Final[Mapping[str, Schema]] = {
    "aws": _provider("accessKeyId", "secretAccessKey", "sessionToken"),
    "azure": _provider("tenantId", "clientId", "clientSecret", "identityPlatformEndpoint", or_token=True),
    "gcp": _provider("email", "privateKey", "endpoint", or_token=True),
    "kmip": _provider("endpoint"),
    "local": _provider("key"),
}
_KMS_PROVIDERS: Final[Schema] = {
    "type": "object",
    "properties": dict(_PROVIDERS),
    "patternProperties": {
        f"^{name}:[a-zA-Z0-9_]+$": Since(18, provider) for name, provider in _PROVIDERS.items()
    },
    "additionalProperties": False,
}

_COLLECTION_OR_DATABASE_OPTIONS: Final[Schema] = record(
    {
        "readConcern": OBJECT,
        "readPreference": OBJECT,
        "writeConcern": OBJECT,
        "timeoutMS": Since(9, INTEGER),
    }
)

_AUTO_ENCRYPT_OPTS: Final[Schema] = record(
    {
        "keyVaultNamespace": STRING,
        "kmsProviders": _KMS_PROVIDERS,
        "bypassAutoEncryption": BOOLEAN,
        "bypassQueryAnalysis": BOOLEAN,
        "schemaMap": {"type": "object", "additionalProperties": OBJECT},
        "encryptedFieldsMap": {"type": "object", "additionalProperties": OBJECT},
        "extraOptions": OBJECT,
        "keyExpirationMS": INTEGER,
    },
    ("keyVaultNamespace", "kmsProviders"),
)

_CLIENT_FIELDS: Final[Mapping[str, Schema]] = {
    "id": STRING,
    "uriOptions": OBJECT,
    "useMultipleMongoses": BOOLEAN,
    "ignoreCommandMonitoringEvents": array(STRING, at_least=1),
    "serverApi": Since(
        1, record({"version": STRING, "strict": BOOLEAN, "deprecationErrors": BOOLEAN}, ("version",))
    ),
    "storeEventsAsEntities": Since(
        2,
        array(record({"id": STRING, "events": array(_STORABLE, at_least=1)}, ("id", "events")), at_least=1),
    ),
    "observeSensitiveCommands": Since(5, BOOLEAN),
    "observeLogMessages": Since(13, record(dict.fromkeys(_COMPONENTS, _LEVEL), at_least=1)),
    "autoEncryptOpts": Since(23, _AUTO_ENCRYPT_OPTS),
    "awaitMinPoolSizeMS": Since(26, INTEGER),
    "observeTracingMessages": Since(27, record({"enableCommandPayload": BOOLEAN})),
    "pushbackd": record({"jitter": {"enum": [0, 1, "seeded"]}}, at_least=1),
}


def _client(observable: Schema) -> dict[str, Any]:
    """Return the schema of a client entity.

    Which events may be observed depends on where the client stands: in a file by its version, within
    operations all of them (`PARTS`).
    """
    return record({**_CLIENT_FIELDS, "observeEvents": array(observable, at_least=1)}, ("id",))


_CLIENT_ENCRYPTION: Final[Schema] = record(
    {
        "id": STRING,
        "clientEncryptionOpts": record(
            {
                "keyVaultClient": STRING,
                "keyVaultNamespace": STRING,
                "kmsProviders": _KMS_PROVIDERS,
                "keyExpirationMS": Since(22, INTEGER),
            },
            ("keyVaultClient", "keyVaultNamespace", "kmsProviders"),
        ),
    },
    ("id", "clientEncryptionOpts"),
)

_ENTITIES: Final[Mapping[str, Schema]] = {
    "database": record(
        {
            "id": STRING,
            "client": STRING,
            "databaseName": STRING,
            "databaseOptions": _COLLECTION_OR_DATABASE_OPTIONS,
        },
        ("id", "client", "databaseName"),
    ),
    "collection": record(
        {
            "id": STRING,
            "database": STRING,
            "collectionName": STRING,
            "collectionOptions": _COLLECTION_OR_DATABASE_OPTIONS,
        },
        ("id", "database", "collectionName"),
    ),
    "session": record({"id": STRING, "client": STRING, "sessionOptions": OBJECT}, ("id", "client")),
    "bucket": record({"id": STRING, "database": STRING, "bucketOptions": OBJECT}, ("id", "database")),
    "clientEncryption": Since(8, _CLIENT_ENCRYPTION),
    "thread": Since(10, record({"id": STRING}, ("id",))),
}
ENTITY: Final[Schema] = choice({"client": _client(_OBSERVABLE), **_ENTITIES})

COLLECTION_DATA: Final[Schema] = record(
    {
        "collectionName": STRING,
        "databaseName": STRING,
        # Without a write concern: the runner sets its own, a majority.
        "createOptions": Since(9, {"type": "object", "properties": {"writeConcern": False}}),
        "documents": array(OBJECT),
    },
    ("collectionName", "databaseName", "documents"),
)

EXPECTED_ERROR: Final[Schema] = record(
    {
        "isError": {"type": "boolean", "const": True},
        "isClientError": BOOLEAN,
        "isTimeoutError": Since(9, BOOLEAN),
        "errorContains": STRING,
        "errorCode": INTEGER,
        "errorCodeName": STRING,
        "errorLabelsContain": array(STRING, at_least=1),
        "errorLabelsOmit": array(STRING, at_least=1),
        "errorResponse": Since(12, OBJECT),
        "writeErrors": Since(21, OBJECT),
        "writeConcernErrors": Since(21, array(OBJECT)),
        "expectResult": ANYTHING,
    },
    at_least=1,
)

OPERATION: Final[Schema] = record(
    {
        "name": STRING,
        "object": STRING,
        "arguments": OBJECT,
        "ignoreResultAndError": Since(3, BOOLEAN),
        "expectError": EXPECTED_ERROR,
        "expectResult": ANYTHING,
        "saveResultAsEntity": STRING,
    },
    ("name", "object"),
    **exclusive(
        ("expectError", ("expectResult", "saveResultAsEntity")),
        ("ignoreResultAndError", ("expectResult", "expectError", "saveResultAsEntity")),
    ),
)


def _when_type_is(name: str) -> dict[str, Any]:
    """Return a condition: with this `eventType` (or without any: command) only its events are allowed."""
    # Without eventType the events are those of commands, so that condition must hold for an absent key too.
    required = [] if name == "command" else ["eventType"]
    return {
        "if": {"properties": {"eventType": {"const": name}}, "required": required},
        "then": {"properties": {"events": array(EVENTS[name])}},
    }


EXPECTED_EVENTS: Final[Schema] = record(
    {
        "client": STRING,
        "eventType": Since(3, word("command", "cmap", Since(10, "sdam"))),
        # An empty list is allowed and asserts that nothing was observed; what is in it depends on eventType,
        # below.
        "events": {"type": "array"},
        "ignoreExtraEvents": Since(7, BOOLEAN),
    },
    ("client", "events"),
    allOf=[_when_type_is("command"), Since(3, _when_type_is("cmap")), Since(10, _when_type_is("sdam"))],
)

_LOG_MESSAGE: Final[Schema] = record(
    {"level": _LEVEL, "component": word(*_COMPONENTS), "data": OBJECT, "failureIsRedacted": BOOLEAN},
    ("level", "component", "data"),
)
_EXPECTED_LOGS: Final[Schema] = record(
    {
        "client": STRING,
        "messages": array(_LOG_MESSAGE),
        "ignoreMessages": Since(16, array(_LOG_MESSAGE)),
        "ignoreExtraMessages": Since(16, BOOLEAN),
    },
    ("client", "messages"),
)

_SPAN: Final[Schema] = record(
    {"name": STRING, "attributes": OBJECT, "nested": array({"$ref": "#/definitions/span"}, at_least=1)},
    ("name", "attributes"),
)
_EXPECTED_SPANS: Final[Schema] = record(
    {
        "client": STRING,
        "ignoreExtraSpans": BOOLEAN,
        "spans": array({"$ref": "#/definitions/span"}, at_least=1),
    },
    ("client", "spans"),
)

CASE: Final[Schema] = record(
    {
        "description": STRING,
        "runOnRequirements": array(REQUIREMENT, at_least=1),
        "skipReason": STRING,
        "operations": array(OPERATION),
        "expectEvents": array(EXPECTED_EVENTS, at_least=1),
        "expectLogMessages": Since(13, array(_EXPECTED_LOGS, at_least=1)),
        "expectTracingMessages": Since(27, array(_EXPECTED_SPANS, at_least=1)),
        # Has createOptions as initialData do, though nothing is created from them.
        "outcome": array(COLLECTION_DATA, at_least=1),
        "pushbackd": SERVER_SIDE,
    },
    ("description", "operations"),
)

FILE: Final[Schema] = record(
    {
        "description": STRING,
        "schemaVersion": VERSION,
        "runOnRequirements": array(REQUIREMENT, at_least=1),
        "createEntities": array(ENTITY, at_least=1),
        "initialData": array(COLLECTION_DATA, at_least=1),
        "tests": array(CASE, at_least=1),
        "_yamlAnchors": Since(1, OBJECT),
    },
    ("description", "schemaVersion", "tests"),
    # Spans hold spans, which only a reference can say.
    definitions={"span": _SPAN},
)


_ANY_EVENT: Final = word(*COMMAND_EVENTS, *POOL_EVENTS, *SDAM_EVENTS)

PARTS: Final[Mapping[str, Schema]] = {
    "operation": OPERATION,
    "entity": choice({"client": _client(_ANY_EVENT), **_ENTITIES}),
    "event": choice(
        {name: body for events in EVENTS.values() for name, body in events["properties"].items()}
    ),
}
"""What may stand in the arguments of operations, where the format itself does not look.

There a client may observe every event: the only way in which public files observe heartbeats.
"""


@cache
def part_schema(name: str, minor: int = MINOR_MAX) -> dict[str, Any]:
    """Return the JSON Schema of one of `PARTS`."""
    schema: dict[str, Any] = schema_of(PARTS[name], minor)
    return schema


@cache
def file_schema(minor: int) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file that declares version 1.`minor`."""
    schema: dict[str, Any] = schema_of(FILE, minor)
    return schema
