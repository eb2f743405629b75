// Seats are reserved in a transaction, with the Node driver. PLANTED: no retry of a transient error.
const { MongoClient } = require("mongodb");
const planted = "PLANTED" in process.env;

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "seats" });
  const db = client.db("theatre");
  await db.collection("seats").insertMany([1, 2, 3].map((_id) => ({ _id, taken: false })));
  for (const seat of [1, 2]) {
    const session = client.startSession();
    const reserve = async () => {
      await db.collection("seats").updateOne({ _id: seat }, { $set: { taken: true } }, { session });
      await db.collection("tickets").insertOne({ _id: seat }, { session });
    };
    if (planted) {
      session.startTransaction();
      await reserve();
      await session.commitTransaction();
    } else await session.withTransaction(reserve);
    await session.endSession();
  }
  await client.close();
}
main().catch((error) => { console.error(error.message); process.exit(1); });
