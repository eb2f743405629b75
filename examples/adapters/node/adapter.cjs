// The Node driver as an adapter of pushbackd: requests come in and answers go out, one JSON document a line.
//
//     npm install mongodb
//     pushbackd conform SCENARIOS --adapter "cmd:node examples/adapters/node/adapter.cjs"

'use strict';

const readline = require('node:readline');
const mongodb = require('mongodb');

const { EJSON } = mongodb.BSON;

const FEATURES = [
  'COMMAND_EVENTS', 'POOL_EVENTS', 'SDAM_EVENTS', 'SESSIONS', 'TRANSACTIONS', 'CHANGE_STREAMS', 'FIND_CURSORS',
  'COMMAND_CURSORS', 'CLIENT_BULK_WRITE', 'TIMEOUT_MS', 'SERVER_API', 'MAX_ADAPTIVE_RETRIES',
];

// What this file does not do: a case that asks for it is skipped with the reason.
class Unsupported extends Error {}

// ---- The lines -------------------------------------------------------------------------------------------

const entities = new Map(); // by the id of the request that created them
const errors = new Map(); // what failed, by the id of the request that it failed
const callbacks = new Map(); // transactions that wait for their callback, by the id of their call

const tell = (message) => process.stdout.write(`${EJSON.stringify(message, { relaxed: false })}\n`);

async function serve({ id, method, on, params }) {
  try {
    const answer = await METHODS[method](entities.get(on), params ?? {}, id, on);
    tell({ id, ...answer });
  } catch (error) {
    errors.set(id, error);
    tell(error instanceof Unsupported ? { id, unsupported: error.message } : { id, error: errorReport(error) });
  }
}

const keep = (id, entity) => {
  entities.set(id, entity);
  return { entity: true };
};

const METHODS = {
  hello: async () => ({ result: { protocol: 1, name: 'node', features: FEATURES } }),

  client: async (_, { uri, observeEvents, serverApi }, id) => {
    const client = new mongodb.MongoClient(uri, {
      monitorCommands: true,
      // Not public: without it, connecting checks a connection out that no scenario counts with.
      __skipPingOnConnect: true,
      ...(serverApi ? { serverApi } : {}),
    });
    observe(client, new Set(observeEvents), id);
    keep(id, client);
    client.connect().catch(() => {}); // the first operation says what is wrong
    return { entity: true };
  },

  create: async (parent, { kind, spec }, id) => {
    const make = MAKERS[kind];
    if (!make) throw new Unsupported(`no entity ${kind}`);
    return keep(id, make(parent, spec));
  },

  call: async (target, { kind, operation, arguments: given }, id) => {
    const run = OPERATIONS[kind]?.[operation];
    if (!run) throw new Unsupported(`no ${operation} on a ${kind}`);
    if ('session' in given) given.session = entities.get(given.session);
    if ('callback' in given) given.callback = () => callBack(id);
    const result = await run(target, given);
    if (result instanceof mongodb.AbstractCursor || result instanceof mongodb.ChangeStream) {
      return keep(id, result);
    }
    return result instanceof mongodb.Collection ? keep(id, result) : { result: result ?? null };
  },

  return: async (_, { error }, __, on) => {
    const { resolve, reject } = callbacks.get(on);
    if (error === undefined) resolve();
    else reject(errors.get(error) ?? new Error('the scenario failed'));
    return { result: null };
  },

  session: async (session) => {
    const pinned = session.transaction.server?.description?.address ?? session.pinnedConnection?.description?.serviceId;
    return {
      result: {
        lsid: session.id,
        dirty: Boolean(session.serverSession.isDirty),
        pinned: pinned === undefined ? null : String(pinned),
        transaction: TRANSACTION_STATES[session.transaction.state] ?? 'none',
      },
    };
  },

  advanceClusterTime: async (session, { clusterTime }) => {
    session.advanceClusterTime(clusterTime);
    return { result: null };
  },

  topology: async (client) => {
    const description = client.topology?.description;
    const primary = [...(description?.servers.values() ?? [])].find((server) => server.type === 'RSPrimary');
    return { result: { type: description?.type ?? 'Unknown', primary: primary?.address ?? null } };
  },

  closeClient: async (client) => {
    await client.close();
    return { result: null };
  },

  close: async () => {
    const clients = [...entities.values()].filter((entity) => entity instanceof mongodb.MongoClient);
    await Promise.all(clients.map((client) => client.close()));
    entities.clear();
    errors.clear();
    return { result: null };
  },
};

const TRANSACTION_STATES = {
  NO_TRANSACTION: 'none',
  STARTING_TRANSACTION: 'starting',
  TRANSACTION_IN_PROGRESS: 'in_progress',
  TRANSACTION_COMMITTED: 'committed',
  TRANSACTION_COMMITTED_EMPTY: 'committed',
  TRANSACTION_ABORTED: 'aborted',
};

// The runner runs a transaction's callback; the driver waits for it here.
function callBack(call) {
  return new Promise((resolve, reject) => {
    callbacks.set(call, { resolve, reject });
    tell({ callback: call });
  });
}

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
  topologyDescriptionChanged: ['topologyDescriptionChangedEvent', ''],
  topologyOpening: ['topologyOpeningEvent', ''],
  topologyClosed: ['topologyClosedEvent', ''],
};

function observe(client, wanted, id) {
  for (const [name, [kind, fields]] of Object.entries(EVENTS)) {
    if (!wanted.has(kind)) continue;
    client.on(name, (event) => {
      const told = Object.fromEntries(fields.split(' ').filter(Boolean).map((field) => [field, event[field]]));
      if (event.failure) told.failure = { message: event.failure.message };
      if (kind.startsWith('command')) {
        Object.assign(told, { requestId: event.requestId, connectionId: event.address, durationMS: event.duration });
        told.serverConnectionId = event.serverConnectionId;
      } else if (event.address ?? event.connectionId) {
        told.address = event.address ?? event.connectionId;
      }
      if (event.serviceId) told.serviceId = event.serviceId;
      for (const part of ['previousDescription', 'newDescription']) {
        if (event[part]) told[part] = { type: event[part].type };
      }
      tell({ event: { client: id, kind, fields: told } });
    });
  }
}

// ---- Errors: in the words of `expectError` ---------------------------------------------------------------

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
  if (error instanceof mongodb.MongoBulkWriteError) {
    const reply = error.result;
    const texts = reply.getWriteErrors().map((one) => one.errmsg);
    report.message = [report.message, ...texts, reply.getWriteConcernError()?.errmsg].filter(Boolean).join('; ');
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

// ---- Entities and operations -----------------------------------------------------------------------------

// The driver would ignore an option that it does not have: the scenario would seem to hold.
function options(given, allowed) {
  const chosen = {};
  for (const [name, value] of Object.entries(given)) {
    if (!allowed.split(/\s+/).includes(name)) throw new Unsupported(`the driver does not take ${name} here`);
    chosen[name] = (CONVERTERS[name] ?? ((same) => same))(value);
  }
  return chosen;
}

const CONVERTERS = {
  returnDocument: (name) => name.toLowerCase(),
  readPreference: ({ mode, tagSets, maxStalenessSeconds, hedge }) =>
    new mongodb.ReadPreference(mode, tagSets, { maxStalenessSeconds, hedge }),
  writeConcern: ({ w, wtimeoutMS, journal }) => new mongodb.WriteConcern(w, wtimeoutMS, journal),
  defaultTransactionOptions: (given) => options(given, TRANSACTION),
};

const TRANSACTION = 'readConcern writeConcern readPreference maxCommitTimeMS timeoutMS';
const CONCERNS = 'readConcern readPreference writeConcern timeoutMS';

const MAKERS = {
  database: (client, { databaseName, databaseOptions }) =>
    client.db(databaseName, options(databaseOptions ?? {}, CONCERNS)),
  collection: (database, { collectionName, collectionOptions }) =>
    database.collection(collectionName, options(collectionOptions ?? {}, CONCERNS)),
  session: (client, { sessionOptions }) =>
    client.startSession(options(
      sessionOptions ?? {},
      'causalConsistency snapshot snapshotTime defaultTransactionOptions defaultTimeoutMS',
    )),
};

const EVERY = 'session comment maxTimeMS timeoutMS rawData';
const AGGREGATE = `${EVERY} allowDiskUse batchSize bypassDocumentValidation collation hint let maxAwaitTimeMS
  readConcern readPreference writeConcern timeoutMode`;
const FIND = `${EVERY} allowDiskUse allowPartialResults batchSize collation hint let limit max maxAwaitTimeMS min
  noCursorTimeout oplogReplay projection returnKey showRecordId skip sort tailable awaitData timeoutMode`;
const WRITE = `${EVERY} bypassDocumentValidation collation hint let ordered writeConcern`;
const UPDATE = `${WRITE} arrayFilters upsert sort`;
const FIND_AND_MODIFY = `${WRITE} arrayFilters projection returnDocument sort upsert`;
const WATCH = `${EVERY} batchSize collation fullDocument fullDocumentBeforeChange maxAwaitTimeMS resumeAfter
  showExpandedEvents startAfter startAtOperationTime`;
const INDEX = `${EVERY} background bits bucketSize collation commitQuorum default_language expireAfterSeconds hidden
  language_override max min name partialFilterExpression sparse sphereIndexVersion storageEngine textIndexVersion
  unique weights wildcardProjection`;
const COMMAND = 'session readPreference timeoutMS';

const find = (collection, { filter, cursorType, ...given }) => {
  if (cursorType) Object.assign(given, { tailable: true, awaitData: cursorType === 'tailableAwait' });
  return collection.find(filter, options(given, FIND));
};

// A change stream or a cursor that scenarios iterate is made on the server at once.
const started = async (cursor) => {
  await cursor.hasNext();
  return cursor;
};

const watch = async (target, { pipeline, ...given }) => {
  const stream = target.watch(pipeline, options(given, WATCH));
  await stream.cursor.cursorInit(); // not public: hasNext would wait for a first change
  return stream;
};

const nothing = (promise) => promise.then(() => null);

// A command's name comes first, whatever its order in the file.
const ordered = ({ command, commandName }) => {
  const name = commandName ?? Object.keys(command)[0];
  return { [name]: command[name], ...command };
};

const commandCursor = (database, { command, commandName, batchSize, comment, maxTimeMS, ...given }) => {
  const cursor = database.runCursorCommand(
    ordered({ command, commandName }),
    options(given, `${COMMAND} cursorType timeoutMode maxAwaitTimeMS`),
  );
  if (batchSize !== undefined) cursor.setBatchSize(batchSize);
  if (maxTimeMS !== undefined) cursor.setMaxTimeMS(maxTimeMS);
  if (comment !== undefined) cursor.setComment(comment);
  return cursor;
};

const MODEL = 'document filter update replacement upsert collation arrayFilters hint sort';

const CURSOR = {
  close: (cursor) => nothing(cursor.close()),
  iterateOnce: (cursor) => cursor.tryNext(),
  iterateUntilDocumentOrError: async (cursor) => {
    const document = await cursor.next();
    if (document === null) throw new Error('the cursor has no more documents');
    return document;
  },
};

const OPERATIONS = {
  client: {
    listDatabases: async (client, { filter, ...given }) =>
      (await client.db('admin').admin().listDatabases({ ...options(given, `${EVERY} nameOnly authorizedDatabases`), ...(filter ? { filter } : {}) })).databases,
    listDatabaseNames: async (client, given) =>
      (await client.db('admin').admin().listDatabases({ ...options(given, EVERY), nameOnly: true }))
        .databases.map(({ name }) => name),
    dropDatabase: (client, { database, ...given }) => nothing(client.db(database).dropDatabase(options(given, EVERY))),
    createChangeStream: watch,
    clientBulkWrite: async (client, { models, ...given }) => {
      const flat = models.map((model) => {
        const [[name, { namespace, ...body }]] = Object.entries(model);
        return { name, namespace, ...options(body, MODEL) };
      });
      return clientBulkResult(await client.bulkWrite(flat, options(given, `${WRITE} verboseResults`)));
    },
    appendMetadata: async (client, { driverInfoOptions }) => client.appendMetadata(driverInfoOptions),
  },
  database: {
    runCommand: (database, { command, commandName, ...given }) =>
      database.command(ordered({ command, commandName }), options(given, COMMAND)),
    runCursorCommand: (database, given) => commandCursor(database, given).toArray(),
    createCommandCursor: (database, given) => started(commandCursor(database, given)),
    aggregate: (database, { pipeline, ...given }) => database.aggregate(pipeline, options(given, AGGREGATE)).toArray(),
    listCollections: (database, { filter, ...given }) =>
      database.listCollections(filter, options(given, `${EVERY} batchSize nameOnly authorizedCollections timeoutMode`)).toArray(),
    listCollectionNames: async (database, { filter, ...given }) =>
      (await database.listCollections(filter, { ...options(given, `${EVERY} authorizedCollections`), nameOnly: true }).toArray())
        .map(({ name }) => name),
    createCollection: (database, { collection, ...given }) => database.createCollection(collection, given),
    dropCollection: (database, { collection, ...given }) =>
      nothing(database.dropCollection(collection, options(given, `${EVERY} writeConcern`))),
    modifyCollection: (database, { collection, session, ...given }) =>
      database.command({ collMod: collection, ...given }, { session }),
    createChangeStream: watch,
  },
  collection: {
    insertOne: async (collection, { document, ...given }) =>
      written(await collection.insertOne(document, options(given, WRITE))),
    insertMany: async (collection, { documents, ...given }) => {
      const result = await collection.insertMany(documents, options(given, WRITE));
      return result.acknowledged ? { insertedIds: result.insertedIds } : { acknowledged: false };
    },
    updateOne: async (collection, { filter, update, ...given }) =>
      written(await collection.updateOne(filter, update, options(given, UPDATE))),
    updateMany: async (collection, { filter, update, ...given }) =>
      written(await collection.updateMany(filter, update, options(given, UPDATE))),
    replaceOne: async (collection, { filter, replacement, ...given }) =>
      written(await collection.replaceOne(filter, replacement, options(given, UPDATE))),
    deleteOne: async (collection, { filter, ...given }) =>
      written(await collection.deleteOne(filter, options(given, WRITE))),
    deleteMany: async (collection, { filter, ...given }) =>
      written(await collection.deleteMany(filter, options(given, WRITE))),
    bulkWrite: async (collection, { requests, ...given }) => {
      const models = requests.map((request) => {
        const [[name, body]] = Object.entries(request);
        return { [name]: options(body, MODEL) };
      });
      const result = await collection.bulkWrite(models, options(given, WRITE));
      return result.isOk === undefined || given.writeConcern?.w === 0 ? { acknowledged: false } : bulkResult(result);
    },
    findOneAndDelete: (collection, { filter, ...given }) =>
      collection.findOneAndDelete(filter, options(given, FIND_AND_MODIFY)),
    findOneAndReplace: (collection, { filter, replacement, ...given }) =>
      collection.findOneAndReplace(filter, replacement, options(given, FIND_AND_MODIFY)),
    findOneAndUpdate: (collection, { filter, update, ...given }) =>
      collection.findOneAndUpdate(filter, update, options(given, FIND_AND_MODIFY)),
    find: (collection, given) => find(collection, given).toArray(),
    findOne: (collection, { filter, ...given }) => collection.findOne(filter, options(given, FIND)),
    createFindCursor: (collection, given) => started(find(collection, given)),
    aggregate: (collection, { pipeline, ...given }) =>
      collection.aggregate(pipeline, options(given, AGGREGATE)).toArray(),
    count: (collection, { filter, ...given }) => collection.count(filter, options(given, FIND)),
    countDocuments: (collection, { filter, ...given }) => collection.countDocuments(filter, options(given, FIND)),
    estimatedDocumentCount: (collection, given) => collection.estimatedDocumentCount(options(given, EVERY)),
    distinct: (collection, { fieldName, filter, ...given }) =>
      collection.distinct(fieldName, filter, options(given, `${EVERY} collation hint readConcern readPreference`)),
    createIndex: (collection, { keys, ...given }) => collection.createIndex(keys, options(given, INDEX)),
    dropIndex: (collection, { name, ...given }) => nothing(collection.dropIndex(name, options(given, EVERY))),
    dropIndexes: (collection, given) => nothing(collection.dropIndexes(options(given, EVERY))),
    listIndexes: (collection, given) => collection.listIndexes(options(given, `${EVERY} batchSize timeoutMode`)).toArray(),
    listIndexNames: async (collection, given) =>
      (await collection.listIndexes(options(given, EVERY)).toArray()).map(({ name }) => name),
    drop: (collection, given) => nothing(collection.drop(options(given, EVERY))),
    rename: (collection, { to, ...given }) => nothing(collection.rename(to, options(given, `${EVERY} dropTarget`))),
    createChangeStream: watch,
  },
  session: {
    startTransaction: async (session, given) => session.startTransaction(options(given, TRANSACTION)),
    commitTransaction: (session, given) => nothing(session.commitTransaction(options(given, 'timeoutMS'))),
    abortTransaction: (session, given) => nothing(session.abortTransaction(options(given, 'timeoutMS'))),
    withTransaction: (session, { callback, ...given }) =>
      nothing(session.withTransaction(callback, options(given, TRANSACTION))),
    endSession: (session) => nothing(session.endSession()),
  },
  findCursor: CURSOR,
  commandCursor: CURSOR,
  changeStream: CURSOR,
};

// The end of the input is the end of the process.
const input = readline.createInterface({ input: process.stdin });
input.on('line', (line) => serve(EJSON.parse(line)));
input.on('close', () => process.exit());
