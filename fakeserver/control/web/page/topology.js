// The deployment as a drawing: clients, routers, sets and their members, and who reaches whom.

import { $, count, duration, h, many, s, show } from "./dom.js";
import { form } from "./verbs.js";

const ROLES = {
  PRIMARY: "primary", SECONDARY: "secondary", ARBITER: "arbiter", MONGOS: "mongos", STANDALONE: "standalone",
  STARTUP: "starting", RECOVERING: "recovering", REMOVED: "removed", DOWN: "down",
};

export function roleOf(server) {
  if (server.process === "stopped") return "stopped";
  return ROLES[server.role] ?? server.role.toLowerCase();
}

function notes(server) {
  const found = [];
  if (server.process === "paused") found.push(["paused", "bad"]);
  if (server.process === "unreachable") found.push(["cut off", "bad"]);
  if (server.slowSeconds) found.push([`+${duration(server.slowSeconds)}`, "warn"]);
  if (server.lagSeconds) found.push([`lag ${duration(server.lagSeconds)}`, "warn"]);
  if (server.frozenSeconds > 0 && server.frozenSeconds < 1e6) found.push([`frozen ${duration(Math.ceil(server.frozenSeconds))}`, "warn"]);
  if (server.failPoints.length) found.push([many(server.failPoints.length, "fail point"), "warn"]);
  const queued = server.limits.requests.queued + server.limits.connections.queued;
  if (queued) found.push([`${count(queued)} queued`, "warn"]);
  return found;
}

function card(server) {
  const role = roleOf(server);
  const said = notes(server);
  const short = server.name.split("/").pop();
  const label = [server.name, role, ...said.map(([text]) => text), many(server.connections, "connection")].join(", ");
  return h("button", {
    type: "button", class: "server", "data-key": server.name, "data-role": role, "data-process": server.process,
    "data-island": server.island || null, "aria-label": label, "aria-haspopup": "dialog",
  },
  h("span", { class: "name" }, short),
  h("span", { class: "port" }, `:${server.address.split(":").pop()}`),
  h("span", { class: "role" }, role),
  h("span", { class: "connected" }, many(server.connections, "client")),
  h("span", { class: "notes" }, said.map(([text, kind]) => h("span", { class: `note ${kind}` }, text))));
}

function rows(state) {
  const by = new Map(state.servers.map((each) => [each.name, each]));
  const routers = state.servers.filter((each) => each.kind === "mongos");
  const placed = new Set(routers.map((each) => each.name));
  const sets = state.sets.map((set) => {
    const members = state.servers.filter((each) => each.set === set.name || set.members.includes(each.name));
    members.forEach((each) => placed.add(each.name));
    return { set, members };
  });
  const rest = state.servers.filter((each) => !placed.has(each.name));
  return { by, routers, sets, rest };
}

function stage(state) {
  const { routers, sets, rest } = rows(state);
  const total = state.servers.filter((each) => each.kind === "mongos" || !routers.length)
    .reduce((sum, each) => sum + each.connections, 0);
  const parts = [s("svg", { id: "links", "aria-hidden": "true" }),
    h("div", { class: "row" }, h("span", { class: "clients", id: "clients-pill" }, "clients ", h("b", {}, count(total))))];
  if (state.balancers.length) {
    parts.push(h("div", { class: "row" }, state.balancers.map((address) =>
      h("span", { class: "balancer" }, `balancer :${address.split(":").pop()}`))));
  }
  if (routers.length) parts.push(h("div", { class: "row routers" }, routers.map(card)));
  parts.push(h("div", { class: "row sets" }, sets.map(({ set, members }) => h("div",
    { class: "set", role: "group", "aria-label": `${routers.length ? "shard" : "replica set"} ${set.name}` },
    h("div", { class: "label" }, h("b", {}, set.name), ` term ${set.term}`),
    h("div", { class: "members" }, members.map(card)))),
  rest.map(card)));
  return parts;
}

// Links, from the places that the cards have on the page.

function box(element, origin) {
  const { left, top, width, height } = element.getBoundingClientRect();
  return { x: left - origin.left, y: top - origin.top, width, height, middle: left - origin.left + width / 2 };
}

function path(kind, from, to, options = {}) {
  const { bend = 0, cut = false, width = 1.5 } = options;
  const [x1, y1, x2, y2] = [...from, ...to];
  const d = bend
    ? `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 + bend} ${x2} ${y2}`
    : `M${x1} ${y1} C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`;
  const line = s("path", {
    d, class: `${kind}${cut ? " cut" : ""}`, "stroke-width": width,
    "marker-end": kind === "replication" ? `url(#${cut ? "tip-cut" : "tip"})` : null,
  });
  if (!cut) return [line];
  const [x, y] = [(x1 + x2) / 2, bend ? (y1 + y2) / 2 + bend * 0.75 : (y1 + y2) / 2];
  return [line, s("circle", { class: "break", cx: x, cy: y, r: 7 }),
    s("path", { class: "cross", d: `M${x - 3} ${y - 3}l6 6m0 -6l-6 6` })];
}

function tips() {
  const tip = (id) => s("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
    s("path", { d: "M0 0L8 4L0 8z" }));
  return s("defs", {}, tip("tip"), tip("tip-cut"));
}

function replication(set, by, places) {
  const primary = set.primary && by.get(set.primary);
  if (!primary || !places.has(primary.name)) return [];
  const from = places.get(primary.name);
  const others = set.members.filter((name) => name !== set.primary && by.has(name) && by.get(name).role !== "ARBITER");
  return others.flatMap((name, index) => {
    const to = places.get(name);
    const other = by.get(name);
    const cut = other.island !== primary.island || ["stopped", "paused"].includes(other.process);
    const side = Math.sign(to.middle - from.middle) || 1;
    if (Math.abs(to.y - from.y) < from.height / 2) {
      const bend = 16 + Math.min(26, Math.abs(to.middle - from.middle) / 14);
      return path("replication", [from.middle + side * (8 + 6 * index), from.y + from.height], [to.middle, to.y + to.height + 3], { bend, cut });
    }
    const down = to.y > from.y;
    return path("replication", [from.middle + side * 10, down ? from.y + from.height : from.y],
      [to.middle, down ? to.y - 3 : to.y + to.height + 3], { cut });
  });
}

function drawLinks(state) {
  const svg = $("#links");
  if (!svg) return;
  const origin = $("#stage").getBoundingClientRect();
  const { by, routers, sets } = rows(state);
  const places = new Map([...document.querySelectorAll("#stage .server")].map((each) => [each.dataset.key, box(each, origin)]));
  const pill = box($("#clients-pill"), origin);
  const entrances = routers.length ? routers : state.servers;
  const balancers = [...document.querySelectorAll(".balancer")].map((each) => box(each, origin));
  const lines = [tips()];
  const from = balancers.length ? balancers : [pill];
  balancers.forEach((each) => lines.push(...path("client", [pill.middle, pill.y + pill.height], [each.middle, each.y])));
  for (const [index, server] of entrances.entries()) {
    const to = places.get(server.name);
    const cut = server.process === "unreachable" || server.process === "stopped";
    const width = 1 + Math.min(5, Math.log2(1 + server.connections));
    const origins = balancers.length ? from.filter((_, number) => number === 1 || index === 0) : from;
    origins.forEach((each) => lines.push(...path(server.connections || cut ? "client" : "client idle", [each.middle, each.y + each.height], [to.middle, to.y], { cut, width })));
  }
  if (routers.length) {
    const boxes = [...document.querySelectorAll("#stage .set")].map((each) => box(each, origin));
    for (const router of routers) {
      const top = places.get(router.name);
      boxes.forEach((each) => lines.push(...path("client idle", [top.middle, top.y + top.height], [each.middle, each.y], { cut: router.process === "stopped" })));
    }
  }
  sets.forEach(({ set }) => lines.push(...replication(set, by, places)));
  svg.setAttribute("width", origin.width);
  svg.setAttribute("height", origin.height);
  svg.replaceChildren(...lines);
}

let latest = null;

export function drawTopology(state) {
  latest = state;
  const seen = state.servers.map((each) => [each.name, roleOf(each), each.process, each.island, each.connections, notes(each)]);
  const signature = JSON.stringify([seen, state.sets, state.balancers]);
  show($("#stage"), signature, () => stage(state));
  requestAnimationFrame(() => drawLinks(state));
  const running = state.servers.filter((each) => each.process === "running" || each.process === "unreachable").length;
  const cutOff = state.servers.filter((each) => each.process === "unreachable").length;
  const primaries = state.sets.filter((set) => !set.primary).map((set) => `no primary in ${set.name}`);
  $("#topology-facts").textContent = [
    `${running} of ${many(state.servers.length, "server")} running`, ...(cutOff ? [`${count(cutOff)} cut off`] : []), ...primaries,
    ...(state.partitioned ? ["network divided"] : []),
  ].join(" · ");
}

new ResizeObserver(() => latest && drawLinks(latest)).observe($("#stage"));

// A server's own verbs, in a dialog.

export function openServer(table) {
  const dialog = $("#server");
  const own = table.filter((verb) => verb.fits && !verb.reads && verb.arguments.some((each) => each.name === "node"));
  $("#stage").addEventListener("click", (event) => {
    const name = event.target.closest(".server")?.dataset.key;
    if (!name) return;
    const names = latest.servers.map((each) => each.name);
    const place = h("div", { class: "verb-form" });
    const choose = (verb, button) => {
      place.replaceChildren(form(verb, names, { node: name }, () => dialog.close()));
      dialog.querySelectorAll(".choice").forEach((each) => each.setAttribute("aria-pressed", each === button));
    };
    const buttons = own.map((verb) => h("button", {
      type: "button", class: "choice", "aria-pressed": "false", title: verb.help,
      onclick: (each) => choose(verb, each.currentTarget),
    }, verb.command.split(" ").pop().replace(/-/g, " ")));
    const server = latest.servers.find((each) => each.name === name);
    dialog.replaceChildren(
      h("div", { class: "title" }, h("h2", { id: "server-title" }, name),
        h("p", { class: "quiet" }, `${roleOf(server)} · ${server.address} · ${many(server.requests, "request")}`),
        h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
      h("div", { class: "choices" }, buttons), place);
    dialog.showModal();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
