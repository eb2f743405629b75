// Votes are counted, with a retry. PLANTED: a vote whose answer was lost is counted again.
const { MongoClient } = require("mongodb");
const planted = "PLANTED" in process.env;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function vote(polls, voter) {
  const once = planted ? { _id: "lunch" } : { _id: "lunch", voters: { $ne: voter } };
  for (let attempt = 0; ; attempt++) {
    try {
      await polls.updateOne(once, { $inc: { yes: 1 }, $push: { voters: voter } });
      return;
    } catch (error) {
      if (attempt === 3) throw error;
      await pause(30 * 2 ** attempt);
    }
  }
}

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "polls" });
  const polls = client.db("office").collection("polls");
  await polls.insertOne({ _id: "lunch", yes: 0, voters: [] });
  for (const voter of ["ann", "bob", "cid"]) await vote(polls, voter);
  await client.close();
}
main().catch((error) => { console.error(error.message); process.exit(1); });
