// A mirror follows a change stream. PLANTED: its error is logged, and nothing follows any more.
const { MongoClient } = require("mongodb");
const planted = "PLANTED" in process.env;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "mirror" });
  const db = client.db("site");
  await db.createCollection("pages");
  let token, copied = 0;
  async function follow(end) {
    while (copied < 4 && Date.now() < end) {
      const stream = db.collection("pages").watch([], { startAfter: token, maxAwaitTimeMS: 100 });
      try {
        while (copied < 4 && Date.now() < end) {
          const event = await stream.tryNext();
          if (event) {
            await db.collection("mirror").replaceOne({ _id: event.documentKey._id }, {}, { upsert: true });
            copied = event.documentKey._id + 1;
          }
          token = stream.resumeToken;
        }
      } catch (error) {
        console.error("mirror:", error.message);
        if (planted) return;
        await pause(100);
      } finally {
        await stream.close();
      }
    }
  }
  const following = follow(Date.now() + 10000);
  while (!token) await pause(50);
  for (let _id = 0; _id < 4; _id++) {
    await db.collection("pages").insertOne({ _id });
    await pause(50);
  }
  await following;
  await client.close();
  if (copied < 4 && !planted) throw new Error(`${copied} of 4 pages are in the mirror`);
}
main().catch((error) => { console.error(error.message); process.exit(1); });
