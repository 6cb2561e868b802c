// The panel: the mesh as a whole, or the node that was chosen.

// States of which it matters since when.
const AWAY = ["not_answering", "lost", "gone", "cut_off", "finished", "stopped"];

// The documents on a state, and on what is to be done.
const DOCUMENTS = {
  strained: "docs/operators-guide.md#an-inbox-is-full",
  not_answering: "docs/operators-guide.md#a-worker-is-frozen",
  never_seen: "docs/operators-guide.md#a-rank-never-joined",
  lost: "docs/status-page.md#reasons-of-a-loss",
  gone: "docs/status-page.md#reasons-of-a-loss",
};
const ALL_STATES = "docs/status.md#states";

const details = document.getElementById("details");

function sentence(node) {
  const state = mesh.states.get(node.position) || node.state;
  const since = AWAY.includes(state) && node.since ? ` since ${clock(node.since)}` : "";
  return `${nameOf(node)}${placeOf(node)}: ${STATES[state].word}${since}`;
}

function showDetails() {
  const node = picture.chosen && mesh.all.get(picture.chosen);
  const kept = document.activeElement && details.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  details.replaceChildren(...(node ? ofNode(node) : ofMesh()));
  if (kept) details.querySelector(`[data-key="${CSS.escape(kept)}"]`)?.focus();
}

function goTo(position, key, ...inside) {
  return html("button", { type: "button", class: "link", "data-key": key, onclick: () => choose(position, true) }, ...inside);
}

function ofMesh() {
  const reporting = [...mesh.nodes.values()].filter((node) => node.parent && !ABSENT.includes(node.state));
  const parts = [
    ...(picture.unknown ? [html("p", { class: "alarm" }, `${picture.unknown}, which the address names, is not known here.`)] : []),
    ...ofJob(),
    html("h2", {}, "All links together"),
    spans(),
    plot(
      "Messages/s",
      [
        { name: "down", points: series(WHOLE, DOWN) },
        { name: "up", points: series(WHOLE, UP) },
      ],
      number,
    ),
    plot(
      "Slowest answers",
      [
        { name: "down", points: series(WHOLE, DOWN_P99) },
        { name: "up", points: series(WHOLE, UP_P99) },
      ],
      duration,
    ),
    plot("In flight", [{ name: "", points: series(WHOLE, IN_FLIGHT) }], number),
  ];
  const slow = (node) => Math.max(node.down.ack_p99 ?? 0, node.up.ack_p99 ?? 0);
  const waiting = (node) => node.down.in_flight + node.up.in_flight + node.down.queued + node.up.queued + (node.inbox?.line ?? 0);
  parts.push(...ranking("Slowest to answer, p99", reporting, slow, duration), ...ranking("Most messages waiting", reporting, waiting, number));
  return parts;
}

function ranking(heading, nodes, value, say) {
  const first = nodes
    .filter((node) => value(node) > 0)
    .sort((one, other) => value(other) - value(one) || inOrder(one, other))
    .slice(0, 5);
  if (!first.length) return [];
  const rows = first.map((node) =>
    html("tr", {}, html("th", {}, goTo(node.position, `${heading} ${node.position}`, nameOf(node)), placeOf(node)), html("td", {}, say(value(node)))),
  );
  return [html("h3", {}, heading), html("table", {}, html("tbody", {}, ...rows))];
}

function ofNode(node) {
  const state = mesh.states.get(node.position);
  const head = [
    html(
      "div",
      { class: "top" },
      html("h2", { id: "who" }, nameOf(node)),
      html("button", { type: "button", "data-key": "close", onclick: () => choose(null, false), title: "Back to the whole mesh (Esc)" }, "close"),
    ),
    html("p", { class: "muted" }, node.position),
    html("p", { class: "state" }, swatch(state), html("span", {}, stateInWords(node, state))),
  ];
  if (state === "never_seen") {
    return [...head, html("h3", {}, "What to do"), html("p", { class: "muted" }, `It is expected by the size of the job, and has never joined. Was its process started, and is its upstream the address of ${mesh.nodes.has(node.parent) ? nameOf(mesh.all.get(node.parent)) : `Proxy ${node.server_rank}`}?`), ...closer(node, state)];
  }
  const at = node.position;
  if (node.parent) {
    head.push(
      spans(),
      plot("Messages/s", [{ name: "to it", points: rates(at, DOWN) }, { name: "from it", points: rates(at, UP) }], number),
      plot("Its answers take", [{ name: "p50", points: series(at, DOWN_P50) }, { name: "p99", points: series(at, DOWN_P99) }], duration),
      plot("In flight", [{ name: "", points: series(at, IN_FLIGHT) }], number),
    );
  }
  return [...head, ...happened(node), ...links(node), ...inbox(node), ...about(node), ...closer(node, state)];
}

function stateInWords(node, state) {
  const below = mesh.below.get(node.position)?.length;
  const begun = state === "strained" ? mesh.strained.get(node.position) : node.since;
  const since = begun ? ` since ${clock(begun)}, ${ago(begun)}` : "";
  const words = (state === "strained" && node.inbox?.closed ? "joined, but takes no messages" : STATES[state].word) + since;
  const reason = AWAY.includes(state) && node.end_reason ? `: ${node.end_reason}` : "";
  return (below ? `${words}; ${below} below it` : words) + reason;
}

function links(node) {
  if (!node.parent) return [];
  const [down, up] = [node.down, node.up].map((flow) => rowsOf("Direction", flow));
  const cell = ([, words, alarm]) => html("td", alarm ? { class: "alarm" } : {}, words ?? "–");
  const line = (row, at) => html("tr", {}, html("th", {}, row[0]), cell(row), cell(up[at]));
  return [
    html("h3", {}, "Its link"),
    html("table", {}, html("thead", {}, html("tr", {}, html("td", {}), html("th", {}, "to it"), html("th", {}, "from it"))), html("tbody", {}, ...down.map(line))),
  ];
}

// By hand: rows of several fields each, which are trouble together.
function inbox(node) {
  if (!node.inbox) return [];
  const { held, room, line, closed } = node.inbox;
  const rows = [
    ...(closed ? [["closed", "nobody reads it", true]] : []),
    ["in it", `${held} of ${room}`, room > 0 && held >= room],
    ["in line before it", number(line), line > 0],
    ...rowsOf("NodeStatus", node, "inbox"),
    ...rowsOf("OwnFigures", node, "inbox"),
  ];
  return [html("h3", {}, "Its inbox"), table(rows)];
}

function about(node) {
  const parent = node.parent && mesh.all.get(node.parent);
  const peers = { taskd_net: "taskd_net", contract: "foreign, the four calls", original: "of the original" };
  const declared = (place) => ["NodeStatus", "OwnFigures"].flatMap((view) => rowsOf(view, node, place));
  // By hand: a link to a node, a row of two fields, and one that has words of its own for each value.
  const rows = [
    ["parent", parent ? goTo(node.parent, "parent", node.parent) : node.parent],
    ["kind of link", node.link_reason ? `${node.link}: ${node.link_reason}` : node.link],
    ...(node.parent ? declared("parent") : []),
    ["kind of node", peers[node.peer] ?? "unknown: behind a foreign node"],
    ...declared("where"),
    ...declared(""),
  ];
  return [html("h3", {}, "About it"), table(rows)];
}

// The commands, the metrics and the document that look closer at a node.
function closer(node, state) {
  const at = mesh.all.get(mesh.head.node)?.listen ? ` --at ${ownAddress()}` : "";
  const commands = ["trace", "ping"].map((name) => html("code", {}, `taskd-net ${name} ${node.position}${at}`));
  const lines = [...commands.map((one) => [one]), ["Metrics: ", ...metrics(node)], ["Document: ", documentOn(state)]];
  return [html("h3", {}, "Look closer"), ...lines.map((line) => html("p", {}, ...line))];
}

// A link, where the node knows an address of the documents; there is none for everybody, so else their name.
function documentOn(state) {
  const name = DOCUMENTS[state] ?? ALL_STATES;
  const site = mesh.head.documents;
  return site ? outside(name.replace(/^docs(.*)\.md/, `${site}$1.html`), name, "document") : html("code", {}, name);
}

function outside(address, words, key) {
  return html("a", { class: "link", href: address, target: "_blank", rel: "noopener", "data-key": key }, words);
}

// The metrics of the node itself, or of the Proxy above it; those of other nodes are found in Prometheus.
function metrics(node) {
  const of = ["Mgr", "Proxy"].includes(node.role) || !node.parent ? node.position : node.parent;
  if (of !== mesh.head.node) return [html("code", {}, `taskd_net_node{position="${of}"}`), " in Prometheus"];
  if (!mesh.head.metrics) return [`none; ${of} serves them with `, html("code", {}, "--metrics-port 9090")];
  const address = `${reached(mesh.head.metrics)}/metrics`;
  return [saved ? html("code", {}, address) : outside(`${location.protocol}//${address}`, address, "metrics")];
}

// Rows without a value are left out.
function table(rows) {
  const shown = rows.filter(([, value]) => value !== null);
  const line = ([name, value, alarm]) => html("tr", {}, html("th", {}, name), html("td", alarm ? { class: "alarm" } : {}, value));
  return html("table", {}, html("tbody", {}, ...shown.map(line)));
}
