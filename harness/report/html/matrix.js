"use strict";
// The matrix: which rows are open, and what stands in them.

const CELLS_AT_ONCE = 8000; // how many cells a filter opens without being asked
const COMPACT_FROM = 6; // with more columns, cells are letters

const groups = { plain: new Map(), narrow: new Map() }; // which groups the reader opened or closed

function isOpen(name, { narrow }, otherwise) {
  return groups[narrow ? "narrow" : "plain"].get(name) ?? otherwise;
}

/** What sets columns apart beyond driver and deployment. */
function traits(columns, among) {
  const various = (name) => new Set(among.map((each) => each[name])).size > 1;
  const same = (name) => new Set(columns.map((each) => each[name])).size === 1;
  const [column] = columns;
  return [
    (various("time") || isVirtual(column)) && same("time") && `${column.time} time`,
    various("server") && same("server") && column.server && `server ${column.server}`,
  ].filter(Boolean).join(" · ");
}

function driverOf(column) {
  return [column.run, column.adapter, column.driver, column.edition].join("\n");
}

/** The shown columns, driver by driver. */
function drivers() {
  const found = new Map();
  for (const number of shownColumns) {
    const name = driverOf(report.columns[number]);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(number);
  }
  return [...found.values()];
}

function heading() {
  const first = make("tr", {}, make("th", { rowspan: 2, class: "name", scope: "col" }, make("b", {}, "Case")));
  const second = make("tr");
  for (const numbers of drivers()) {
    const columns = numbers.map((number) => report.columns[number]);
    first.append(make("th", { colspan: columns.length, scope: "colgroup" },
      make("b", {}, columns[0].adapter),
      make("small", {}, [columns[0].run, columns[0].driver, `edition ${columns[0].edition}`].filter(Boolean).join(" · ")),
      make("small", {}, traits(columns, report.columns))));
    for (const number of numbers) {
      second.append(make("th", { scope: "col", class: "column" },
        broken(report.columns[number].topology), make("small", {}, traits([report.columns[number]], columns)),
        summary(counted(entries, number)), bar(counted(entries, number))));
    }
  }
  return make("thead", {}, first, second);
}

/** A deployment's name, which may be broken before a plus sign or after a hyphen. */
function broken(name) {
  const parts = name.split(/(?=\+)|(?<=-)/).flatMap((part, place) => (place ? [make("wbr"), part] : [part]));
  return make("span", {}, ...parts);
}

/** How many passed of how many, and how many ended otherwise; in narrow columns with letters for words. */
function summary(counts) {
  const narrow = shownColumns.length > COMPACT_FROM;
  const total = Object.entries(counts).reduce((sum, [status, count]) => (status === "-" ? sum : sum + count), 0);
  const passed = counts.P ?? 0;
  const parts = [];
  if (!total) parts.push(make("span", { class: "zero" }, "–"));
  else if (passed === total) parts.push(make("span", { class: "P" }, `${passed}`));
  else parts.push(make("span", { class: passed ? "P" : "zero" }, narrow ? `${passed}/${total}` : `${passed} of ${total}`));
  for (const status of ["F", "U", "K", "N", "S"]) {
    if (!counts[status]) continue;
    const word = narrow || "KUF".includes(status) ? status : STATUSES[status];
    parts.push(make("span", { class: status }, `${counts[status]} ${word}`));
  }
  const told = Object.entries(STATUSES).filter(([status]) => counts[status])
    .map(([status, name]) => `${counts[status]} ${name}`).join(", ");
  return make("div", { class: "sum", title: told }, ...parts.flatMap((part) => [part, " "]));
}

function bar(counts) {
  const strip = make("div", { class: "bar", "aria-hidden": "true" });
  for (const status of ["P", "K", "U", "F", "N", "S"]) {
    if (counts[status]) strip.append(make("i", { class: status, style: `flex:${counts[status]}` }));
  }
  return strip;
}

function groupRow(kind, name, title, list, open) {
  const toggle = make("button", {
    type: "button", class: "toggle", "aria-expanded": String(open), "data-group": name,
  }, title, make("small", {}, plural(list.length, "case")));
  const cells = shownColumns.map((number) => make("td", {}, summary(counted(list, number))));
  return make("tr", { class: kind }, make("th", { scope: "rowgroup", class: "name" }, toggle), ...cells);
}

function link(entry, column) {
  return `#case=${encodeURIComponent(entry.id)}&column=${encodeURIComponent(report.columns[column].key)}`;
}

function cell(entry, number) {
  const status = entry.statuses[number];
  if (status === "-") return make("td", {}, make("span", { class: "empty" }, "–"));
  const time = RAN.includes(status) ? duration(entry.times[number]) : "";
  const told = `${STATUSES[status]}${time && ` in ${time}`}: ${columnName(report.columns[number])}`;
  return make("td", {}, make("a", {
    class: `cell ${status}`, href: link(entry, number), tabindex: -1, title: told, "aria-label": told,
  }, letter(status), make("small", {}, time)));
}

function columnName(column) {
  return [column.run, column.adapter, column.topology, traits([column], report.columns)].filter(Boolean).join(" · ");
}

function firstResult(entry) {
  const worst = [...Object.keys(STATUSES)];
  const having = shownColumns.filter((number) => entry.statuses[number] !== "-");
  return having.sort((one, other) => worst.indexOf(entry.statuses[one]) - worst.indexOf(entry.statuses[other]))[0];
}

function caseRow(entry) {
  const first = firstResult(entry);
  const name = first === undefined ? entry.description : make("a", { href: link(entry, first) }, entry.description);
  return make("tr", { class: "case" }, make("th", { scope: "row", class: "name" }, name),
    ...shownColumns.map((number) => cell(entry, number)));
}

function show() {
  const chosen = filter();
  const { wanted, narrow } = chosen;
  const found = entries.filter(wanted);
  const few = narrow && found.length * shownColumns.length <= CELLS_AT_ONCE;
  const bodies = [];
  for (const [spec, ofSpec] of grouped(found, "spec")) {
    const specOpen = isOpen(spec, chosen, narrow);
    const rows = [groupRow("spec", spec, spec, ofSpec, specOpen)];
    for (const [file, ofFile] of specOpen ? grouped(ofSpec, "file") : []) {
      const fileOpen = isOpen(file, chosen, few);
      rows.push(groupRow("file", file, file.slice(spec.length + 1) || file, ofFile, fileOpen));
      if (fileOpen) rows.push(...ofFile.map(caseRow));
    }
    bodies.push(make("tbody", {}, ...rows));
  }
  byId("matrix").classList.toggle("compact", shownColumns.length > COMPACT_FROM);
  byId("matrix").replaceChildren(byId("matrix").caption, heading(), ...bodies);
  const count = narrow ? `${found.length.toLocaleString("en")} of ` : "";
  byId("count").textContent = count + plural(entries.length, "case");
  byId("none").hidden = found.length > 0;
  byId("matrix").hidden = found.length === 0;
}

function setOpen(names, open) {
  const chosen = groups[filter().narrow ? "narrow" : "plain"];
  for (const name of names) chosen.set(name, open);
  show();
}

function openOrClose(toggle) {
  const name = toggle.dataset.group;
  setOpen([name], toggle.getAttribute("aria-expanded") !== "true");
  document.querySelector(`[data-group="${CSS.escape(name)}"]`).focus();
}

/** Arrow keys go from cell to cell. */
function walk(event) {
  const steps = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
  if (!(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
  const [down, right] = steps[event.key];
  const rows = [...byId("matrix").querySelectorAll("tbody tr")];
  const place = event.target.closest("th, td");
  let row = rows.indexOf(place.parentElement);
  let column = place.cellIndex;
  for (;;) {
    row += down;
    column += right;
    const there = rows[row]?.cells[column];
    if (!there) return;
    const target = there.querySelector("a, button");
    if (target) {
      event.preventDefault();
      target.focus();
      return;
    }
  }
}
