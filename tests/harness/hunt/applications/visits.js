// Visits are counted with Mongoose. PLANTED: the document is loaded, changed, and saved.
const mongoose = require("mongoose");
const planted = "PLANTED" in process.env;
const Page = mongoose.model("Page", new mongoose.Schema({ _id: String, visits: Number }));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function visit() {
  if (planted) {
    const page = await Page.findById("home");
    page.visits = page.visits + 1;
    await page.save();
  } else {
    await Page.updateOne({ _id: "home" }, { $inc: { visits: 1 } });
  }
}

async function main() {
  await mongoose.connect(process.env.MONGODB_URI, { appName: "pages", autoIndex: false });
  await Page.create({ _id: "home", visits: 0 });
  await Promise.all([visit(), pause(120).then(visit), pause(240).then(visit)]);
  await mongoose.disconnect();
}
main().catch((error) => { console.error(error.message); process.exit(1); });
