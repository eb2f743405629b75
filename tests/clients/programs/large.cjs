// More results than one reply holds, and results that end exactly with a batch.
const { run, tell } = require("./program.cjs");

run(async (client) => {
  const things = client.db("db").collection("things");
  const text = "x".repeat(1000);
  await things.insertMany(Array.from({ length: 20_000 }, (_, number) => ({ _id: number, text })));
  const found = await things.find({}).toArray();
  tell({ count: found.length, whole: found.every((each, number) => each._id === number && each.text === text) });

  let batches = 0;
  client.on("commandStarted", ({ commandName }) => (batches += commandName === "getMore" ? 1 : 0));
  const six = await things.find({ _id: { $lt: 6 } }, { batchSize: 2 }).toArray();
  tell({ six: six.length, getMores: batches });
}, { monitorCommands: true });
