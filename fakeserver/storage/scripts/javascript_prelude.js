// What a script finds around it: a server's shell types, its clock, and the way in and out for values.
//
// Values cross as JSON. What JSON lacks is an object with the one field TAG: [type, payload]. A bare number is
// a double; an integer is tagged, and goes back as one if it comes back where it stood (as on a server).
"use strict";
(() => {
  const TAG = "$:", DEPTH = 150, FREE_READINGS = 100;
  const { parse, stringify } = JSON;
  const RealDate = Date, realNow = Date.now;
  const state = { epoch: 0, slept: 0, limit: Infinity, readings: 0, spent: 0, seed: 1, emitted: [], printed: [] };
  const ORIGIN = Symbol("what a value was made of");
  const own = (object, name, value, enumerable = true) =>
    Object.defineProperty(object, name, { value, enumerable, writable: true, configurable: true });

  // Time passes by sleeping. Who asks for the time again and again waits for it: a millisecond a question.
  function pass(milliseconds) {
    if (milliseconds > 0) state.slept += milliseconds;
    if (state.slept > state.limit) throw new Error("the script sleeps for too long");
  }
  function now() {
    state.readings += 1;
    if (state.readings > FREE_READINGS) pass(1);
    return Math.floor(state.epoch + state.slept);
  }
  function ShellDate(...given) {
    if (new.target === undefined) return new ShellDate().toString();
    const instant = given.length === 0 ? [now()] : given.length === 1 ? given : [RealDate.UTC(...given)];
    return Reflect.construct(RealDate, instant, new.target);
  }
  ShellDate.prototype = RealDate.prototype;
  Object.assign(ShellDate, { now, parse: RealDate.parse, UTC: RealDate.UTC });
  RealDate.prototype.constructor = ShellDate;
  for (const part of ["FullYear", "Month", "Date", "Hours", "Minutes", "Seconds", "Milliseconds"]) {
    RealDate.prototype["get" + part] = RealDate.prototype["getUTC" + part];
    RealDate.prototype["set" + part] = RealDate.prototype["setUTC" + part];
  }
  RealDate.prototype.getDay = RealDate.prototype.getUTCDay;
  RealDate.prototype.getTimezoneOffset = () => 0;
  RealDate.prototype.toString = function () {
    return this.toUTCString().replace(/^(\w+), (\d+) (\w+) (\d+)/, "$1 $3 $2 $4").replace("GMT", "GMT+0000 (UTC)");
  };
  Math.random = () => {
    state.seed = (Math.imul(state.seed, 1664525) + 1013904223) >>> 0;
    return state.seed / 4294967296;
  };

  // The types of the shell, which may be called with `new` and without.
  const types = {};
  const hexOf = (number, digits) => number.toString(16).padStart(digits, "0").slice(-digits);
  function define(type) {
    const callable = new Proxy(type, { apply: (target, _self, given) => new target(...given) });
    type.prototype.constructor = callable;
    type.prototype.toJSON ??= function () { return this.toString(); };
    types[type.name] = globalThis[type.name] = callable;
  }
  define(class ObjectId {
    constructor(hex) {
      if (hex === undefined) hex = hexOf(Math.floor(now() / 1000), 8) + hexOf(Math.random() * 2 ** 32 >>> 0, 8)
        + hexOf(Math.random() * 2 ** 32 >>> 0, 8);
      this.str = String(hex.str ?? hex).toLowerCase();
      if (!/^[0-9a-f]{24}$/.test(this.str)) throw new Error("invalid object id: length");
    }
    valueOf() { return this.str; }
    toString() { return `ObjectId("${this.str}")`; }
    equals(other) { return this.str === other?.str; }
    getTimestamp() { return new ShellDate(parseInt(this.str.slice(0, 8), 16) * 1000); }
  });
  define(class NumberLong {
    constructor(value = 0) {
      this.exact = BigInt.asIntN(64, BigInt(typeof value === "number" ? Math.trunc(value) : value?.exact ?? value));
    }
    get floatApprox() { return Number(this.exact); }
    toNumber() { return Number(this.exact); }
    valueOf() { return Number(this.exact); }
    compare(other) { const to = new NumberLong(other).exact; return this.exact < to ? -1 : this.exact > to ? 1 : 0; }
    toString() {
      const safe = this.exact >= -2147483648n && this.exact <= 2147483647n;
      return safe ? `NumberLong(${this.exact})` : `NumberLong("${this.exact}")`;
    }
  });
  define(class NumberInt {
    constructor(value = 0) { this.exact = Number(value) | 0; }
    toNumber() { return this.exact; }
    valueOf() { return this.exact; }
    toString() { return `NumberInt(${this.exact})`; }
  });
  define(class NumberDecimal {
    constructor(value = "0") { this.exact = String(value?.exact ?? value); }
    toString() { return `NumberDecimal("${this.exact}")`; }
  });
  define(class Timestamp {
    constructor(t = 0, i = 0) { this.t = Number(t); this.i = Number(i); }
    getTime() { return this.t; }
    getInc() { return this.i; }
    toString() { return `Timestamp(${this.t}, ${this.i})`; }
  });
  define(class BinData {
    constructor(type, base64) { this.type = type; this.data = base64; }
    subtype() { return this.type; }
    base64() { return this.data; }
    length() { return Math.floor(this.data.length * 3 / 4) - (this.data.match(/=*$/)[0].length); }
    toString() { return `BinData(${this.type},"${this.data}")`; }
  });
  define(class DBRef {
    constructor(ref, id, db) { this.$ref = ref; this.$id = id; if (db !== undefined) this.$db = db; }
    toString() { return `DBRef("${this.$ref}", ${tojson(this.$id)})`; }
  });
  define(class MinKey { toString() { return "MinKey"; } });
  define(class MaxKey { toString() { return "MaxKey"; } });
  define(class Code {
    constructor(code, scope) { this.code = String(code); if (scope !== undefined) this.scope = scope; }
    toString() { return `Code("${this.code}")`; }
  });

  // From JSON to values.
  const revivers = {
    int: (payload) => payload,
    number: Number,
    date: (payload) => new ShellDate(payload),
    regex: ([source, flags]) => new RegExp(source, flags),
    undefined: () => undefined,
    doc: (pairs) => Object.fromEntries(pairs.map(([name, item]) => [name, revive(item)])),
    DBRef: ([ref, id, db]) => new types.DBRef(ref, revive(id), db ?? undefined),
    Code: ([code, scope]) => new types.Code(code, scope === null ? undefined : revive(scope)),
    BinData: ([type, data]) => new types.BinData(type, data),
    Timestamp: ([t, i]) => new types.Timestamp(t, i),
  };
  function revive(raw) {
    if (raw === null || typeof raw !== "object") return raw;
    if (!Array.isArray(raw) && TAG in raw) {
      const [type, payload] = raw[TAG];
      return type in revivers ? revivers[type](payload) : new types[type](payload);
    }
    const value = Array.isArray(raw) ? [] : {};
    for (const name of Object.keys(raw)) {
      if (name === "__proto__") own(value, name, revive(raw[name]));
      else value[name] = revive(raw[name]);
    }
    value[ORIGIN] = raw;
    return value;
  }

  // From values to JSON.
  const tag = (type, payload) => ({ [TAG]: [type, payload] });
  function wasInteger(origin, name, value) {
    const raw = origin?.[name];
    return raw !== null && typeof raw === "object" && raw[TAG]?.[0] === "int" && raw[TAG][1] === value;
  }
  function packObject(value, depth) {
    if (value instanceof RealDate) return tag("date", value.getTime());
    if (value instanceof RegExp) return tag("regex", [value.source, value.flags]);
    if (value instanceof types.ObjectId) return tag("ObjectId", value.str);
    if (value instanceof types.BinData) return tag("BinData", [value.type, value.data]);
    if (value instanceof types.Timestamp) return tag("Timestamp", [value.t, value.i]);
    if (value instanceof types.MinKey) return tag("MinKey", 0);
    if (value instanceof types.MaxKey) return tag("MaxKey", 0);
    if (value instanceof types.Code) return tag("Code", [value.code, value.scope ? pack(value.scope, depth) : null]);
    for (const name of ["NumberLong", "NumberInt", "NumberDecimal"]) {
      if (value instanceof types[name]) return tag(name, String(value.exact));
    }
    const origin = value[ORIGIN];
    const item = (name) => wasInteger(origin, name, value[name])
      ? tag("int", value[name]) : pack(value[name], depth + 1);
    if (Array.isArray(value)) return Array.from(value, (_each, place) => item(place));
    const names = Object.keys(value);
    if (names.includes(TAG)) return tag("doc", names.map((name) => [name, item(name)]));
    const packed = Object.create(null);
    for (const name of names) packed[name] = item(name);
    return packed;
  }
  function pack(value, depth = 0) {
    if (depth > DEPTH) throw new Error("cannot convert a value that nests this deeply to BSON");
    switch (typeof value) {
      case "undefined": return tag("undefined", 0);
      case "number": return Number.isFinite(value) && !Object.is(value, -0) ? value : tag("number", Object.is(value, -0) ? "-0" : String(value));
      case "bigint": return tag("NumberLong", String(value));
      case "function": return tag("Code", [String(value), null]);
      case "symbol": return tag("undefined", 0);
      case "object": return value === null ? null : packObject(value, depth);
      default: return value;
    }
  }

  // MD5 (RFC 1321) of a text's bytes in UTF-8, as a script's `hex_md5`.
  const SINES = Array.from({ length: 64 }, (_each, place) => Math.floor(Math.abs(Math.sin(place + 1)) * 2 ** 32) | 0);
  const TURNS = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
  function md5(text) {
    const bytes = [];
    for (const each of unescape(encodeURIComponent(String(text)))) bytes.push(each.charCodeAt(0));
    const bits = bytes.length * 8;
    bytes.push(0x80);
    while (bytes.length % 64 !== 56) bytes.push(0);
    for (let place = 0; place < 8; place += 1) bytes.push(Math.floor(bits / 2 ** (8 * place)) & 0xff);
    const state = [0x67452301, 0xefcdab89 | 0, 0x98badcfe | 0, 0x10325476];
    for (let start = 0; start < bytes.length; start += 64) {
      let [a, b, c, d] = state;
      for (let step = 0; step < 64; step += 1) {
        const round = step >> 4;
        const [mixed, word] = [
          () => [(b & c) | (~b & d), step],
          () => [(d & b) | (~d & c), 5 * step + 1],
          () => [b ^ c ^ d, 3 * step + 5],
          () => [c ^ (b | ~d), 7 * step],
        ][round]();
        const at = start + (word % 16) * 4;
        const taken = bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
        const sum = (a + mixed + SINES[step] + taken) | 0, turn = TURNS[round][step % 4];
        [a, d, c, b] = [d, c, b, (b + ((sum << turn) | (sum >>> (32 - turn)))) | 0];
      }
      [a, b, c, d].forEach((each, place) => { state[place] = (state[place] + each) | 0; });
    }
    const hex = (word) => [0, 8, 16, 24].map((shift) => hexOf((word >>> shift) & 0xff, 2)).join("");
    return state.map(hex).join("");
  }

  // The shell's functions.
  function doassert(message) { throw new Error(typeof message === "string" ? message : tojson(message)); }
  function tojson(value, _indent, _nolint) {
    if (value === null || value === undefined) return String(value);
    if (typeof value === "string") return stringify(value);
    if (typeof value === "function" || typeof value !== "object") return String(value);
    if (value instanceof RealDate) return `ISODate("${value.toISOString()}")`;
    if (value instanceof RegExp) return String(value);
    if (Array.isArray(value)) return value.length ? `[ ${value.map((each) => tojson(each)).join(", ")} ]` : "[ ]";
    if (types[value.constructor?.name] === value.constructor) return value.toString();
    const fields = Object.keys(value).map((name) => `${stringify(name)} : ${tojson(value[name])}`);
    return fields.length ? `{ ${fields.join(", ")} }` : "{ }";
  }
  const print = (...values) => { state.printed.push(values.map(String).join(" ")); };
  Object.assign(globalThis, {
    Date: ShellDate,
    ISODate: (text) => text === undefined ? new ShellDate() : new ShellDate(/[zZ]|[+-]\d\d:?\d\d$|^[\d-]+$/.test(text) ? text : text + "Z"),
    UUID: (text) => new types.BinData(4, base64(text.replace(/-/g, ""))),
    HexData: (type, text) => new types.BinData(type, base64(text)),
    tojson,
    tojsononeline: tojson,
    print,
    printjson: (value) => print(tojson(value)),
    sleep: (milliseconds) => pass(Number(milliseconds)),
    emit: (...given) => {
      if (given.length !== 2) throw new Error("fast_emit takes 2 args");
      state.emitted.push(given.map((each) => pack(each)));
    },
    hex_md5: md5,
    MD5: md5,
    assert: (condition, message) => { if (!condition) doassert(message === undefined ? "assert failed" : `assert failed : ${message}`); },
    doassert,
    gc: () => {},
    printjsononeline: (value) => print(tojson(value)),
    tojsonObject: tojson,
    isNumber: (value) => typeof value === "number",
    isString: (value) => typeof value === "string",
    isObject: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  });
  function base64(hex) {
    const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const bits = [...hex].map((digit) => parseInt(digit, 16).toString(2).padStart(4, "0")).join("");
    const groups = bits.match(/.{1,6}/g) ?? [];
    const text = groups.map((group) => letters[parseInt(group.padEnd(6, "0"), 2)]).join("");
    return text.padEnd(Math.ceil(text.length / 4) * 4, "=");
  }
  const extend = (type, methods) => {
    for (const [name, value] of Object.entries(methods)) own(type, name, value, false);
  };
  extend(Array, {
    sum: (values) => values.length ? values.reduce((left, right) => left + right) : null,
    avg: (values) => values.length ? Array.sum(values) / values.length : null,
    contains: (values, wanted) => values.indexOf(wanted) !== -1,
    unique: (values) => values.filter((each, place) => values.indexOf(each) === place),
    tojson,
    stdDev: (values) => {
      const mean = Array.avg(values);
      return Math.sqrt(Array.avg(values.map((each) => (each - mean) ** 2)));
    },
    shuffle: (values) => {
      for (let last = values.length - 1; last > 0; last -= 1) {
        const place = Math.floor(Math.random() * (last + 1));
        [values[last], values[place]] = [values[place], values[last]];
      }
      return values;
    },
  });
  extend(Object, {
    extend: (target, source) => Object.assign(target, source),
    merge: (left, right) => ({ ...left, ...right }),
    keySet: (value) => Object.keys(value),
  });
  extend(String.prototype, {
    ltrim() { return this.trimStart(); },
    rtrim() { return this.trimEnd(); },
    pad(length, right, filling = " ") { return right ? this.padEnd(length, filling) : this.padStart(length, filling); },
  });
  extend(Number.prototype, {
    zeroPad(length) { return String(this.valueOf()).padStart(length, "0"); },
    toPercentStr() { return `${(this.valueOf() * 100).toFixed(2)}%`; },
  });

  // What the host calls.
  const functions = [];
  const perform = eval;
  // A script is a function, an arrow function, an expression, or the statements of a function's body.
  function compile(code) {
    if (/^\s*(async\s+)?function\b/.test(code) || /^\s*(async\s*)?(\([^)]*\)|[\w$]+)\s*=>/.test(code)) {
      try {
        const found = perform(`(${code.replace(/;\s*$/, "")}\n)`);
        if (typeof found === "function") return found;
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
      }
    }
    const expression = code.replace(/[;\s]+$/, "");
    try {
      return new Function(`return (${expression}\n)`);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return new Function(code);
    }
  }
  function answer(work) {
    const began = realNow();
    state.emitted = [];
    state.readings = 0;
    let reply;
    try {
      reply = { value: work() };
    } catch (error) {
      reply = { error: error instanceof Error ? `${error.name}: ${error.message}` : `uncaught exception: ${tojson(error)}` };
    }
    state.spent += realNow() - began;
    return stringify({ ...reply, emitted: state.emitted, slept: state.slept, spent: state.spent });
  }
  return {
    arrange: (json) => { Object.assign(state, parse(json)); },
    set: (name, json) => { globalThis[name] = revive(parse(json)); },
    compile: (code) => answer(() => functions.push(compile(code)) - 1),
    call: (number, self, given, condition) => answer(() => {
      const result = functions[number].apply(revive(parse(self)), revive(parse(given)));
      return condition ? Boolean(result) : pack(result);
    }),
    where: (number, document) => answer(() => {
      const obj = revive(parse(document));
      globalThis.obj = obj;
      return Boolean(functions[number].call(obj));
    }),
  };
})()
