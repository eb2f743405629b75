// What the programs share: a client for the URI that they are given, and lines of JSON for what they saw.
const { MongoClient } = require("mongodb");
const { version } = require("mongodb/package.json");

const major = Number.parseInt(version, 10);
const options = { serverSelectionTimeoutMS: 5000, ...(major < 4 ? { useUnifiedTopology: true } : {}) };

exports.version = version;

exports.tell = (facts) => console.log(JSON.stringify(facts));

exports.failCommand = (client, mode, data) =>
  client.db("admin").command({ configureFailPoint: "failCommand", mode, data });

exports.run = async (main, more = {}) => {
  const client = new MongoClient(process.argv[2], { ...options, ...more });
  try {
    await client.connect();
    await main(client);
  } catch (error) {
    console.error(error);
    process.exitCode = 1;
  } finally {
    await client.close();
  }
};
