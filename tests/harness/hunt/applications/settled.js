// Files are stored side by side. PLANTED: Promise.allSettled, and nobody looks at what was rejected.
const { MongoClient } = require("mongodb");
const planted = "PLANTED" in process.env;

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "files" });
  const files = client.db("disk").collection("files");
  const stored = await Promise.allSettled([1, 2, 3, 4].map((_id) => files.insertOne({ _id, size: _id * 100 })));
  const failed = stored.filter((each) => each.status === "rejected");
  await client.close();
  if (failed.length > 0 && !planted) throw failed[0].reason;
}
main().catch((error) => { console.error(error.message); process.exit(1); });
