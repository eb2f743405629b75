// Invoices have a number that is drawn. PLANTED: a failed invoice is written again under another number.
const { MongoClient } = require("mongodb");
const { randomUUID } = require("node:crypto");
const planted = "PLANTED" in process.env;

async function bill(invoices, customer) {
  let number = randomUUID();
  for (let attempt = 0; ; attempt++) {
    try {
      await invoices.insertOne({ _id: number, customer });
      return;
    } catch (error) {
      if (error.code === 11000) return;
      if (attempt === 3) throw error;
      if (planted) number = randomUUID();
    }
  }
}

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "bills" });
  for (const customer of ["ann", "bob", "cid"]) await bill(client.db("books").collection("invoices"), customer);
  await client.close();
}
main().catch((error) => { console.error(error.message); process.exit(1); });
