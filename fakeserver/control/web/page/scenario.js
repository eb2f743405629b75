// The timeline of a scenario, with a cursor at the present.

import { $, duration, h, show } from "./dom.js";

function read(trigger) {
  const seconds = (word) => {
    const found = new RegExp(`\\b${word} ([\\d.]+)s`).exec(trigger);
    return found ? Number(found[1]) : null;
  };
  return { at: seconds("at") ?? (/^every/.test(trigger) ? 0 : null), every: seconds("every"), lasting: seconds("for"), until: seconds("until") };
}

const WHOLE = [10, 20, 30, 60, 90, 120, 180, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];
const MOST_MARKS = 60;

// The spans in which a step is in effect; one that acts for no time is a thin mark.
function spans({ at, every, lasting, until }, whole) {
  if (at === null) return [];
  if (every === null) return [[at, until ?? at + (lasting ?? 0)]];
  const found = [];
  for (let start = at || every; start < (until ?? whole) && found.length < MOST_MARKS; start += every) found.push([start, start + (lasting ?? 0)]);
  return found;
}

const written = (given) => Object.entries(given)
  .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");

export function drawScenario(state) {
  const { scenario, timeline: steps } = state;
  $("#scenario").hidden = !scenario;
  if (!scenario) return;
  if (!steps?.length) return void ($("#scenario-facts").textContent = scenario.description);
  const { elapsed } = scenario;
  const times = steps.map((each) => read(each.trigger));
  const last = Math.max(elapsed * 1.02, ...times.map((each) => each.until ?? (each.at ?? 0) + (each.lasting ?? each.every ?? 0)));
  const whole = WHOLE.find((each) => each > last) ?? last;
  const over = steps.every((each) => each.state === "over" || each.state === "failed");
  $("#scenario-facts").textContent = `${elapsed < 1 ? "just begun" : duration(Math.floor(elapsed))}${over ? " · over" : ""} · ${scenario.description}`;
  const share = (seconds) => `${Math.min(100, (seconds / whole) * 100)}%`;
  const signature = JSON.stringify([steps.map(({ next, ...rest }) => rest), Math.round(whole)]);
  show($("#timeline"), signature, () => [
    h("ol", { class: "steps" }, steps.map((each, number) => {
      const marks = spans(times[number], whole).map(([from, to]) =>
        h("i", { class: "mark", style: { left: share(from), width: share(Math.max(whole / 250, to - from)) } }));
      return h("li", { "data-state": each.state },
        h("span", { class: "what" }, h("b", {}, each.verb), h("small", { class: "given" }, written(each.arguments)), h("small", {}, `${each.trigger}${each.performed ? ` · performed ${each.performed}×` : ""}`)),
        h("span", { class: "track" }, marks, marks.length ? null : h("small", { class: "waits" }, "when it is met")));
    })),
    h("i", { class: "cursor", "aria-hidden": "true" }),
    h("div", { class: "scale" }, [0, 0.25, 0.5, 0.75, 1].map((part) => h("span", {}, part ? duration(whole * part) : "begin"))),
  ]);
  const cursor = $("#timeline .cursor");
  cursor.style.setProperty("--at", elapsed / whole);
}
