// Writes that go on while the primary steps down: none is lost, none is applied twice.
const { run, tell } = require("./program.cjs");

run(async (client) => {
  const counters = client.db("db").collection("counters");
  const primary = async () => (await client.db("admin").command({ hello: 1 })).primary;
  const before = await primary();
  await counters.insertOne({ _id: 1, n: 0 });
  const writes = Array.from({ length: 200 }, (_, number) =>
    number === 100
      ? client.db("admin").command({ replSetStepDown: 30, force: true })
      : counters.updateOne({ _id: 1 }, { $inc: { n: 1 } }),
  );
  await Promise.all(writes);
  const { n } = await counters.findOne({ _id: 1 });
  tell({ n, moved: (await primary()) !== before });
});
