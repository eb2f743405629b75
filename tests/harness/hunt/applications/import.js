// Rows are imported, unordered. PLANTED: every error of the bulk counts as a row that was there.
const { MongoClient, MongoBulkWriteError } = require("mongodb");
const planted = "PLANTED" in process.env;

async function load(rows, batch) {
  try {
    await rows.insertMany(batch, { ordered: false });
  } catch (error) {
    if (!(error instanceof MongoBulkWriteError)) throw error;
    if (planted) return;
    const others = [].concat(error.writeErrors).filter((each) => each.code !== 11000);
    if (others.length > 0 || error.code !== 11000) throw error;
  }
}

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "import" });
  const rows = client.db("store").collection("rows");
  await rows.insertOne({ _id: 2 });
  for (const begin of [0, 4, 8]) await load(rows, [0, 1, 2, 3].map((n) => ({ _id: begin + n })));
  await client.close();
}
main().catch((error) => { console.error(error.message); process.exit(1); });
