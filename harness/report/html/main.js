"use strict";
// The page opens: unpack the index, fill the form, show the matrix, and follow the address.

function facts() {
  const results = entries.reduce((sum, entry) => sum + [...entry.statuses].filter((status) => status !== "-").length, 0);
  byId("facts").textContent = [
    plural(results, "result"), `of ${plural(entries.length, "case")}`, `in ${plural(report.columns.length, "column")}`,
    `from ${plural(report.runs.length, "run")}`,
  ].join(" ") + ` · made ${report.created} by pushbackd ${report.pushbackd}`;
  byId("runs").querySelector("ol").replaceChildren(...report.runs.map((run) => make("li", {},
    `${run.name ? `${run.name}: ` : ""}started ${run.started}, ${run.settings.time} time, seed ${run.settings.seed}, pushbackd ${run.pushbackd}`)));
}

function form() {
  for (const spec of report.specs) byId("spec").append(make("option", { value: spec.name }, spec.name));
  const counts = {};
  for (const entry of entries) for (const status of entry.statuses) counts[status] = (counts[status] ?? 0) + 1;
  for (const [status, name] of Object.entries(STATUSES)) {
    if (counts[status]) {
      byId("statuses").append(make("label", { class: `chip ${status}` },
        make("input", { type: "checkbox", value: status }), letter(status), name));
    }
  }
  for (const property of ["adapter", "topology"]) {
    const names = [...new Set(report.columns.map((column) => column[property]))];
    if (names.length < 2) continue;
    byId("columns").append(make("b", {}, property === "adapter" ? "Drivers" : "Deployments"), ...names.map((name) =>
      make("label", {}, make("input", { type: "checkbox", checked: true, "data-property": property, value: name }), name)));
  }
  byId("choice").hidden = !byId("columns").children.length;
}

function legend() {
  const meanings = {
    P: "", F: "", K: "failed, as its expectations file says", U: "passed, though it was expected to fail",
    S: "does not apply here", N: "the run ended before it",
  };
  byId("legend").replaceChildren(...Object.entries(meanings).map(([status, meaning]) =>
    make("div", {}, make("dt", {}, letter(status)), make("dd", {}, [STATUSES[status], meaning].filter(Boolean).join(": ")))));
}

function chooseColumns() {
  const hidden = [...byId("columns").querySelectorAll("input:not(:checked)")];
  shownColumns = [...report.columns.keys()].filter((number) =>
    hidden.every((box) => report.columns[number][box.dataset.property] !== box.value));
}

function filterChanged() {
  groups.narrow.clear();
  chooseColumns();
  show();
}

function everyGroup() {
  return [...new Set(entries.flatMap((entry) => [entry.spec, entry.file]))];
}

/** Of a single run the failures are read, if there are any. */
function groupsWithFailures() {
  const failed = entries.filter((entry) => /[FU]/.test(entry.statuses));
  return [...new Set(failed.flatMap((entry) => [entry.spec, entry.file]))];
}

function listen() {
  let typing = 0;
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("change", (event) => {
    if (event.target !== byId("text")) filterChanged(); // the text has been heard while it was typed
  });
  byId("text").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(filterChanged, 120);
  });
  byId("open").addEventListener("click", () => setOpen(everyGroup(), true));
  byId("close").addEventListener("click", () => setOpen(everyGroup(), false));
  byId("matrix").addEventListener("keydown", walk);
  byId("matrix").addEventListener("click", (event) => {
    const toggle = event.target.closest(".toggle");
    if (toggle) openOrClose(toggle);
    else if (event.target.closest("a")) cameFromMatrix = true;
  });
  byId("case").addEventListener("keydown", turnByKey);
  byId("case").addEventListener("cancel", (event) => { event.preventDefault(); leave(); });
  byId("case").addEventListener("click", (event) => { if (event.target === byId("case")) leave(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !byId("case").open && !/INPUT|SELECT/.test(document.activeElement.tagName)) {
      event.preventDefault();
      byId("text").focus();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#choice")) byId("choice").open = false;
  });
  window.addEventListener("hashchange", followAddress);
}

/** A report of one case in one column, as `pushbackd explain` writes it, is read for that case. */
function openTheOnlyCase() {
  if (entries.length !== 1 || report.columns.length !== 1) return;
  history.replaceState(null, "", `#${new URLSearchParams({ case: entries[0].id, column: report.columns[0].key })}`);
}

async function start() {
  report = await unpack("index");
  entries = listed(report.specs);
  facts();
  form();
  legend();
  chooseColumns();
  if (entries.length * report.columns.length <= CELLS_AT_ONCE / 4) {
    const open = report.runs.length > 1 ? everyGroup() : groupsWithFailures();
    for (const name of open) groups.plain.set(name, true);
  }
  listen();
  show();
  document.documentElement.dataset.ready = "true";
  if (!location.hash) openTheOnlyCase();
  followAddress();
}

start().catch((error) => {
  byId("facts").textContent = `This page cannot be shown: ${error.message}. It needs a browser of 2023 or later.`;
  throw error;
});
