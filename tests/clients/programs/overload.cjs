// A server that says it is overloaded, and a driver that backs off and tries again.
const { failCommand, run, tell } = require("./program.cjs");

run(
  async (client) => {
    const commands = [];
    client.on("commandStarted", ({ commandName }) => commands.push(commandName));
    const errorLabels = ["SystemOverloadedError", "RetryableError"];
    const data = { failCommands: ["find", "insert"], errorCode: 462, errorLabels };
    const things = client.db("db").collection("things");
    await failCommand(client, { times: 2 }, data);
    await things.insertOne({ _id: 1 });
    await failCommand(client, { times: 1 }, data);
    const found = await things.find({}).toArray();
    const times = (name) => commands.filter((each) => each === name).length;
    tell({ found, inserts: times("insert"), finds: times("find") });
  },
  { monitorCommands: true },
);
