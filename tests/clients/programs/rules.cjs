// Rules that the client adds itself: a refused and retried insert, a closed connection, a reply of its own.
const { run, tell } = require("./program.cjs");

run(async (client) => {
  const admin = client.db("admin");
  const orders = client.db("shop").collection("orders");
  const add = (rule) => admin.command({ pushbackd: "addRule", rule });
  const refused = (work) => work.then(() => null, (raised) => ({ code: raised.code, message: raised.message }));

  await add({ when: { command: "insert" }, sequence: [{ error: "HostUnreachable" }], per: "operation" });
  await orders.insertOne({ _id: 1 });
  await add({ when: { command: "find", nth: 1 }, then: { close: true } });
  const found = await orders.findOne({});
  const cursor = { id: 0, ns: "shop.orders", firstBatch: [{ _id: 99 }] };
  await add({ when: { command: "find", document: { "filter.x": { $gt: 3 } } }, then: [{ reply: { cursor } }] });
  const scripted = await orders.findOne({ x: 5 });
  await add({ when: { namespace: "shop.*", command: "aggregate" }, then: { error: 2, message: "no" }, times: 1 });
  const failed = await refused(orders.aggregate([]).toArray());
  const mistyped = await refused(add({ when: { comand: "find" }, then: [] }));
  const { rules } = await admin.command({ pushbackd: "listRules" });
  const { removed } = await admin.command({ pushbackd: "removeRule", id: "all" });
  tell({ found, scripted, failed, mistyped, hits: rules.map((rule) => rule.hits), removed });
});
