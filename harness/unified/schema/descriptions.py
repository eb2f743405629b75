"""A sentence for every field of the format: what an editor shows beside it.

A field is known by its name, or, where names have several meanings, by the names of the fields above it and
its own (`expectError.expectResult`): the longest entry that fits counts.

Editors get these by way of the JSON Schema that `pushbackd schema` prints. They are not part of the table in
`grammar`, so that the table can be read as one: a field there is a line, and its sentence is looked up by its
path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMMAND: Final = "Command of the event, matched as a root document."
_SECRET: Final = "Credential: a string, or {$$placeholder: 1} for that of the environment."  # noqa: S105

DESCRIPTIONS: Final[Mapping[str, str]] = {
    # The file.
    "description": "Name of the file in reports.",
    "schemaVersion": 'Version of the unified test format, as "1.0"; the lowest that has all that is used.',
    "runOnRequirements": "Servers on which the cases run: one element must hold. Elsewhere they are skipped.",
    "createEntities": "Entities that each case gets anew, in order of creation.",
    "initialData": "Collections and documents that are in place before each case.",
    "tests": "The cases of the file.",
    "_yamlAnchors": "Anchors that the file uses elsewhere; no runner reads them.",
    # Requirements.
    "minServerVersion": "Lowest version of the server.",
    "maxServerVersion": "Highest version of the server; 5.0 admits all 5.0 releases.",
    "topologies": "Kinds of deployment.",
    "serverParameters": "Server parameters with the values that they must have.",
    "auth": "Whether authentication must be enabled, or must not be.",
    "authMechanism": "Authentication mechanism that the server must offer.",
    "serverless": "Whether the deployment must be serverless, or must not be.",
    "csfle": "Whether client-side field level encryption must be available.",
    "minLibmongocryptVersion": "Lowest version of libmongocrypt.",
    # Entities.
    "client": "Name of the client entity.",
    "database": "Name of the database entity.",
    "id": "Name of the entity, unique in its case.",
    "createEntities.client": "A client.",
    "createEntities.database": "A database of a client.",
    "createEntities.collection": "A collection of a database.",
    "createEntities.session": "An explicit session of a client.",
    "createEntities.bucket": "A GridFS bucket of a database.",
    "createEntities.clientEncryption": "An entity for explicit client-side encryption.",
    "createEntities.thread": "A thread that runs operations beside the others.",
    "databaseName": "Name of the database.",
    "databaseOptions": "Options of the database.",
    "collectionName": "Name of the collection.",
    "collectionOptions": "Options of the collection.",
    "sessionOptions": "Options of the session: causalConsistency, snapshot, defaultTransactionOptions …",
    "bucketOptions": "Options of the bucket: bucketName, chunkSizeBytes …",
    "readConcern": "Read concern: level.",
    "readPreference": "Read preference: mode, tagSets, maxStalenessSeconds, hedge.",
    "writeConcern": "Write concern: w, journal, wtimeoutMS.",
    "timeoutMS": "Client-side operation timeout, in milliseconds.",
    # Clients.
    "client.pushbackd": "Settings of the client that are pushbackd's own.",
    "client.pushbackd.jitter": "Jitter of its backoffs: 0 for no wait, 1 for the longest, seeded.",
    "uriOptions": "Options of the connection string, by their names there.",
    "useMultipleMongoses": "Whether the client connects to all mongos, where there are several.",
    "observeEvents": "Kinds of events that expectEvents may speak of.",
    "ignoreCommandMonitoringEvents": "Commands whose events are left out.",
    "observeSensitiveCommands": "Whether events of commands for authentication are observed.",
    "observeLogMessages": "Log messages to observe: for each component, the least severe level.",
    "observeLogMessages.command": "Least severe level of command logging.",
    "observeLogMessages.connection": "Least severe level of connection (CMAP) logging.",
    "observeLogMessages.serverSelection": "Least severe level of server selection logging.",
    "observeLogMessages.topology": "Least severe level of discovery and monitoring (SDAM) logging.",
    "observeTracingMessages": "Observes OpenTelemetry spans.",
    "enableCommandPayload": "Whether spans carry the text of commands.",
    "storeEventsAsEntities": "Lists of events that outlive the client, as entities.",
    "storeEventsAsEntities.events": "Kinds of events to store.",
    "awaitMinPoolSizeMS": "Time to wait for minPoolSize connections in each pool, in milliseconds.",
    "serverApi": "Server API version that the client declares.",
    "serverApi.version": "Server API version.",
    "serverApi.strict": "Whether commands outside of the API fail.",
    "serverApi.deprecationErrors": "Whether deprecated commands fail.",
    # Client-side encryption.
    "autoEncryptOpts": "Options of automatic client-side encryption.",
    "clientEncryptionOpts": "Options of explicit client-side encryption.",
    "bypassAutoEncryption": "Whether commands are not encrypted.",
    "bypassQueryAnalysis": "Whether commands are not analysed for encryption.",
    "encryptedFieldsMap": "Encrypted fields, by namespace.",
    "schemaMap": "JSON Schemas with encryption keywords, by namespace.",
    "extraOptions": "Options of mongocryptd and of crypt_shared.",
    "keyExpirationMS": "Time for which data keys are cached, in milliseconds.",
    "keyVaultClient": "Name of the client entity of the key vault.",
    "keyVaultNamespace": "Namespace of the key vault: database.collection.",
    "kmsProviders": "KMS providers with their credentials.",
    **dict.fromkeys(
        (
            *("accessKeyId", "secretAccessKey", "sessionToken", "tenantId", "clientId", "clientSecret"),
            *("identityPlatformEndpoint", "email", "privateKey", "endpoint", "key", "accessToken"),
        ),
        _SECRET,
    ),
    "aws": "Amazon Web Services KMS.",
    "azure": "Azure Key Vault.",
    "gcp": "Google Cloud KMS.",
    "kmip": "A KMIP server.",
    "local": "A local master key.",
    "$$placeholder": "Takes the value from the environment.",
    # Data.
    "documents": "Documents of the collection.",
    "createOptions": "Options with which the collection is created.",
    # Cases.
    "tests.description": "Name of the case, unique in its file.",
    "tests.runOnRequirements": "Servers on which the case runs, besides those of the file.",
    "skipReason": "Reason for which the case is skipped, everywhere.",
    "operations": "Operations of the case, in order.",
    "expectEvents": "Events that clients must have observed after the operations.",
    "expectLogMessages": "Log messages that clients must have written after the operations.",
    "expectTracingMessages": "Spans that clients must have ended after the operations.",
    "outcome": "Documents that the collections must hold at the end, to the letter.",
    # Operations.
    "operations.name": "Name of the operation.",
    "object": "Name of the entity on which it is run, or testRunner.",
    "arguments": "Arguments of the operation, by name.",
    "expectResult": "Value that the operation must return.",
    "expectError": "The operation must fail, with an error that has all of this.",
    "ignoreResultAndError": "Whether neither result nor error matters.",
    "saveResultAsEntity": "Name under which the result is kept.",
    "isError": "The operation must fail, with any error.",
    "isClientError": "Whether the error came from the driver, not from a server.",
    "isTimeoutError": "Whether the error is a timeout of timeoutMS.",
    "errorContains": "Text in the message, in any case of letters.",
    "errorCode": "Code of the error.",
    "errorCodeName": "Name of the code of the error.",
    "errorLabelsContain": "Labels that the error must have.",
    "errorLabelsOmit": "Labels that the error must not have.",
    "errorResponse": "Reply of the server, matched as a root document.",
    "writeErrors": "Write errors of clientBulkWrite, by index.",
    "writeConcernErrors": "Write concern errors of clientBulkWrite, in order.",
    "expectError.expectResult": "Partial result that the error must carry.",
    # Events.
    "eventType": "Kind of events: command, cmap or sdam; without it command.",
    "events": "Events in order; only fields that are given are compared.",
    "ignoreExtraEvents": "Whether further events may follow the expected ones.",
    "commandStartedEvent": "A command was sent.",
    "commandSucceededEvent": "A command was answered with ok: 1.",
    "commandFailedEvent": "A command was answered with ok: 0, or its connection failed.",
    "commandName": "Name of the command.",
    "command": _COMMAND,
    "reply": "Reply of the server, matched as a root document.",
    "hasServiceId": "Whether the event has a serviceId, as behind a load balancer.",
    "hasServerConnectionId": "Whether the event has the server's number of the connection.",
    "poolCreatedEvent": "A pool was created.",
    "poolReadyEvent": "A pool was marked ready.",
    "poolClearedEvent": "A pool was cleared.",
    "poolClosedEvent": "A pool was closed.",
    "connectionCreatedEvent": "A connection object was created, and is to be established.",
    "connectionReadyEvent": "A connection was established.",
    "connectionClosedEvent": "A connection was closed.",
    "connectionCheckOutStartedEvent": "A check-out began.",
    "connectionCheckOutFailedEvent": "A check-out failed.",
    "connectionCheckedOutEvent": "A connection was checked out.",
    "connectionCheckedInEvent": "A connection was checked in.",
    "interruptInUseConnections": "Whether connections in use were interrupted.",
    "reason": "Reason, in the word of the specification.",
    "serverDescriptionChangedEvent": "The description of a server changed.",
    "topologyDescriptionChangedEvent": "The description of the topology changed.",
    "topologyOpeningEvent": "A topology was opened.",
    "topologyClosedEvent": "A topology was closed.",
    "serverHeartbeatStartedEvent": "A heartbeat was sent.",
    "serverHeartbeatSucceededEvent": "A heartbeat was answered.",
    "serverHeartbeatFailedEvent": "A heartbeat failed.",
    "awaited": "Whether the heartbeat was one for which the server waits.",
    "previousDescription": "Description before the change.",
    "newDescription": "Description after the change.",
    "type": "ServerType or TopologyType, as in Server Discovery and Monitoring.",
    # Log messages and spans.
    "messages": "Log messages in order.",
    "ignoreMessages": "Log messages that are left out of the comparison.",
    "ignoreExtraMessages": "Whether further messages may follow the expected ones.",
    "level": "Level of the message.",
    "component": "Component of the message.",
    "data": "Text and fields of the message, matched as a root document.",
    "failureIsRedacted": "Whether the failure in the message is redacted.",
    "ignoreExtraSpans": "Whether further spans may be there.",
    "spans": "Spans in order.",
    "spans.name": "Name of the span.",
    "name": "Name of the span.",
    "attributes": "Attributes of the span, matched as a root document.",
    "nested": "Spans inside this one.",
    # What servers saw, and what only pushbackd can set.
    "tests.pushbackd": "What servers saw: attempts, connections, metrics. Plain unified files have none.",
    "min": "Smallest value.",
    "max": "Largest value.",
}


def description_of(path: Sequence[str]) -> str:
    """Return the sentence for the field at the end of a path of names, empty where there is none."""
    for start in range(len(path)):
        found = DESCRIPTIONS.get(".".join(path[start:]))
        if found:
            return found
    return ""
