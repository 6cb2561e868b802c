// The meaning of forms, marks and keys, on request; and the next command, where nobody has joined.

const FORMS = [
  ["block", "a Proxy, with what is below it"],
  ["round cell", "its Agent"],
  ["square cell", "a Worker, with its rank"],
  ["line", "from a parent to its Proxies; broken in red where the Proxy is away"],
];
const KEYS = [
  ["Tab", "through the page, and into the picture"],
  ["← ↑ ↓ →, Home, End", "from node to node in the picture; the first, the last"],
  ["Enter, Esc", "details of the node; of the whole mesh"],
  ["N, Shift+N", "next and previous node in trouble"],
  ["/", "search; there Enter goes to the next found node, and Esc ends the search"],
  ["+, −, 0", "zoom"],
  ["?", "this legend"],
];

const legend = document.getElementById("legend");

function showLegend() {
  const rows = (pairs) => html("table", {}, html("tbody", {}, ...pairs.map(([name, words]) => html("tr", {}, html("th", { scope: "row" }, ...[name].flat()), html("td", {}, words)))));
  const states = Object.entries(STATES).map(([state, { count, meaning }]) => [[swatch(state), count], meaning]);
  legend.replaceChildren(
    html("h2", { id: "legend-title" }, "Legend"),
    html("h3", {}, "States"), rows(states),
    html("h3", {}, "Forms"), rows(FORMS),
    html("h3", {}, "Keys"), rows(KEYS),
    html("form", { method: "dialog" }, html("button", { class: "plain" }, "Close")),
  );
  legend.showModal();
}

document.getElementById("help").addEventListener("click", showLegend);

// The address of the node whose page this is, as others reach it.
function ownAddress() {
  return reached(mesh.all.get(mesh.head.node)?.listen ?? "") || "HOST:PORT";
}

// An address at which this node listens, as others reach it: where it listens on every interface, it has the page's host.
function reached(listen) {
  const port = listen.slice(listen.lastIndexOf(":") + 1);
  return /^(0\.0\.0\.0|\[::\]):/.test(listen) ? `${location.hostname || "HOST"}:${port}` : listen;
}

function showEmpty() {
  const empty = document.getElementById("empty");
  empty.hidden = mesh.nodes.size > 1;
  if (empty.hidden) return;
  const isMgr = mesh.head.node.startsWith("Mgr");
  const command = isMgr ? `taskd-net proxy --upstream ${ownAddress()} --server-rank 0` : `taskd-net listen --as Worker/${mesh.all.get(mesh.head.node)?.server_rank ?? 0}/0 --upstream ${ownAddress()}`;
  const words = isMgr ? "Nobody has joined yet. On each node, with its rank:" : "Nobody has joined yet. A training process joins by init_taskd_worker; by hand:";
  const text = [words, command].join(" ");
  if (empty.textContent.trim() !== text) empty.replaceChildren(`${words} `, html("code", {}, command));
}
