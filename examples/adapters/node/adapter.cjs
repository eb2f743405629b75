// The Node driver as an adapter of pushbackd: requests come in and answers go out, one JSON document a line.
//
//     npm install mongodb
//     pushbackd conform SCENARIOS --adapter "cmd:node examples/adapters/node/adapter.cjs"
//
// This file speaks the protocol (docs/WRITING-ADAPTERS.md); operations.cjs does what a scenario asks for, and
// words.cjs says what came of it in the words of the specifications.

'use strict';

const readline = require('node:readline');
const mongodb = require('mongodb');

const { makeClient, MAKERS, OPERATIONS, Unsupported } = require('./operations.cjs');
const { callPool, closePool, makePool, reachable } = require('./pools.cjs');
const { errorReport, observe, pinnedTo, POOL_KINDS, TRANSACTION_STATES } = require('./words.cjs');

const { EJSON } = mongodb.BSON;

const DRIVER = { name: 'nodejs', version: require('mongodb/package.json').version };
// What the driver can do. It has no time limits for whole operations: in driver 7 timeoutMS has no effect.
const FEATURES = [
  'COMMAND_EVENTS', 'POOL_EVENTS', 'SDAM_EVENTS', 'LOG_MESSAGES', 'SESSIONS', 'TRANSACTIONS', 'CHANGE_STREAMS',
  'GRIDFS', 'FIND_CURSORS', 'COMMAND_CURSORS', 'CLIENT_BULK_WRITE', 'SERVER_API', 'MAX_ADAPTIVE_RETRIES',
  ...(reachable ? ['POOLS'] : []),
];

const LOGGED_CHARACTERS = 10_000; // of a document in a log message; the driver's default cuts some of scenarios

const entities = new Map(); // by the id of the request that created them
const pools = [];
const errors = new Map(); // what failed, by the id of the request that it failed
const callbacks = new Map(); // transactions that wait for their callback, by the id of their call

const clock = () => performance.now() / 1000; // seconds of a clock that is never set
const tell = (message) => process.stdout.write(`${EJSON.stringify(message, { relaxed: false })}\n`);

async function serve({ id, method, on, params }) {
  try {
    if (!METHODS[method]) throw new Unsupported(`no method ${method}`);
    const answer = await METHODS[method](entities.get(on), params ?? {}, id, on);
    tell({ id, clock: clock(), ...answer });
  } catch (error) {
    errors.set(id, error);
    const refused = error instanceof Unsupported;
    tell({ id, clock: clock(), ...(refused ? { unsupported: error.message } : { error: errorReport(error) }) });
  }
}

const keep = (id, entity) => {
  entities.set(id, entity);
  return { entity: true };
};

const METHODS = {
  hello: async () => ({ result: { protocol: 1, name: 'node', driver: DRIVER, features: FEATURES } }),

  client: async (_, { uri, observeEvents, observeLogs, serverApi }, id) => {
    const event = (kind, fields) => tell({ event: { client: id, kind, at: clock(), fields } });
    const client = makeClient(uri, {
      monitorCommands: true,
      // Not public: without it, connecting checks a connection out that no scenario counts with.
      __skipPingOnConnect: true,
      ...(serverApi ? { serverApi } : {}),
      mongodbLogComponentSeverities: Object.fromEntries(observeLogs.map((component) => [component, 'trace'])),
      mongodbLogMaxDocumentLength: LOGGED_CHARACTERS,
      mongodbLogPath: { write: ({ t, c, s, ...data }) => event('logMessage', { level: s, component: c, data }) },
    });
    observe(client, new Set(observeEvents), event);
    keep(id, client);
    client.connect().catch(() => {}); // the first operation says what is wrong
    return { entity: true };
  },

  pool: async (_, { uri, backgroundThreadIntervalMS }, id) => {
    if (!reachable) throw new Unsupported('this version of the driver has its pool elsewhere');
    const pool = makePool(makeClient(uri, {}), backgroundThreadIntervalMS);
    observe(pool, POOL_KINDS, (kind, fields) => tell({ event: { client: id, kind, at: clock(), fields } }));
    pools.push(pool);
    return keep(id, pool);
  },

  create: async (parent, { kind, spec }, id) => {
    const make = MAKERS[kind];
    if (!make) throw new Unsupported(`no entity ${kind}`);
    return keep(id, make(parent, spec));
  },

  call: async (target, { kind, operation, arguments: given }, id) => {
    if (kind === 'pool') {
      if ('connection' in given) given.connection = entities.get(given.connection);
      const result = await callPool(target, operation, given);
      return operation === 'checkOut' ? keep(id, result) : { result };
    }
    const run = OPERATIONS[kind]?.[operation];
    if (!run) throw new Unsupported(`no ${operation} on a ${kind}`);
    if ('session' in given) given.session = entities.get(given.session);
    if ('callback' in given) given.callback = () => callBack(id);
    const result = await run(target, given);
    const isEntity = [mongodb.AbstractCursor, mongodb.ChangeStream, mongodb.Collection].some(
      (type) => result instanceof type,
    );
    return isEntity ? keep(id, result) : { result: result ?? null };
  },

  return: async (_, { error }, __, on) => {
    const { resolve, reject } = callbacks.get(on);
    if (error === undefined) resolve();
    else reject(errors.get(error) ?? new Error('the scenario failed'));
    return { result: null };
  },

  session: async (session) => ({
    result: {
      lsid: session.id,
      dirty: Boolean(session.serverSession.isDirty),
      pinned: pinnedTo(session),
      transaction: TRANSACTION_STATES[session.transaction.state] ?? 'none',
    },
  }),

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
    pools.splice(0).forEach(closePool);
    for (const kept of [entities, errors, callbacks]) kept.clear();
    return { result: null };
  },
};

// The runner runs a transaction's callback; the driver waits for it here.
function callBack(call) {
  return new Promise((resolve, reject) => {
    callbacks.set(call, { resolve, reject });
    tell({ callback: call });
  });
}

// The end of the input is the end of the process.
const input = readline.createInterface({ input: process.stdin });
input.on('line', (line) => serve(EJSON.parse(line)));
input.on('close', () => process.exit());
