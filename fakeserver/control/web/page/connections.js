// The connections of clients, newest first.

import { $, duration, h, many, show } from "./dom.js";

const MOST = 60;
const age = (seconds) => seconds < 1 ? "just now" : duration(Math.floor(seconds));

export function drawConnections(state) {
  const clients = state.servers.flatMap((server) => server.clients.map((each) => ({ ...each, server: server.name })));
  clients.sort((one, other) => one.seconds - other.seconds);
  const total = state.servers.reduce((sum, each) => sum + each.connections, 0);
  $("#connections-facts").textContent = total > MOST ? `the newest ${MOST} of ${total}` : many(total, "connection");
  const listed = clients.slice(0, MOST);
  const signature = JSON.stringify(listed.map((each) => [each.server, each.id, each.appName, age(each.seconds)]));
  show($("#clients"), signature, () => listed.length ? [
    h("thead", {}, h("tr", {}, ["connection", "application", "driver", "from", "open for"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, listed.map((each) => h("tr", {},
      h("td", {}, `${each.server} conn${each.id}`), h("td", {}, each.appName || "–"),
      h("td", {}, each.driver.replace(/\|+(?=\s|$)/g, "") || "–"), h("td", {}, each.peer), h("td", {}, age(each.seconds))))),
  ] : h("tbody", {}, h("tr", {}, h("td", { class: "empty" }, "No client is connected. Connect one with the address above."))));
}
