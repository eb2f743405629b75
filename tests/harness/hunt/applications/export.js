// Sales are exported to another collection. PLANTED: a cursor that fails ends the export as if it were done.
const { MongoClient } = require("mongodb");
const planted = "PLANTED" in process.env;

async function copy(from, to) {
  for (let attempt = 0; ; attempt++) {
    try {
      for await (const sale of from.find({}, { batchSize: 4 }).sort({ _id: 1 })) {
        await to.replaceOne({ _id: sale._id }, { cents: sale.cents }, { upsert: true });
      }
      return;
    } catch (error) {
      console.error("export:", error.message);
      if (planted) return;
      if (attempt === 2) throw error;
    }
  }
}

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "export" });
  const sales = client.db("shop").collection("sales");
  await sales.insertMany([...Array(12).keys()].map((_id) => ({ _id, cents: _id * 10 })));
  await copy(sales, client.db("books").collection("sales"));
  await client.close();
}
main().catch((error) => { console.error(error.message); process.exit(1); });
