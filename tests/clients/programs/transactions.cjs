// Transactions that commit, that abort, and that the driver runs again because the server says they may.
const { failCommand, run, tell } = require("./program.cjs");

run(async (client) => {
  const things = client.db("db").collection("things");
  const ids = async () => (await things.find({}).sort({ _id: 1 }).toArray()).map((thing) => thing._id);
  await things.insertOne({ _id: 0 });

  const transact = async (body) => {
    const session = client.startSession();
    let attempts = 0;
    try {
      await session.withTransaction(async () => {
        attempts += 1;
        await body(session);
      });
    } catch (error) {
      return { attempts, error: error.message, ids: await ids() };
    } finally {
      await session.endSession();
    }
    return { attempts, ids: await ids() };
  };

  tell({
    does: "commit",
    ...(await transact(async (session) => {
      await things.insertOne({ _id: 1 }, { session });
      await things.insertOne({ _id: 2 }, { session });
    })),
  });
  tell({
    does: "abort",
    ...(await transact(async (session) => {
      await things.insertOne({ _id: 3 }, { session });
      throw new Error("the user changed their mind");
    })),
  });
  const writeConflict = 112;
  await failCommand(client, { times: 1 }, { failCommands: ["insert"], errorCode: writeConflict });
  tell({ does: "retry", ...(await transact((session) => things.insertOne({ _id: 4 }, { session }))) });
  await failCommand(client, { times: 1 }, { failCommands: ["commitTransaction"], closeConnection: true });
  tell({ does: "retry commit", ...(await transact((session) => things.insertOne({ _id: 5 }, { session }))) });
});
