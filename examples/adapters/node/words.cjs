// What the driver says, in the words of the specifications: events, errors, results, and what a session is pinned to.

'use strict';

const mongodb = require('mongodb');

// ---- Events: the driver's names and fields, under the specifications' names ------------------------------

const EVENTS = {
  commandStarted: ['commandStartedEvent', 'command commandName databaseName'],
  commandSucceeded: ['commandSucceededEvent', 'reply commandName databaseName'],
  commandFailed: ['commandFailedEvent', 'failure commandName databaseName'],
  connectionPoolCreated: ['poolCreatedEvent', 'options'],
  connectionPoolReady: ['poolReadyEvent', ''],
  connectionPoolCleared: ['poolClearedEvent', 'interruptInUseConnections'],
  connectionPoolClosed: ['poolClosedEvent', ''],
  connectionCreated: ['connectionCreatedEvent', 'connectionId'],
  connectionReady: ['connectionReadyEvent', 'connectionId durationMS'],
  connectionClosed: ['connectionClosedEvent', 'connectionId reason'],
  connectionCheckOutStarted: ['connectionCheckOutStartedEvent', ''],
  connectionCheckOutFailed: ['connectionCheckOutFailedEvent', 'reason durationMS'],
  connectionCheckedOut: ['connectionCheckedOutEvent', 'connectionId durationMS'],
  connectionCheckedIn: ['connectionCheckedInEvent', 'connectionId'],
  serverHeartbeatStarted: ['serverHeartbeatStartedEvent', 'awaited'],
  serverHeartbeatSucceeded: ['serverHeartbeatSucceededEvent', 'awaited'],
  serverHeartbeatFailed: ['serverHeartbeatFailedEvent', 'awaited'],
  serverDescriptionChanged: ['serverDescriptionChangedEvent', ''],
  serverOpening: ['serverOpeningEvent', ''],
  serverClosed: ['serverClosedEvent', ''],
  topologyDescriptionChanged: ['topologyDescriptionChangedEvent', ''],
  topologyOpening: ['topologyOpeningEvent', ''],
  topologyClosed: ['topologyClosedEvent', ''],
};

const POOL_KINDS = new Set(
  Object.values(EVENTS).map(([kind]) => kind).filter((kind) => /^(pool|connection)/.test(kind)),
);

// Calls `tell(kind, fields)` for each event of the wanted kinds.
function observe(client, wanted, tell) {
  for (const [name, [kind, fields]] of Object.entries(EVENTS)) {
    if (wanted.has(kind)) client.on(name, (event) => tell(kind, eventFields(kind, event, fields.split(' '))));
  }
}

function eventFields(kind, event, fields) {
  const told = Object.fromEntries(fields.filter((field) => event[field] !== undefined).map((field) => [field, event[field]]));
  if (event.failure) told.failure = { message: event.failure.message };
  if (kind.startsWith('command')) {
    told.requestId = event.requestId;
    told.connectionId = event.address;
    told.serverConnectionId = event.serverConnectionId;
    if (event.duration !== undefined) told.durationMS = event.duration;
  } else if (event.address ?? event.connectionId) {
    told.address = event.address ?? event.connectionId;
  }
  if (event.serviceId) told.serviceId = event.serviceId;
  for (const part of ['previousDescription', 'newDescription']) {
    if (event[part]) told[part] = { type: event[part].type };
  }
  return told;
}

// ---- Errors: in the words of `expectError` ---------------------------------------------------------------

// The errors of a pool, which cases of pools compare by their type.
const POOL_ERRORS = {
  MongoPoolClosedError: 'PoolClosedError',
  MongoPoolClearedError: 'PoolClearedError',
  MongoWaitQueueTimeoutError: 'WaitQueueTimeoutError',
};

function errorReport(error) {
  if (error instanceof mongodb.MongoClientBulkWriteError) return clientBulkReport(error);
  // A bulk write's error is a MongoServerError also when a lost connection is its cause; it has no code then.
  const fromServer =
    error instanceof mongodb.MongoServerError && !(error instanceof mongodb.MongoBulkWriteError && !error.code);
  const report = {
    message: String(error.message),
    isClientError: !fromServer,
    isTimeoutError:
      error instanceof mongodb.MongoOperationTimeoutError || error instanceof mongodb.MongoNetworkTimeoutError,
    labels: error.errorLabels ?? [],
  };
  if (fromServer) {
    report.code = error.code ?? null;
    report.codeName = error.codeName ?? error.errorResponse?.codeName ?? null;
    report.response = error.errorResponse ?? error.result ?? null;
  }
  if (POOL_ERRORS[error.name]) report.type = POOL_ERRORS[error.name];
  if (error instanceof mongodb.MongoBulkWriteError) {
    const reply = error.result;
    const failed = reply.getWriteErrors();
    const texts = failed.map((one) => one.errmsg);
    report.message = [report.message, ...texts, reply.getWriteConcernError()?.errmsg].filter(Boolean).join('; ');
    report.writeErrors = Object.fromEntries(failed.map(({ index, code, errmsg }) => [index, { code, message: errmsg }]));
    report.result = bulkResult(reply);
  }
  return report;
}

function clientBulkReport(error) {
  const cause = error.cause instanceof Error ? errorReport(error.cause) : { isClientError: false, labels: [] };
  return {
    ...cause,
    message: [error.message, cause.message].filter(Boolean).join('; '),
    labels: [...new Set([...cause.labels, ...error.errorLabels])],
    writeErrors: Object.fromEntries(error.writeErrors),
    writeConcernErrors: error.writeConcernErrors,
    ...(error.partialResult ? { result: clientBulkResult(error.partialResult) } : {}),
  };
}

// ---- Results: in the form of `expectResult` --------------------------------------------------------------

const written = (result) => {
  if (!result.acknowledged) return { acknowledged: false };
  const { acknowledged, upsertedId, ...counts } = result;
  return upsertedId == null ? counts : { ...counts, upsertedId };
};

const bulkResult = ({ insertedCount, matchedCount, modifiedCount, deletedCount, upsertedCount, ...more }) => ({
  insertedCount, matchedCount, modifiedCount, deletedCount, upsertedCount,
  insertedIds: more.insertedIds ?? {},
  upsertedIds: more.upsertedIds ?? {},
});

const clientBulkResult = ({ acknowledged, ...result }) => {
  if (!acknowledged) return { acknowledged };
  for (const kind of ['insertResults', 'updateResults', 'deleteResults']) {
    if (!result[kind]) delete result[kind];
    else {
      result[kind] = Object.fromEntries([...result[kind]].map(([index, one]) => {
        const { didUpsert, upsertedId, ...counts } = one;
        return [index, upsertedId == null ? counts : { ...counts, upsertedId }];
      }));
    }
  }
  return result;
};

// ---- Sessions --------------------------------------------------------------------------------------------

const TRANSACTION_STATES = {
  NO_TRANSACTION: 'none',
  STARTING_TRANSACTION: 'starting',
  TRANSACTION_IN_PROGRESS: 'in_progress',
  TRANSACTION_COMMITTED: 'committed',
  TRANSACTION_COMMITTED_EMPTY: 'committed',
  TRANSACTION_ABORTED: 'aborted',
};

// The address of the mongos, or the service id behind a load balancer; null when the session is free.
function pinnedTo(session) {
  const pinned = session.transaction.server?.description.address ?? session.pinnedConnection?.serviceId;
  return pinned === undefined ? null : String(pinned);
}

module.exports = {
  bulkResult, clientBulkResult, errorReport, observe, pinnedTo, POOL_KINDS, TRANSACTION_STATES, written,
};
