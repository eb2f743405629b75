// Transfers are transactions. PLANTED: the entry in the ledger is written without the session.
const { MongoClient } = require("mongodb");
const planted = "PLANTED" in process.env;

async function transfer(client, amount) {
  const bank = client.db("bank");
  await client.withSession((session) => session.withTransaction(async () => {
    const accounts = bank.collection("accounts");
    await accounts.updateOne({ _id: "ann" }, { $inc: { balance: -amount } }, { session });
    await bank.collection("ledger").insertOne({ amount }, planted ? {} : { session });
    await accounts.updateOne({ _id: "bob" }, { $inc: { balance: amount } }, { session });
  }));
}

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "bank" });
  await client.db("bank").createCollection("ledger");
  await client.db("bank").collection("accounts").insertMany([{ _id: "ann", balance: 90 }, { _id: "bob", balance: 0 }]);
  for (const amount of [10, 20, 30]) await transfer(client, amount);
  await client.close();
}
main().catch((error) => { console.error(error.message); process.exit(1); });
