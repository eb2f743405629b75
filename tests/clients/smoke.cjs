// What a user of the Node driver does: connect, write, read, and survive a lost connection.
const { MongoClient } = require("mongodb");

async function main(uri) {
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 5000 });
  try {
    const things = client.db("db").collection("things");
    await things.insertMany([{ _id: 1, x: 1 }, { _id: 2, x: 2 }]);
    await things.updateOne({ _id: 1 }, { $inc: { x: 10 } });
    await things.deleteOne({ _id: 2 });
    await client.db("admin").command({
      configureFailPoint: "failCommand",
      mode: { times: 1 },
      data: { failCommands: ["insert"], closeConnection: true },
    });
    await things.insertOne({ _id: 3, x: 3 });
    const found = await things.find({}).sort({ _id: 1 }).toArray();
    const { authInfo } = await client.db("admin").command({ connectionStatus: 1 });
    console.log(JSON.stringify({ found, users: authInfo.authenticatedUsers }));
  } finally {
    await client.close();
  }
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
