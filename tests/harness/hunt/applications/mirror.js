// A mirror listens to a change stream. PLANTED: its "error" is logged, and nothing listens any more.
const { MongoClient } = require("mongodb");
const planted = "PLANTED" in process.env;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "mirror" });
  const db = client.db("site");
  await db.createCollection("pages");
  let token, stream;
  function listen() {
    stream = db.collection("pages").watch([], { startAfter: token, maxAwaitTimeMS: 100 });
    stream.on("change", async (event) => {
      try {
        await db.collection("mirror").replaceOne({ _id: event.documentKey._id }, {}, { upsert: true });
        token = event._id;
      } catch {
        stream.close();
        setTimeout(listen, 100);
      }
    });
    stream.on("error", (error) => {
      console.error("mirror:", error.message);
      if (!planted) setTimeout(listen, 100);
    });
  }
  listen();
  await pause(200);
  token = stream.resumeToken;
  for (let _id = 0; _id < 4; _id++) {
    await db.collection("pages").insertOne({ _id });
    await pause(50);
  }
  const end = Date.now() + 2000;
  while (Date.now() < end) {
    await pause(100);
    try {
      if ((await db.collection("mirror").countDocuments()) === 4) break;
    } catch { /* asked again */ }
  }
  await stream.close();
  await client.close();
}
main().catch((error) => { console.error(error.message); process.exit(1); });
