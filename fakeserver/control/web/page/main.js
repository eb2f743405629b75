// The page's life: the token, the table of verbs, the state twice a second, the journal as it is entered.

import { ask, enter } from "./door.js";
import { $, count, many, show, toast } from "./dom.js";
import { drawTopology, openServer } from "./topology.js";
import { drawRequests } from "./requests.js";
import { drawLimits, makeSliders } from "./limits.js";
import { drawFaults } from "./faults.js";
import { drawScenario } from "./scenario.js";
import { drawConnections } from "./connections.js";
import { makeVerbs } from "./verbs.js";
import { follow } from "./journal.js";

const EVERY = 500;

function pulse(kind, text) {
  document.body.dataset.pulse = kind;
  if ($("#pulse-text").textContent !== text) $("#pulse-text").textContent = text;
}

function drawFacts(state) {
  const kinds = { single: "standalone", replicaset: "replica set", sharded: "sharded cluster", "load-balanced": "load-balanced cluster" };
  $("#facts").textContent = `${kinds[state.topology] ?? state.topology} · MongoDB ${state.release} · seed ${state.seed}`;
  $("#uri").textContent = state.uri;
  $("#copy").hidden = false;
  document.title = `pushbackd · ${kinds[state.topology] ?? state.topology}`;
}

function draw(state, table) {
  drawFacts(state);
  drawScenario(state);
  drawTopology(state);
  drawRequests(state);
  drawLimits(state);
  drawFaults(state, table);
  drawConnections(state);
}

async function watch(table) {
  for (;;) {
    if (!document.hidden) {
      try {
        draw(await ask("/state"), table);
        pulse("live", "live");
        document.documentElement.dataset.ready = "true";
      } catch (refusal) {
        if (refusal.status === 401) return void needToken();
        if (refusal.status === undefined) throw refusal;
        pulse("lost", refusal.status ? refusal.message : "not reachable");
      }
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

function needToken(message = "") {
  pulse("lost", "no token");
  $("main").hidden = true;
  $("#entry").hidden = false;
  $("#entry-error").textContent = message;
  document.documentElement.dataset.ready = "true";
}

async function begin() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", location.pathname);
    try {
      await enter(given);
    } catch (refusal) {
      return needToken(refusal.message);
    }
  }
  let table;
  try {
    table = (await ask("/control")).verbs;
  } catch (refusal) {
    return needToken(refusal.status === 401 ? "" : refusal.message);
  }
  $("#entry").hidden = true;
  $("main").hidden = false;
  const names = () => [...document.querySelectorAll("#stage .server")].map((each) => each.dataset.key);
  makeVerbs(table, names);
  makeSliders(table);
  openServer(table);
  follow();
  watch(table);
}

$("#entry").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await enter($("#entry-token").value);
  } catch (refusal) {
    return void ($("#entry-error").textContent = refusal.message);
  }
  begin();
});

$("#copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText($("#uri").textContent);
  toast("The connection string is copied");
});

begin();
