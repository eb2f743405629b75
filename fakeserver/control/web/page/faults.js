// What is in force now, each with the verb that ends it.

import { perform } from "./door.js";
import { $, count, duration, h, show, toast } from "./dom.js";

function ofServer(server) {
  const node = server.name;
  const found = [];
  if (server.process === "stopped") found.push([node, "stopped", "start", { node }]);
  if (server.process === "paused") found.push([node, "paused", "resume", { node }]);
  if (server.slowSeconds) found.push([node, `every request ${duration(server.slowSeconds)} later`, "slow", { node, seconds: 0 }]);
  if (server.lagSeconds) found.push([node, `${duration(server.lagSeconds)} behind the primary`, "lag", { node, seconds: 0 }]);
  if (server.frozenSeconds > 0 && server.frozenSeconds < 1e6) found.push([node, `seeks no election for ${duration(Math.ceil(server.frozenSeconds))}`, "freeze", { node, seconds: 0 }]);
  return found;
}

const said = (value) => typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
const pairs = (document) => Object.entries(document ?? {}).map(([name, value]) => value === true ? name : `${name} ${said(value)}`).join(", ");
const effects = (list) => (Array.isArray(list) ? list : [list]).map((each) => typeof each === "object" ? pairs(each) : said(each)).join(", ");

// A rule or a fault in words: when it acts, what it does, how often it has.
function told(document) {
  const { id, hits, over, timesLeft, secondsLeft, unmet, rule, do: act, name, ...rest } = document;
  const when = rule ? pairs(rule.when) || "every command" : pairs(rest);
  const then = rule ? (rule.sequence ? `${rule.sequence.length} steps` : rule.then ? effects(rule.then) : rule.expect ? `expected ${said(rule.expect)}` : "held") : pairs(act);
  return `${when} → ${then} · hit ${hits ?? 0}×${unmet ? " · not met yet" : ""}`;
}

function failPoints(state) {
  const by = new Map();
  for (const server of state.servers) {
    for (const point of server.failPoints) {
      const key = `${point.name} ${said(point.mode)}`;
      by.set(key, [...(by.get(key) ?? []), { server, point }]);
    }
  }
  return [...by.values()].map((found) => {
    const { point } = found[0];
    const nodes = found.map((each) => each.server.name);
    const where = nodes.length === state.servers.length ? "every server" : nodes.join(", ");
    return ["fail point", `${point.name}, ${said(point.mode)} · on ${where}`, "setFailPoint", { name: point.name, mode: "off", nodes }];
  });
}

// The rates that servers limit, and the servers that have the same numbers.
function byNumbers(limited) {
  const by = new Map();
  for (const server of limited) {
    const numbers = ["requests", "connections"].filter((what) => server.limits[what].on).map((what) => {
      const { rate, burstSeconds, maxQueueDepth } = server.limits[what];
      return `${what === "requests" ? "requests" : "new connections"} ${count(rate)}/s, burst ${duration(burstSeconds)}${maxQueueDepth ? `, queue ${count(maxQueueDepth)}` : ""}`;
    }).join("; ");
    by.set(numbers, [...(by.get(numbers) ?? []), server.name]);
  }
  return by;
}

function entries(state) {
  const found = [...state.servers.flatMap(ofServer), ...failPoints(state)];
  if (state.partitioned) {
    const islands = new Map();
    state.servers.forEach((each) => islands.set(each.island, [...(islands.get(each.island) ?? []), each.name]));
    found.push(["network", `divided: ${[...islands.values()].map((names) => names.join(" ")).join(" | ")}`, "heal", {}]);
  }
  const limited = state.servers.filter((each) => each.limits.requests.on || each.limits.connections.on);
  for (const [numbers, names] of byNumbers(limited)) {
    found.push(["limits", `${numbers} · on ${names.length === state.servers.length ? "every server" : names.join(", ")}`, "limits", { off: true }]);
  }
  if (state.shedding) found.push(["shedding", `${+(state.shedding.share * 100).toFixed(1)} % of ${state.shedding.seen} operations`, "shed", { share: 0 }]);
  for (const each of state.rules ?? []) if (!each.over) found.push([each.id, told(each), "removeRule", { id: each.id }]);
  for (const each of state.faults ?? []) if (!each.over) found.push([each.id, told(each), "removeFault", { id: each.id }]);
  return found;
}

async function end(verb, given) {
  try {
    await perform(verb, given);
    toast(`${verb} is done`);
  } catch (refusal) {
    toast(refusal.message);
  }
}

export function drawFaults(state, table) {
  const known = new Set(table.map((verb) => verb.name));
  const found = entries(state);
  $("#reset").hidden = !known.has("reset");
  $("#reset").onclick = () => end("reset", {});
  show($("#faults"), JSON.stringify(found), () => found.length ? found.map(([who, what, verb, given]) => h("li", {},
    h("b", {}, who), h("span", { class: "what" }, what),
    known.has(verb) ? h("button", { type: "button", "data-key": `${who} ${what}`, "aria-label": `End: ${who} ${what}`, onclick: () => end(verb, given) }, verb === "start" || verb === "resume" || verb === "heal" ? verb : "end") : null))
    : h("li", { class: "empty" }, "Nothing: every server runs, and no fault is set."));
}
