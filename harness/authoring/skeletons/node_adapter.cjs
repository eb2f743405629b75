// An adapter of pushbackd for a driver in Node: a skeleton, to be filled in where it says `Step`.
//
//     pushbackd check-adapter "cmd:node adapter.cjs"
//     pushbackd conform --adapter "cmd:node adapter.cjs"
//
// Requests come in and answers go out, one JSON document a line. Values are extended JSON: replace JSON.parse
// and JSON.stringify by the EJSON functions of your BSON library.

'use strict';

const readline = require('node:readline');

const NAME = 'my-driver'; // stands in reports
const FEATURES = []; // Step 6: what your driver can do; each feature has scenarios that need it

class Unsupported extends Error {}

// Stands for your driver's client.
class Client {
  constructor(uri, publish) {
    this.uri = uri;
    // Step 5: your driver's listener of command events calls
    //     publish('commandStartedEvent', { commandName, databaseName, command })
    // and so on, before the operation returns. Then declare COMMAND_EVENTS above.
    this.publish = publish;
  }

  async close() {} // closing twice is no error
}

const entities = new Map(); // by the id of the request that created them

// Standard output is for messages only; console.error writes for people.
const clock = () => performance.now() / 1000; // seconds; the runner compares it with its own clock
const tell = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

const keep = (id, entity) => {
  entities.set(id, entity);
  return { entity: true };
};

// Step 2: make your driver's objects. Options that you do not know must be refused.
const MAKERS = {
  database: (client, { databaseName }) => ({ client, databaseName }),
  collection: (database, { collectionName }) => ({ database, collectionName }),
};

// Step 3: call your driver: { database: { runCommand }, collection: { insertOne, find } } are the first.
// A function takes the entity and the arguments, and returns the result in the form of expectResult: the list
// of all documents for a cursor. An argument that you do not know must be refused by name.
const OPERATIONS = {
  client: {},
  database: {},
  collection: {},
};

// Step 4: code, codeName, labels, response … from your driver's error.
const errorReport = (error) => ({ message: String(error.message), isClientError: true });

const METHODS = {
  hello: async () => ({ result: { protocol: 1, name: NAME, features: FEATURES } }),

  // Step 1: make your driver's client. It is returned at once, also without a reachable server.
  client: async (_, { uri, observeEvents, serverApi }, id) => {
    if (serverApi) throw new Unsupported('no server API');
    const wanted = new Set(observeEvents);
    const publish = (kind, fields) => {
      if (wanted.has(kind)) tell({ event: { client: id, kind, at: clock(), fields } });
    };
    return keep(id, new Client(uri, publish));
  },

  create: async (parent, { kind, spec }, id) => {
    if (!MAKERS[kind]) throw new Unsupported(`no entity ${kind}`);
    return keep(id, MAKERS[kind](parent, spec));
  },

  call: async (target, { kind, operation, arguments: given }) => {
    const run = OPERATIONS[kind]?.[operation];
    if (!run) throw new Unsupported(`no ${operation} on a ${kind}`);
    return { result: (await run(target, given)) ?? null };
  },

  closeClient: async (client) => {
    await client.close();
    return { result: null };
  },

  // The end of a case: everything is closed and forgotten. The next case uses the same process.
  close: async () => {
    const clients = [...entities.values()].filter((entity) => entity instanceof Client);
    await Promise.all(clients.map((client) => client.close()));
    entities.clear();
    return { result: null };
  },
};

// Requests may arrive while others are in progress: each answer repeats the id of its own.
async function serve({ id, method, on, params }) {
  try {
    if (!METHODS[method]) throw new Unsupported(`no method ${method}`);
    const answer = await METHODS[method](entities.get(on), params ?? {}, id);
    tell({ id, clock: clock(), ...answer });
  } catch (error) {
    const refused = error instanceof Unsupported;
    tell({ id, clock: clock(), ...(refused ? { unsupported: error.message } : { error: errorReport(error) }) });
  }
}

// The end of the input is the end of the process.
const input = readline.createInterface({ input: process.stdin });
input.on('line', (line) => serve(JSON.parse(line)));
input.on('close', () => process.exit());
