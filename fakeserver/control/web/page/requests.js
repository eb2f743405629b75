// Requests of each second by verdict, and in all.

import { $, count, h, s, show } from "./dom.js";

const SECONDS = 60;
const VERDICTS = {
  ok: "answered", writeError: "write error", error: "error", rejected: "rejected",
  disconnect: "disconnected", silence: "no answer",
};
const [WIDTH, HEIGHT] = [600, 132];

const buckets = new Map();
let last = null;

// The state counts up; what was added since the last look belongs to the second of this look.
function enter(state) {
  if (last) {
    const bucket = buckets.get(Math.floor(state.now)) ?? {};
    for (const [verdict, total] of Object.entries(state.verdicts)) {
      bucket[verdict] = (bucket[verdict] ?? 0) + Math.max(0, total - (last.verdicts[verdict] ?? 0));
    }
    buckets.set(Math.floor(state.now), bucket);
  }
  last = state;
  for (const second of buckets.keys()) if (second <= state.now - SECONDS) buckets.delete(second);
}

const sum = (bucket) => Object.values(bucket ?? {}).reduce((total, each) => total + each, 0);

function nice(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 4)));
  return [1, 2, 5, 10].map((step) => step * power).find((each) => each >= most);
}

function chart(now) {
  const first = Math.floor(now) - SECONDS + 1;
  const top = nice(Math.max(4, ...[...buckets.values()].map(sum)));
  const step = WIDTH / SECONDS;
  const parts = [0.5, 1].flatMap((share) => [
    s("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT * (1 - share), y2: HEIGHT * (1 - share) })]);
  for (const [second, bucket] of buckets) {
    let y = HEIGHT;
    for (const verdict of Object.keys(VERDICTS)) {
      const height = ((bucket[verdict] ?? 0) / top) * HEIGHT;
      if (!height) continue;
      y -= height;
      parts.push(s("rect", { class: `bar ${verdict}`, x: ((second - first) * step + 0.5).toFixed(1), width: (step - 1.5).toFixed(1), y: y.toFixed(1), height: height.toFixed(1) }));
    }
  }
  const recent = sum(buckets.get(Math.floor(now) - 1));
  return [
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `Requests a second over the last minute; ${recent} in the last second` }, parts),
    h("span", { class: "axis top" }, `${count(top)}/s`), h("span", { class: "axis half" }, top < 10 ? String(top / 2) : count(top / 2)),
    h("span", { class: "axis from" }, "60 s ago"), h("span", { class: "axis now" }, "now"),
  ];
}

export function drawRequests(state) {
  enter(state);
  show($("#chart"), `${Math.floor(state.now)} ${JSON.stringify(state.verdicts)}`, () => chart(state.now));
  const total = sum(state.verdicts);
  $("#requests-facts").textContent = `${count(sum(buckets.get(Math.floor(state.now) - 1)))} a second · ${count(total)} in all, without heartbeats`;
  show($("#verdicts"), JSON.stringify(state.verdicts), () => Object.entries(VERDICTS).map(([verdict, name]) =>
    h("li", { class: state.verdicts[verdict] ? null : "none" }, h("i", { class: `swatch ${verdict}` }), name, " ", h("b", {}, count(state.verdicts[verdict] ?? 0)))));
}
