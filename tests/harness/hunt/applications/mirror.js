// A mirror listens to a change stream. PLANTED: its "error" is logged, and nothing listens any more.
const { MongoClient } = require("mongodb");
const planted = "PLANTED" in process.env;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "mirror" });
  const db = client.db("site");
  await db.createCollection("pages");
  let token, stream, over = false;
  const again = () => setTimeout(() => over || listen(), 100);
  function listen() {
    stream = db.collection("pages").watch([], { startAfter: token, maxAwaitTimeMS: 100 });
    stream.on("change", async (event) => {
      try {
        await db.collection("mirror").replaceOne({ _id: event.documentKey._id }, {}, { upsert: true });
        token = event._id;
      } catch {
        stream.close();
        again();
      }
    });
    stream.on("error", (error) => {
      console.error("mirror:", error.message);
      if (!planted) again();
    });
  }
  listen();
  while (!stream.resumeToken) await pause(50);
  token = stream.resumeToken;
  for (let _id = 0; _id < 4; _id++) {
    await db.collection("pages").insertOne({ _id });
    await pause(50);
  }
  const end = Date.now() + 8000;
  let copied = 0;
  while (copied < 4 && Date.now() < end) {
    await pause(100);
    try {
      copied = await db.collection("mirror").countDocuments();
    } catch { /* asked again */ }
  }
  over = true;
  await stream.close();
  await client.close();
  if (copied < 4) throw new Error(`${copied} of 4 pages are in the mirror`);
}
main().catch((error) => { console.error(error.message); process.exit(1); });
