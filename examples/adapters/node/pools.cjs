// A connection pool by itself: the driver's own, of a server that no monitor looks at.
//
// None of this is public. Where a version of the driver has its parts elsewhere, POOLS is not declared.

'use strict';

const { Unsupported } = require('./operations.cjs');

const reach = (path) => {
  try {
    return require(`mongodb/lib/${path}`);
  } catch {
    return null;
  }
};

const { Topology } = reach('sdam/topology') ?? {};
const { Server } = reach('sdam/server') ?? {};
const { ServerDescription } = reach('sdam/server_description') ?? {};
const { TimeoutContext } = reach('timeout') ?? {};

const reachable = [Topology, Server, ServerDescription, TimeoutContext].every(Boolean);

// The pool is that of a real server in a real topology, so that a failed handshake has its effect on it.
function makePool(client, intervalMS) {
  const options = { ...client.options, ...(intervalMS > 0 ? { minPoolSizeCheckFrequencyMS: intervalMS } : {}) };
  const [host] = options.hosts;
  const topology = new Topology(client, options.hosts, options);
  const server = new Server(topology, new ServerDescription(host), options);
  server.monitor = null;
  topology.s.servers.set(server.name, server);
  server.on('descriptionReceived', (description) => topology.serverUpdateHandler(description));
  if (intervalMS < 0) server.pool.ensureMinPoolSize = () => {};
  return server.pool;
}

const POOL = {
  ready: (pool) => pool.ready(),
  clear: (pool, given) => pool.clear(given),
  close: (pool) => pool.close(),
  checkOut: (pool) => {
    const { waitQueueTimeoutMS, serverSelectionTimeoutMS } = pool.options;
    return pool.checkOut({ timeoutContext: TimeoutContext.create({ waitQueueTimeoutMS, serverSelectionTimeoutMS }) });
  },
  checkIn: (pool, { connection }) => pool.checkIn(connection),
};

async function callPool(pool, operation, given) {
  if (!POOL[operation]) throw new Unsupported(`no ${operation} on a pool`);
  return (await POOL[operation](pool, given)) ?? null;
}

function closePool(pool) {
  for (const connection of pool.checkedOutConnections) connection.destroy();
  pool.close();
}

module.exports = { callPool, closePool, makePool, reachable };
