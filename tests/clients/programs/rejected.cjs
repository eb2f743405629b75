// A server that has no tokens left, and a driver whose dice always fall on their highest.
const { run, tell } = require("./program.cjs");

run(
  async (client) => {
    Math.random = () => 1;
    const admin = client.db("admin");
    await admin.command({ ping: 1 });
    await admin.command({
      setParameter: 1,
      ingressRequestRateLimiterEnabled: true,
      ingressRequestAdmissionRatePerSec: 1,
      ingressRequestAdmissionBurstCapacitySecs: 5e-6,
    });
    const error = await admin.command({ ping: 1 }).then(() => null, (raised) => raised);
    tell({ code: error.code, overloaded: error.hasErrorLabel("SystemOverloadedError") });
  },
  { maxPoolSize: 1, serverSelectionTimeoutMS: 20000 },
);
