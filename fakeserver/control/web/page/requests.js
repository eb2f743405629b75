// Requests by verdict: of the last minute by second, or of ten minutes, which the server keeps; and how long they took.

import { $, count, duration, h, s, show } from "./dom.js";

const SECONDS = 60;
const VERDICTS = {
  ok: "answered", writeError: "write error", error: "error", rejected: "rejected",
  disconnect: "disconnected", silence: "no answer",
};
const [WIDTH, HEIGHT] = [600, 132];
const STEP = 10; // seconds of a bar of ten minutes
const RANGES = {
  minute: { bars: SECONDS, seconds: 1, from: "60 s ago", said: "the last minute" },
  long: { bars: 60, seconds: STEP, from: "10 min ago", said: "the last ten minutes" },
};
let range = "minute";

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

// The bars of what is shown, by the number of the bar's time, and the number of the newest.
function bars(state) {
  if (range === "minute") return [buckets, Math.floor(state.now)];
  return [new Map(state.history.map((row) => [row.from / STEP, row.verdicts])), Math.floor(state.now / STEP)];
}

function chart(state) {
  const shown = RANGES[range];
  const [counted, newest] = bars(state);
  const first = newest - shown.bars + 1;
  const now = state.now;
  const top = nice(Math.max(4 * shown.seconds, ...[...counted.values()].map(sum)));
  const step = WIDTH / shown.bars;
  const parts = [0.5, 1].flatMap((share) => [
    s("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT * (1 - share), y2: HEIGHT * (1 - share) })]);
  for (const [second, bucket] of counted) {
    if (second < first) continue;
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
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `Requests a second over ${shown.said}; ${recent} in the last second` }, parts),
    h("span", { class: "axis top" }, `${count(top / shown.seconds)}/s`), h("span", { class: "axis half" }, String(+(top / 2 / shown.seconds).toFixed(1))),
    h("span", { class: "axis from" }, shown.from), h("span", { class: "axis now" }, "now"),
  ];
}

export function drawRequests(state) {
  enter(state);
  show($("#chart"), `${range} ${Math.floor(state.now)} ${JSON.stringify(state.verdicts)}`, () => chart(state));
  const { p50, p90, p99 } = state.latency;
  const words = Object.entries({ p50, p90, p99 }).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${duration(value)}`);
  $("#latency").textContent = words.length ? `${words.join(" · ")} over the last minute, without getMore` : "";
  const total = sum(state.verdicts);
  $("#requests-facts").textContent = `${count(sum(buckets.get(Math.floor(state.now) - 1)))} a second · ${count(total)} in all, without heartbeats`;
  show($("#verdicts"), JSON.stringify(state.verdicts), () => Object.entries(VERDICTS).map(([verdict, name]) =>
    h("li", { class: state.verdicts[verdict] ? null : "none" }, h("i", { class: `swatch ${verdict}` }), name, " ", h("b", {}, count(state.verdicts[verdict] ?? 0)))));
}

for (const button of document.querySelectorAll("#ranges button")) {
  button.addEventListener("click", () => {
    range = button.dataset.range;
    for (const each of document.querySelectorAll("#ranges button")) each.setAttribute("aria-pressed", each === button);
    if (last) drawRequests(last);
  });
}
