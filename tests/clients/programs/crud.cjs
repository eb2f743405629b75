// What a user of the Node driver does: connect, write, read, and survive a lost connection.
const { failCommand, run, tell, version } = require("./program.cjs");

run(async (client) => {
  const things = client.db("db").collection("things");
  await things.insertMany([{ _id: 1, x: 1 }, { _id: 2, x: 2 }]);
  await things.updateOne({ _id: 1 }, { $inc: { x: 10 } });
  await things.deleteOne({ _id: 2 });
  await failCommand(client, { times: 1 }, { failCommands: ["insert"], closeConnection: true });
  await things.insertOne({ _id: 3, x: 3, text: "x".repeat(100_000) });

  const found = await things.find({}).project({ text: 0 }).sort({ _id: 1 }).toArray();
  const { authInfo } = await client.db("admin").command({ connectionStatus: 1 });
  tell({ found, users: authInfo.authenticatedUsers, version });
});
