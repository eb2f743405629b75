"use strict";
// What the page knows: the cases and columns that were packed into it, and which of them the filters want.
// What is shown follows from that and from the address (#case=…&column=…).

const STATUSES = {
  F: "failed", U: "unexpected pass", K: "known failing", P: "passed", N: "not run",
  S: "skipped",
};
const RAN = "FUKP";

const byId = (id) => document.getElementById(id);

/** Make an element: attributes, then children; text is text, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null && child !== ""));
  return element;
}

/** Return the data of a block: JSON, compressed, in base64. */
async function unpack(id) {
  const packed = Uint8Array.from(atob(byId(id).textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const chunks = new Map();
function details(entry, column) {
  const name = `chunk-${entry.chunk}`;
  if (!chunks.has(name)) chunks.set(name, unpack(name));
  return chunks.get(name).then((rows) => rows[entry.place][column]);
}

let report; // the index, as it was packed
let entries; // all cases, in order
let shownColumns; // the numbers of the columns that are not hidden

function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

function duration(milliseconds) {
  if (milliseconds >= 10_000) return `${(milliseconds / 1000).toFixed(0)} s`;
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${milliseconds >= 10 ? milliseconds.toFixed(0) : milliseconds.toFixed(1)} ms`;
}

const isVirtual = (column) => column.time === "virtual";

/** How long a case took; of virtual time that is said, since nobody waited for it. */
function lasted(entry, number) {
  return `${duration(entry.times[number])}${isVirtual(report.columns[number]) ? " of virtual time" : ""}`;
}

function letter(status) {
  return make("span", { class: `letter ${status}`, "aria-hidden": "true" }, status);
}

function listed(specs) {
  return specs.flatMap((spec) => spec.files.flatMap((file) => {
    const group = file.name ? `${spec.name}/${file.name}` : spec.name;
    return file.cases.map(([description, statuses, times, chunk, place]) => ({
      spec: spec.name, file: group, id: `${group}::${description}`,
      description, statuses, times, chunk, place,
      sought: `${group} ${description}`.toLowerCase(),
    }));
  }));
}

/** Whether columns disagree: among those that ran the case, or on one deployment. */
function differs(entry) {
  const ran = new Set();
  const onTopology = new Map();
  for (const number of shownColumns) {
    const status = entry.statuses[number];
    if (status === "-") continue;
    if (RAN.includes(status)) ran.add(status);
    const { topology } = report.columns[number];
    if (onTopology.has(topology) && onTopology.get(topology) !== status) return true;
    onTopology.set(topology, status);
  }
  return ran.size > 1;
}

function filter() {
  const words = byId("text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const statuses = [...byId("statuses").querySelectorAll(":checked")].map((box) => box.value);
  const spec = byId("spec").value;
  const differ = byId("differ").checked;
  const wanted = (entry) =>
    (!spec || entry.spec === spec)
    && words.every((word) => entry.sought.includes(word))
    && (!statuses.length || shownColumns.some((number) => statuses.includes(entry.statuses[number])))
    && (!differ || differs(entry));
  return { wanted, narrow: Boolean(words.length || statuses.length || spec || differ) };
}

function grouped(list, name) {
  const groups = new Map();
  for (const entry of list) {
    if (!groups.has(entry[name])) groups.set(entry[name], []);
    groups.get(entry[name]).push(entry);
  }
  return groups;
}

function counted(list, column) {
  const counts = {};
  for (const entry of list) counts[entry.statuses[column]] = (counts[entry.statuses[column]] ?? 0) + 1;
  return counts;
}
