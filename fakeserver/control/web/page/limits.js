// Token buckets and tickets of each server, and the sliders that set them.

import { perform } from "./door.js";
import { $, count, duration, h, show, toast } from "./dom.js";

// Token buckets: rows that stay, so that their bars move and do not jump.

const rows = new Map();

function gauge(title, kind = "") {
  const fill = h("i", { class: "fill" });
  const text = h("span", { class: "figures" });
  const element = h("div", { class: `gauge ${kind}` }, h("span", { class: "what" }, title), h("span", { class: "bar" }, fill), text);
  return { element, set(share, words, kind) {
    fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    element.dataset.kind = kind;
    if (text.textContent !== words) text.textContent = words;
  } };
}

// A pool that is as good as unbounded is no news.
const pools = (server) => Object.keys(server.tickets).filter((name) => server.tickets[name].total < 100000);

function row(server) {
  const gauges = { requests: gauge("requests", "rate"), connections: gauge("connections", "rate") };
  for (const pool of pools(server)) gauges[pool] = gauge(`${pool} tickets`);
  const element = h("div", { class: "bucket-row" }, h("h3", {}, server.name),
    h("div", { class: "gauges" }, Object.values(gauges).map((each) => each.element)));
  return { element, gauges };
}

function fillBucket(bucket, limiter) {
  bucket.element.hidden = !limiter.on;
  if (!limiter.on) return;
  const burst = limiter.rate * limiter.burstSeconds;
  const tokens = limiter.tokens ?? burst;
  const words = [`${count(Math.floor(tokens))} of ${count(burst)}`, `${count(limiter.rate)}/s`];
  if (limiter.queued) words.push(`${count(limiter.queued)} queued`);
  if (limiter.rejected) words.push(`${count(limiter.rejected)} rejected`);
  bucket.set(limiter.tokens === null ? 1 : tokens / burst, words.join(" · "), tokens < 1 ? "bad" : tokens < burst / 4 ? "warn" : "good");
}

function fillPool(bucket, pool) {
  const words = [`${count(pool.total - pool.out)} of ${count(pool.total)} free`];
  if (pool.queued) words.push(`${count(pool.queued)} queued`);
  const share = pool.total ? (pool.total - pool.out) / pool.total : 0;
  bucket.set(share, words.join(" · "), pool.queued ? "bad" : share < 0.25 ? "warn" : "good");
}

export function drawLimits(state) {
  const busy = state.servers.filter((each) => each.process !== "stopped");
  const signature = busy.map((each) => `${each.name}:${pools(each).join()}`).join("|");
  show($("#buckets"), signature, () => {
    rows.clear();
    return busy.map((each) => {
      const made = row(each);
      rows.set(each.name, made);
      return made.element;
    });
  });
  for (const server of busy) {
    const { element, gauges } = rows.get(server.name);
    element.hidden = !pools(server).length && !server.limits.requests.on && !server.limits.connections.on;
    fillBucket(gauges.requests, server.limits.requests);
    fillBucket(gauges.connections, server.limits.connections);
    for (const name of pools(server)) fillPool(gauges[name], server.tickets[name]);
  }
  const limited = busy.filter((each) => each.limits.requests.on || each.limits.connections.on).length;
  $("#limits-facts").textContent = limited ? `${limited} of ${busy.length} servers limit rates` : "no rate is limited";
  groups.forEach((group) => group.follow(state));
}

// Sliders.

const RATES = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 7000, 10000];
const BURSTS = [0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 30, 60];
const QUEUES = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10000];
const TICKETS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256];
const SHARES = [0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1];

// What a verb takes says its unit.
const rate = (n) => `${n}/s`;
const seconds = (n) => `${n}s`;

const GROUPS = [
  { title: "Requests", verb: "limits", start: { requests: 100, requestsBurst: 1, requestsQueue: 0 },
    sliders: [["requests", "rate", RATES, rate, rate], ["requestsBurst", "burst", BURSTS, duration, seconds], ["requestsQueue", "queue", QUEUES, String]],
    off: { off: true }, other: 1,
    now: (server) => server.limits.requests.on && { requests: server.limits.requests.rate, requestsBurst: server.limits.requests.burstSeconds, requestsQueue: server.limits.requests.maxQueueDepth } },
  { title: "New connections", verb: "limits", start: { connections: 10, connectionsBurst: 1, connectionsQueue: 0 },
    sliders: [["connections", "rate", RATES, rate, rate], ["connectionsBurst", "burst", BURSTS, duration, seconds], ["connectionsQueue", "queue", QUEUES, String]],
    off: { off: true }, other: 0,
    now: (server) => server.limits.connections.on && { connections: server.limits.connections.rate, connectionsBurst: server.limits.connections.burstSeconds, connectionsQueue: server.limits.connections.maxQueueDepth } },
  { title: "Tickets", verb: "tickets", start: { read: 8, write: 8 },
    sliders: [["read", "reads", TICKETS, String], ["write", "writes", TICKETS, String]],
    off: { off: true },
    now: (server) => server.fixedTickets && server.tickets.read && { read: server.tickets.read.total, write: server.tickets.write.total } },
  { title: "Load shedding", verb: "shed", start: { share: 0.02 },
    sliders: [["share", "share", SHARES, (n) => `${+(n * 100).toFixed(1)} %`]],
    off: { share: 0 },
    now: (_, state) => state.shedding && { share: state.shedding.share } },
];

let groups = [];

const nearest = (steps, value) => steps.reduce((best, each, index) => Math.abs(Math.log((each + 0.01) / (value + 0.01))) < Math.abs(Math.log((steps[best] + 0.01) / (value + 0.01))) ? index : best, 0);

function slider(key, name, steps, say, write, changed) {
  const text = h("output", { class: "value" });
  const input = h("input", { type: "range", min: 0, max: steps.length - 1, step: 1, "data-key": key });
  const element = h("label", { class: "slider" }, h("span", {}, name), input, text);
  const tell = (value) => {
    text.textContent = say(value);
    input.setAttribute("aria-valuetext", say(value));
  };
  input.addEventListener("input", () => { tell(steps[input.value]); changed(); });
  return { element, input, get: () => write(steps[input.value]), set(value) {
    input.value = nearest(steps, value);
    tell(value);
  } };
}

function group(spec) {
  let timer = 0;
  let touched = 0;
  let shown = spec.start;
  const change = (wait) => {
    touched = Date.now();
    clearTimeout(timer);
    timer = setTimeout(apply, wait);
  };
  const parts = Object.fromEntries(spec.sliders.map(([key, name, steps, say, write = (value) => value]) => [key, slider(key, name, steps, say, write, () => { toggle.checked = true; change(120); })]));
  const toggle = h("input", { type: "checkbox", role: "switch", onchange: () => change(0) });
  const values = () => Object.fromEntries(Object.entries(parts).map(([key, part]) => [key, part.get()]));
  const set = (wanted) => Object.entries(wanted).forEach(([key, value]) => parts[key]?.set(value));
  set(shown);

  async function apply() {
    try {
      if (toggle.checked) await perform(spec.verb, values());
      else {
        await perform(spec.verb, spec.off);
        const other = groups.find((each) => each.spec === GROUPS[spec.other]);
        if (other?.on()) await perform(spec.verb, other.values());
      }
    } catch (refusal) {
      toast(refusal.message);
    }
    touched = Date.now();
  }

  const element = h("fieldset", { class: "sliders" }, h("legend", {}, h("label", { class: "switch" }, toggle, spec.title)),
    Object.values(parts).map((part) => part.element));
  return { spec, element, values, on: () => toggle.checked, follow(state) {
    const server = state.servers.find((each) => each.process !== "stopped" && (each.role !== "ARBITER"));
    if (!server) return;
    if (Date.now() - touched < 1500 || element.contains(document.activeElement) && document.activeElement.type === "range") return;
    const now = spec.now(server, state);
    toggle.checked = Boolean(now);
    element.classList.toggle("on", Boolean(now));
    if (now) set(now);
  } };
}

export function makeSliders(table) {
  const known = new Set(table.filter((verb) => verb.fits).map((verb) => verb.name));
  groups = GROUPS.filter((spec) => known.has(spec.verb)).map(group);
  $("#sliders").replaceChildren(...groups.map((each) => each.element));
}
