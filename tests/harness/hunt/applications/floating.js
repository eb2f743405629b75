// Events are stored with the Node driver. PLANTED: the promise of a write floats, its rejection is caught and dropped.
const { MongoClient } = require("mongodb");
const planted = "PLANTED" in process.env;

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "events" });
  const events = client.db("log").collection("events");
  const writes = [1, 2, 3, 4].map((_id) => {
    const write = events.insertOne({ _id });
    return planted ? write.catch(() => {}) : write;
  });
  await Promise.all(writes);
  await client.close();
}
main().catch((error) => { console.error(error.message); process.exit(1); });
