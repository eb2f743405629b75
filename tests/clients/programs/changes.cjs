// A change stream that is told of writes, and goes on where it was after its connection was lost.
const { failCommand, run, tell } = require("./program.cjs");

run(async (client) => {
  let streams = 0;
  client.on("commandStarted", ({ commandName }) => (streams += commandName === "aggregate"));
  const things = client.db("db").collection("things");
  await things.insertOne({ _id: 0 });
  const stream = things.watch([], { fullDocument: "updateLookup", maxAwaitTimeMS: 200 });
  const next = async () => {
    const { operationType, documentKey, fullDocument } = await stream.next();
    tell({ operationType, id: documentKey._id, x: fullDocument?.x });
  };

  await stream.tryNext();
  await things.insertOne({ _id: 1, x: 1 });
  await things.updateOne({ _id: 1 }, { $set: { x: 2 } });
  await next();
  await next();
  await failCommand(client, { times: 1 }, { failCommands: ["getMore"], closeConnection: true });
  await things.deleteOne({ _id: 1 });
  await next();
  await stream.close();
  tell({ streams });
}, { monitorCommands: true });
