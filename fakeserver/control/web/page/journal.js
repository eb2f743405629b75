// The journal as it is entered, newest first.

import { ask } from "./door.js";
import { $, count, duration, h } from "./dom.js";

const KEPT = 2000;
const SHOWN = 250;
const HEARTBEATS = new Set(["hello", "isMaster", "ismaster"]);
const OWN = new Set(["seq", "at", "date", "node", "kind"]);
const OVERLOADED = new Set([433, 449, 450, 462]);

const records = [];
let fresh = [];
let paused = false;
const open = new Set();

function verdict(record) {
  if (record.outcome === undefined) return null;
  if (typeof record.outcome === "number") return [OVERLOADED.has(record.outcome) ? "rejected" : "error", `${record.outcome} ${record.codeName ?? ""}`];
  if (record.outcome === "ok" && (record.writeError || record.writeConcernError)) return ["writeError", `ok, ${record.writeError ?? record.writeConcernError} within`];
  return [record.outcome, record.outcome];
}

function summary(record) {
  if (record.kind === "commandFinished") {
    const waited = record.queue ? ` · ${record.verdict} by ${record.queue}` : "";
    const who = record.appName ? ` · ${record.appName}` : "";
    return `${record.command ?? "(not parsed)"} ${record.namespace ?? record.db ?? ""} · conn${record.connection}${who} · ${duration(record.duration)}${waited}`;
  }
  const hidden = record.command ? new Set([...OWN, "command", "namespace", "db", "requestId"]) : OWN;
  const head = record.command ? `${record.command} ${record.namespace ?? record.db ?? ""} · ` : "";
  return head + Object.entries(record).filter(([key]) => !hidden.has(key)).map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ");
}

function tone(kind) {
  if (/elected/i.test(kind)) return "good";
  if (/stepped|closed|kill|stopp|pause|hit|fault|rule|reject/i.test(kind)) return "warn";
  return "";
}

function row(record) {
  const result = verdict(record);
  const detail = h("pre", { hidden: !open.has(record.seq) });
  const fill = async () => {
    detail.textContent = JSON.stringify(record, null, 1);
    const whole = await ask(`/journal?since=${record.seq - 1}&limit=1&documents=true`).catch(() => ({ records: [] }));
    if (whole.records[0]?.seq === record.seq) detail.textContent = JSON.stringify(whole.records[0], null, 1);
  };
  if (open.has(record.seq)) fill();
  const button = h("button", {
    type: "button", class: "record", "aria-expanded": String(open.has(record.seq)), onclick: () => {
      detail.hidden = !detail.hidden;
      if (detail.hidden) open.delete(record.seq); else { open.add(record.seq); fill(); }
      button.setAttribute("aria-expanded", String(!detail.hidden));
    },
  },
  h("span", { class: "seq" }, String(record.seq)), h("span", { class: "at" }, `${record.at.toFixed(3)} s`),
  h("span", { class: "source" }, record.node), h("span", { class: `kind ${tone(record.kind)}` }, record.kind),
  h("span", { class: "what" }, summary(record)), h("span", { class: `verdict ${result?.[0] ?? ""}` }, result?.[1] ?? ""));
  return h("li", {}, button, detail);
}

function wanted(record) {
  if (HEARTBEATS.has(record.command) && !$("#journal-heartbeats").checked) return false;
  const words = $("#journal-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const text = JSON.stringify(record).toLowerCase();
  return words.every((word) => text.includes(word));
}

function facts() {
  const newest = records.at(-1)?.seq ?? 0;
  $("#journal-facts").textContent = `${count(newest)} entered${paused ? ` · paused, ${count(fresh.length)} more` : ""}`;
}

function flush() {
  if (!paused && fresh.length) {
    const list = $("#records");
    const added = fresh.filter(wanted).slice(-SHOWN).reverse().map(row);
    records.push(...fresh);
    records.splice(0, Math.max(0, records.length - KEPT));
    fresh = [];
    const before = list.scrollHeight;
    list.prepend(...added);
    while (list.children.length > SHOWN) list.lastElementChild.remove();
    if (list.scrollTop > 0) list.scrollTop += list.scrollHeight - before;
  }
  fresh.splice(0, Math.max(0, fresh.length - KEPT));
  facts();
}

function again() {
  $("#records").replaceChildren(...records.filter(wanted).slice(-SHOWN).reverse().map(row));
}

export function follow() {
  const source = new EventSource(`/journal/stream?newest=${SHOWN}`);
  source.addEventListener("record", (event) => {
    fresh.push(JSON.parse(event.data));
  });
  setInterval(flush, 200);
  $("#journal-filter").addEventListener("input", again);
  $("#journal-heartbeats").addEventListener("change", again);
  $("#journal-pause").addEventListener("click", (event) => {
    paused = !paused;
    event.currentTarget.setAttribute("aria-pressed", String(paused));
    event.currentTarget.textContent = paused ? "Go on" : "Pause";
    flush();
  });
}
