// Operations on the database `shop`, each named as operation:collection, and what came of them.
const { run, tell } = require("./program.cjs");

const perform = {
  find: (collection) => collection.findOne(),
  insert: (collection) => collection.insertOne({}),
};

run(async (client) => {
  await client.db("admin").command({ ping: 1 });
  for (const step of process.argv.slice(3)) {
    const [operation, collection] = step.split(":");
    const began = performance.now();
    const told = { code: null, error: null };
    try {
      await perform[operation](client.db("shop").collection(collection));
    } catch (error) {
      told.code = error.code ?? null;
      told.error = error.name;
    }
    tell({ ...told, ms: performance.now() - began });
  }
});
