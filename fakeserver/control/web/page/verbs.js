// The verbs, as forms that are made of the table.

import { dotted, perform } from "./door.js";
import { $, h } from "./dom.js";

const LONG = new Set(["DOCUMENT", "DOCUMENTS"]);
let table = [];
let serverNames = () => [];

function field(argument, names, preset) {
  const id = `field-${argument.name}-${Math.random().toString(36).slice(2, 8)}`;
  const given = preset[argument.name];
  const written = given ?? "";
  const said = argument.default === null || argument.default === undefined ? "" : typeof argument.default === "object" ? JSON.stringify(argument.default) : String(argument.default);
  const common = { id, name: argument.name, required: argument.required, "aria-describedby": `${id}-help`, "data-kind": argument.kind };
  let input;
  if (argument.kind === "FLAG") {
    input = h("input", { ...common, required: null, type: "checkbox", checked: Boolean(given ?? argument.default) });
  } else if (argument.known.length) {
    input = h("select", { ...common, value: written }, argument.required ? null : h("option", { value: "" }, said || "–"), argument.known.map((word) => h("option", {}, word)));
  } else if (argument.kind === "SERVER") {
    const words = [...new Set([...(argument.required ? [] : [said]), ...names])];
    input = h("select", common, words.map((word) => h("option", { value: word, selected: word === written }, word)));
  } else if (LONG.has(argument.kind)) {
    input = h("textarea", { ...common, rows: 4, spellcheck: "false", placeholder: said || '{"…": …}', value: typeof written === "object" ? JSON.stringify(written) : written });
  } else {
    input = h("input", { ...common, type: "text", autocomplete: "off", spellcheck: "false", placeholder: said, value: String(written) });
  }
  const help = [argument.help, argument.kind === "SERVER" ? "" : argument.unit].filter(Boolean).join("; ");
  return h("div", { class: `field ${argument.kind === "FLAG" ? "flag" : ""}` }, h("label", { for: id }, argument.name, argument.required ? h("span", { class: "needed", title: "needed" }, " *") : null),
    input, h("small", { id: `${id}-help` }, help));
}

function collected(element) {
  const given = {};
  for (const input of element.querySelectorAll("[data-kind]")) {
    if (input.dataset.kind === "FLAG") {
      if (input.checked) given[input.name] = true;
    } else if (input.value !== "") given[input.name] = input.value;
  }
  return given;
}

function undo(verb, given, result) {
  const back = table.find((each) => each.name === verb.undoneBy);
  if (!back || back === verb) return null;
  const preset = Object.fromEntries(back.arguments.filter((each) => (result[each.name] ?? given[each.name]) !== undefined).map((each) => [each.name, result[each.name] ?? given[each.name]]));
  return h("button", { type: "button", onclick: async (event) => {
    const place = event.currentTarget.closest(".verb-form");
    place.replaceChildren(form(back, serverNames(), preset));
    place.querySelector("input, select, textarea, button")?.focus();
  } }, `${verb.undoneBy} …`);
}

// Return the form of a verb; `preset` are arguments that it begins with.
export function form(verb, names, preset = {}) {
  const answer = h("div", { class: "answer", role: "status" });
  const fields = verb.arguments.map((each) => field(each, names, preset));
  const element = h("form", { novalidate: true, "aria-label": verb.name }, h("h3", {}, verb.name), h("p", { class: "help" }, verb.help),
    fields, h("div", { class: "actions" }, h("button", { class: "primary" }, verb.reads ? "Show" : "Perform"), h("code", {}, `pushbackd ${verb.command}`)), answer);
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    element.querySelectorAll("[aria-invalid]").forEach((each) => each.removeAttribute("aria-invalid"));
    const given = collected(element);
    const button = element.querySelector(".primary");
    button.disabled = true;
    try {
      const result = await perform(verb.name, given);
      const text = JSON.stringify(result, null, 2);
      answer.replaceChildren(h("p", { class: "done" }, "Done", undo(verb, given, result)), text === "{}" ? "" : h("pre", { tabindex: "0" }, text));
    } catch (refusal) {
      const path = refusal.path ?? [];
      const wrong = element.querySelector(`[name="${CSS.escape(String(path[0] ?? ""))}"]`);
      wrong?.setAttribute("aria-invalid", "true");
      wrong?.focus();
      answer.replaceChildren(h("p", { class: "error" }, path.length ? h("code", {}, dotted(path)) : null, refusal.message));
    } finally {
      button.disabled = false;
    }
  });
  return element;
}

function choose(verb) {
  $("#verb-form").className = "verb-form";
  $("#verb-form").replaceChildren(form(verb, serverNames()));
  document.querySelectorAll("#verb-list button").forEach((each) => each.setAttribute("aria-pressed", each.dataset.key === verb.name));
}

// On a narrow page the form is below the list.
function reveal() {
  if (innerWidth <= 760) $("#verb-form").scrollIntoView({ block: "nearest" });
}

export function makeVerbs(verbs, names) {
  [table, serverNames] = [verbs, names];
  const families = new Map();
  for (const verb of verbs.filter((each) => each.fits)) {
    const words = verb.command.split(" ");
    const family = words.length > 1 || verbs.some((each) => each.command.startsWith(`${words[0]} `)) ? words[0] : "other";
    families.set(family, [...(families.get(family) ?? []), verb]);
  }
  const order = [...families].sort(([one], [other]) => (one === "other") - (other === "other"));
  $("#verb-list").replaceChildren(...order.map(([family, members]) => h("div", { class: "family", role: "group", "aria-label": family.replace("-", " ") },
    h("h3", {}, family.replace("-", " ")),
    members.map((verb) => h("button", { type: "button", class: "choice", "data-key": verb.name, "aria-pressed": "false", title: verb.help, onclick: () => { choose(verb); reveal(); } },
      verb.name)))));
  const search = $("#verb-search");
  search.addEventListener("input", () => {
    const text = search.value.trim().toLowerCase();
    for (const family of $("#verb-list").children) {
      const buttons = [...family.querySelectorAll("button")];
      buttons.forEach((each) => { each.hidden = !`${each.textContent} ${each.title}`.toLowerCase().includes(text); });
      family.hidden = buttons.every((each) => each.hidden);
    }
  });
  search.addEventListener("keydown", (event) => {
    const first = [...document.querySelectorAll("#verb-list button")].find((each) => !each.hidden);
    if (event.key === "Enter" && first) { first.click(); $("#verb-form").querySelector("select, input, textarea, button")?.focus(); }
  });
  if (verbs.length) choose(verbs.find((each) => each.name === "stepDown" && each.fits) ?? verbs.find((each) => each.fits));
}
