// Orders over the Node driver. PLANTED: a failed order is placed again from the beginning, with a new id.
const { MongoClient, ObjectId } = require("mongodb");
const planted = "PLANTED" in process.env;

async function place(db, customer, _id) {
  const fields = { customer, item: "tea" };
  if (planted) await db.collection("orders").insertOne(fields);
  else await db.collection("orders").replaceOne({ _id }, fields, { upsert: true });
  await db.collection("invoices").replaceOne({ _id: customer }, { total: 5 }, { upsert: true });
}

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "shop" });
  const db = client.db("shop");
  for (const customer of ["ann", "bob", "cid"]) {
    const _id = new ObjectId();
    for (let attempt = 0; ; attempt++) {
      try {
        await place(db, customer, _id);
        break;
      } catch (error) {
        if (attempt === 3) throw error;
      }
    }
  }
  await client.close();
}
main().catch((error) => { console.error(error.message); process.exit(1); });
