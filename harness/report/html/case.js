"use strict";
// One case in one column, in a dialog: why it ended so, expected beside actual, the picture and the timeline.

let cameFromMatrix = false; // whether going back leads to the matrix
let current = null; // the case that is shown

/** Show what the address asks for, or the matrix. */
async function followAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (!asked.has("case")) {
    if (byId("case").open) byId("case").close();
    current = null;
    return;
  }
  const entry = entries.find((each) => each.id === asked.get("case"));
  const column = report.columns.findIndex((each) => each.key === asked.get("column"));
  const number = column >= 0 || !entry ? column : firstResult(entry);
  if (!entry || number === undefined || number < 0 || entry.statuses[number] === "-") {
    showDialog([make("div", { class: "body" }, make("p", {}, `This report has no result of ${asked.get("case")} ${asked.get("column") ?? ""}`))]);
    return;
  }
  current = { entry, number };
  const found = await details(entry, number);
  if (current.entry === entry && current.number === number) showDialog(caseParts(entry, number, found));
}

function showDialog(parts) {
  const dialog = byId("case");
  dialog.replaceChildren(...parts);
  if (!dialog.open) dialog.showModal();
  dialog.querySelector(".body").focus();
}

function leave() {
  if (!location.hash) return;
  if (cameFromMatrix) history.back();
  else {
    history.replaceState(null, "", location.pathname + location.search);
    followAddress();
  }
  cameFromMatrix = false;
}

/** Go to another case or column; going back still leads to the matrix. */
function turn(entry, number) {
  if (entry && number !== undefined) location.replace(link(entry, number));
}

function neighbour(step) {
  const list = entries.filter(filter().wanted);
  const entry = list[list.indexOf(current.entry) + step];
  if (!entry) return [];
  return [entry, entry.statuses[current.number] === "-" ? firstResult(entry) : current.number];
}

function otherColumn(step) {
  const having = shownColumns.filter((number) => current.entry.statuses[number] !== "-");
  return [current.entry, having[having.indexOf(current.number) + step]];
}

function turnByKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || !current) return;
  const [entry, number] = {
    ArrowLeft: () => otherColumn(-1), ArrowRight: () => otherColumn(1), p: () => neighbour(-1), n: () => neighbour(1),
  }[event.key]?.() ?? [];
  turn(entry, number);
}

function caseParts(entry, number, found) {
  const [before, after] = [neighbour(-1), neighbour(1)];
  const header = make("div", { class: "head" },
    make("nav", { "aria-label": "Cases" },
      make("button", { type: "button", disabled: !before.length, onclick: () => turn(...before) }, "‹ previous"),
      make("button", { type: "button", disabled: !after.length, onclick: () => turn(...after) }, "next ›"),
      make("button", { type: "button", "aria-label": "Close", onclick: leave }, "✕")),
    make("div", { class: "crumbs" }, entry.file.replaceAll("/", " › ")),
    make("h2", { id: "case-title" }, entry.description),
    tabs(entry, number));
  const body = make("div", { class: "body", tabindex: -1 },
    ...verdict(entry, number, found), ...values(found), ...evidence(entry, number, found),
    ...again(found.again));
  return [header, body];
}

/** What explains a failure comes first; of what passed, the picture. */
function evidence(entry, number, found) {
  const compared = comparison(found.comparison ?? []);
  const [picture, timeline] = pictures(found.picture, isVirtual(report.columns[number]) ? "virtual ms" : "ms");
  return entry.statuses[number] === "P"
    ? [...picture, ...compared, ...timeline]
    : [...compared, ...causes(found.causes ?? []), ...picture, ...timeline];
}

/** The same case in the other columns: a line for each driver, if there are several deployments. */
function tabs(entry, shown) {
  const several = new Set(report.columns.map((each) => each.topology)).size > 1;
  const lines = drivers().flatMap((numbers) => {
    const having = numbers.filter((number) => entry.statuses[number] !== "-");
    const name = [report.columns[numbers[0]].run, report.columns[numbers[0]].adapter].filter(Boolean).join(" ");
    const links = having.map((number) => tab(entry, number, number === shown, several ? report.columns[number].topology : name));
    if (!several || !links.length) return links;
    return [make("b", {}, name), make("div", {}, ...links)];
  });
  return make("div", { class: several ? "columns several" : "columns" }, ...lines);
}

function tab(entry, number, isCurrent, name) {
  return make("a", {
    href: link(entry, number), "aria-current": isCurrent && "page", title: columnName(report.columns[number]),
    onclick: (event) => { event.preventDefault(); turn(entry, number); },
  }, letter(entry.statuses[number]), name);
}

function verdict(entry, number, found) {
  const status = entry.statuses[number];
  const column = report.columns[number];
  const after = RAN.includes(status) ? ` in ${lasted(entry, number)}` : "";
  const how = `${column.adapter} (${[column.driver, `edition ${column.edition}`].filter(Boolean).join(", ")}) on ${column.topology}, ${column.time} time${column.server && `, server ${column.server}`}`;
  return [
    make("p", { class: `verdict ${status}` }, make("b", {}, STATUSES[status]), `${after} — ${how}`, found.reason ? `\n${found.reason}` : "",
      found.mismatch ? `\n${found.mismatch}` : ""),
    found.place ? make("p", { class: "place" }, found.place) : null,
  ];
}

function section(title, ...parts) {
  return [make("h3", {}, title), ...parts];
}

// ---- Expected and actual ----

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // no JSON, or too long to be whole
  }
}

/** Pair the lines of two texts: the longest common subsequence stands side by side. */
function aligned(one, other) {
  const common = Array.from({ length: one.length + 1 }, () => new Array(other.length + 1).fill(0));
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = other.length - 1; j >= 0; j -= 1) {
      common[i][j] = one[i] === other[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const pairs = [];
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) pairs.push([one[i++], other[j++]]);
    else if (i < one.length && (j === other.length || common[i + 1][j] >= common[i][j + 1])) pairs.push([one[i++], null]);
    else if (pairs.at(-1)?.[1] === null) beside(pairs, other[j++]);
    else pairs.push([null, other[j++]]);
  }
  return pairs;
}

/** Put a line that replaces others beside the first of them. */
function beside(pairs, line) {
  let place = pairs.length;
  while (place > 0 && pairs[place - 1][1] === null) place -= 1;
  pairs[place][1] = line;
}

function values({ expected, actual }) {
  if (expected === undefined && actual === undefined) return [];
  const lines = (text) => (text === undefined ? ["(nothing)"] : pretty(text).split("\n"));
  const rows = aligned(lines(expected), lines(actual)).map(([want, got]) => make("tr", {},
    make("td", { class: want !== null && want !== got && "want" }, want ?? ""),
    make("td", { class: got !== null && want !== got && "got" }, got ?? "")));
  return section("Expected and actual", table("Expected and actual", ["expected", "actual"], rows, "diff"));
}

function table(label, names, rows, kind) {
  const head = make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name))));
  return make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": label }, make("table", { class: kind }, head, make("tbody", {}, ...rows)));
}

// ---- Events ----

const SIGNS = { same: "=", differs: "≠", missing: "−", extra: "+" };

function comparison(rows) {
  if (!rows.length) return [];
  const diverged = new Set(); // clients whose first divergence has been seen
  const several = new Set(rows.map(([client]) => client)).size > 1;
  const shown = rows.map(([client, verdictOf, expected, actual, line, why]) => {
    const first = verdictOf !== "same" && !diverged.has(client);
    if (first) diverged.add(client);
    return make("tr", { class: [verdictOf, first && "first"].filter(Boolean).join(" ") },
      make("td", { class: "sign", title: verdictOf }, SIGNS[verdictOf]),
      several ? make("td", {}, client) : null,
      make("td", {}, line ? String(line) : ""),
      make("td", { class: verdictOf !== "same" && expected && "want" }, expected ?? ""),
      make("td", { class: verdictOf !== "same" && actual && "got" }, first ? make("div", {}, make("span", { class: "flag" }, "first divergence")) : null,
        actual ?? "", why ? make("div", { class: "why" }, why) : null));
  });
  const about = [...new Set(rows.map(([, , , , , , what]) => what))].join(" and ");
  const title = `${about[0].toUpperCase()}${about.slice(1)}, expected and observed`;
  return section(title,
    table(title, ["", ...(several ? ["client or operation"] : []), "line", "expected", "observed"], shown, "events"));
}

function causes(sentences) {
  if (!sentences.length) return [];
  return section("Likely causes", make("ul", { class: "causes" }, ...sentences.map((each) => make("li", {}, each))));
}

// ---- The picture and the timeline ----

function pictures(text, clock) {
  if (!text) return [[], []];
  const svg = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
  const drawing = make("div", { class: "drawing", tabindex: 0, role: "region", "aria-label": "Sequence diagram" }, svg);
  const rows = [...svg.querySelectorAll("g > title")].flatMap(moments);
  return [section("What happened", drawing), section("Timeline", table("Timeline", [clock, "who", "what", "said"], rows, "timeline"))];
}

/** A row of the picture says in its title all that its moments have to say. */
function moments(title) {
  const bad = title.parentElement.classList.contains("bad");
  return title.textContent.split("\n").map((line) => {
    const [at, who, what, ...said] = line.split("  ");
    return make("tr", { class: bad && "bad" }, ...[at, who, what, said.join("  ")].map((part) => make("td", {}, part ?? "")));
  });
}

function again(command) {
  if (!command) return [];
  const copy = make("button", { type: "button", class: "copy", onclick: () => navigator.clipboard?.writeText(command).then(() => { copy.textContent = "copied"; }) }, "copy");
  return section("Run it again", make("div", { class: "again" }, make("code", {}, command), copy));
}
