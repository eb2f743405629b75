// A worker asks for jobs with a timer. PLANTED: an error ends the chain of timers, and only a line says so.
const { MongoClient } = require("mongodb");
const planted = "PLANTED" in process.env;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function main() {
  const client = await MongoClient.connect(process.env.MONGODB_URI, { appName: "worker" });
  const jobs = client.db("queue").collection("jobs");
  await jobs.insertMany([1, 2, 3, 4].map((_id) => ({ _id, done: false })));
  let timer, over = false;
  async function work() {
    let wait = 20;
    try {
      await jobs.updateOne({ done: false }, { $set: { done: true } });
    } catch (error) {
      console.error("worker:", error.message);
      if (planted) return;
      wait = 200;
    }
    if (!over) timer = setTimeout(work, wait);
  }
  work();
  const end = Date.now() + 10000;
  while (Date.now() < end) {
    await pause(50);
    try {
      if ((await jobs.countDocuments({ done: false })) === 0) break;
    } catch { await pause(200); /* asked again, but not as often */ }
  }
  over = true;
  clearTimeout(timer);
  const left = await jobs.countDocuments({ done: false });
  await client.close();
  if (left > 0) throw new Error(`${left} jobs are left`);
}
main().catch((error) => { console.error(error.message); process.exit(1); });
