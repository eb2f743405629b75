// The entities and operations of the unified test format, by the driver's own methods.

'use strict';

const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');

const mongodb = require('mongodb');

const { bulkResult, clientBulkResult, written } = require('./words.cjs');

// What this adapter, or the driver, does not do: a case that asks for it is skipped with the reason.
class Unsupported extends Error {}

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
    new mongodb.ReadPreference(mode[0].toLowerCase() + mode.slice(1), tagSets, { maxStalenessSeconds, hedge }),
  writeConcern: ({ w, wtimeoutMS, journal }) => new mongodb.WriteConcern(w, wtimeoutMS, journal),
  defaultTransactionOptions: (given) => options(given, TRANSACTION),
};

// A client's options are in its URI, of which the driver refuses those that it does not know.
function makeClient(uri, given) {
  try {
    return new mongodb.MongoClient(uri, given);
  } catch (error) {
    if (error instanceof mongodb.MongoParseError && /not supported$/.test(error.message)) {
      throw new Unsupported(error.message);
    }
    throw error;
  }
}

const TRANSACTION = 'readConcern writeConcern readPreference maxCommitTimeMS';
const CONCERNS = 'readConcern readPreference writeConcern';

const MAKERS = {
  database: (client, { databaseName, databaseOptions }) =>
    client.db(databaseName, options(databaseOptions ?? {}, CONCERNS)),
  collection: (database, { collectionName, collectionOptions }) =>
    database.collection(collectionName, options(collectionOptions ?? {}, CONCERNS)),
  session: (client, { sessionOptions }) =>
    client.startSession(
      options(sessionOptions ?? {}, 'causalConsistency snapshot snapshotTime defaultTransactionOptions'),
    ),
  bucket: (database, { bucketOptions }) =>
    new mongodb.GridFSBucket(database, options(bucketOptions ?? {}, `bucketName chunkSizeBytes ${CONCERNS}`)),
};

const EVERY = 'session comment maxTimeMS rawData';
const AGGREGATE = `${EVERY} allowDiskUse batchSize bypassDocumentValidation collation hint let maxAwaitTimeMS
  readConcern readPreference writeConcern`;
const FIND = `${EVERY} allowDiskUse allowPartialResults batchSize collation hint let limit max maxAwaitTimeMS min
  noCursorTimeout oplogReplay projection returnKey showRecordId skip sort tailable awaitData`;
const WRITE = `${EVERY} bypassDocumentValidation collation hint let ordered writeConcern`;
const UPDATE = `${WRITE} arrayFilters upsert sort`;
const FIND_AND_MODIFY = `${WRITE} arrayFilters projection returnDocument sort upsert`;
const WATCH = `${EVERY} batchSize collation fullDocument fullDocumentBeforeChange maxAwaitTimeMS resumeAfter
  showExpandedEvents startAfter startAtOperationTime`;
const INDEX = `${EVERY} background bits bucketSize collation commitQuorum default_language expireAfterSeconds hidden
  language_override max min name partialFilterExpression sparse sphereIndexVersion storageEngine textIndexVersion
  unique weights wildcardProjection`;
const DATABASES = `${EVERY} filter nameOnly authorizedDatabases`;
const COLLECTIONS = `${EVERY} authorizedCollections`;
const COMMAND = 'session readPreference';
const CREATE = `${EVERY} capped changeStreamPreAndPostImages clusteredIndex collation expireAfterSeconds
  indexOptionDefaults max pipeline size storageEngine timeseries validationAction validationLevel validator viewOn
  writeConcern`;

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
    options(given, `${COMMAND} cursorType`),
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

const upload = async (stream, source) => {
  await pipeline(Readable.from([source.buffer]), stream);
  return stream.id;
};

const download = async (stream) => new mongodb.Binary(Buffer.concat(await stream.toArray()));

// The driver always works without MD5, so disableMD5 asks for nothing.
const uploadOptions = ({ disableMD5, ...given }) => options(given, 'chunkSizeBytes metadata');

const OPERATIONS = {
  client: {
    listDatabases: async (client, given) =>
      (await client.db('admin').admin().listDatabases(options(given, DATABASES))).databases,
    listDatabaseNames: async (client, given) =>
      (await client.db('admin').admin().listDatabases({ ...options(given, DATABASES), nameOnly: true }))
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
    aggregate: (database, { pipeline: stages, ...given }) =>
      database.aggregate(stages, options(given, AGGREGATE)).toArray(),
    listCollections: (database, { filter, ...given }) =>
      database.listCollections(filter, options(given, `${COLLECTIONS} batchSize nameOnly`)).toArray(),
    listCollectionNames: async (database, { filter, ...given }) =>
      (await database.listCollections(filter, { ...options(given, COLLECTIONS), nameOnly: true }).toArray())
        .map(({ name }) => name),
    createCollection: (database, { collection, ...given }) =>
      database.createCollection(collection, options(given, CREATE)),
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
    listIndexes: (collection, given) => collection.listIndexes(options(given, `${EVERY} batchSize`)).toArray(),
    listIndexNames: async (collection, given) =>
      (await collection.listIndexes(options(given, EVERY)).toArray()).map(({ name }) => name),
    drop: (collection, given) => nothing(collection.drop(options(given, EVERY))),
    rename: (collection, { to, ...given }) => nothing(collection.rename(to, options(given, `${EVERY} dropTarget`))),
    createSearchIndex: (collection, { model }) => collection.createSearchIndex(model),
    createSearchIndexes: (collection, { models }) => collection.createSearchIndexes(models),
    updateSearchIndex: (collection, { name, definition }) => nothing(collection.updateSearchIndex(name, definition)),
    dropSearchIndex: (collection, { name }) => nothing(collection.dropSearchIndex(name)),
    listSearchIndexes: (collection, { name, aggregationOptions }) =>
      collection.listSearchIndexes(name, options(aggregationOptions ?? {}, AGGREGATE)).toArray(),
    createChangeStream: watch,
  },
  bucket: {
    upload: (bucket, { filename, source, ...given }) =>
      upload(bucket.openUploadStream(filename, uploadOptions(given)), source),
    uploadWithId: (bucket, { id, filename, source, ...given }) =>
      nothing(upload(bucket.openUploadStreamWithId(id, filename, uploadOptions(given)), source)),
    download: (bucket, { id, ...given }) => download(bucket.openDownloadStream(id, options(given, ''))),
    downloadByName: (bucket, { filename, ...given }) =>
      download(bucket.openDownloadStreamByName(filename, options(given, 'revision'))),
    delete: (bucket, { id, ...given }) => nothing(bucket.delete(id, options(given, ''))),
    rename: (bucket, { id, newFilename, ...given }) => nothing(bucket.rename(id, newFilename, options(given, ''))),
    drop: (bucket, given) => nothing(bucket.drop(options(given, ''))),
    find: (bucket, { filter, ...given }) => bucket.find(filter, options(given, FIND)).toArray(),
  },
  session: {
    startTransaction: async (session, given) => session.startTransaction(options(given, TRANSACTION)),
    commitTransaction: (session, given) => nothing(session.commitTransaction(options(given, ''))),
    abortTransaction: (session, given) => nothing(session.abortTransaction(options(given, ''))),
    withTransaction: (session, { callback, ...given }) =>
      nothing(session.withTransaction(callback, options(given, TRANSACTION))),
    endSession: (session) => nothing(session.endSession()),
    getSnapshotTime: async (session) => session.snapshotTime,
  },
  findCursor: CURSOR,
  commandCursor: CURSOR,
  changeStream: CURSOR,
};

module.exports = { makeClient, MAKERS, OPERATIONS, Unsupported };
