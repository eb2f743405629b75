// Elements, made of text alone: whatever a client calls itself, it is text here.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (selector) => document.querySelector(selector);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const h = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

export const s = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

// Replace what an element shows, unless it shows that already: what is focused or selected stays so.
const shown = new WeakMap();
export function show(element, signature, make) {
  if (shown.get(element) === signature) return;
  shown.set(element, signature);
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  element.replaceChildren(...[make()].flat());
  if (focused) element.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

export function toast(text) {
  const element = $("#toast");
  element.textContent = text;
  element.classList.add("on");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => element.classList.remove("on"), 2600);
}

export function duration(seconds) {
  if (seconds < 0.001) return "< 1 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 300) return `${+seconds.toFixed(1)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

export const many = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export function count(number) {
  if (number < 10000) return String(Math.round(number));
  return number < 1e6 ? `${+(number / 1e3).toFixed(1)}k` : `${+(number / 1e6).toFixed(1)}M`;
}
