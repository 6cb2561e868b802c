// What is known of the mesh: the nodes as the server tells them, and the missing ones that nobody has ever seen.

const STATES = {
  joined: { word: "joined", count: "joined", meaning: "its stream stands" },
  strained: { word: "joined, but messages wait for it", count: "strained", meaning: "joined, but messages have waited for it for 10 s, or it takes none" },
  not_answering: { word: "not answering", count: "not answering", meaning: "its stream stands, but there was no sign of life for 8 s" },
  cut_off: { word: "cut off: a node above it is away", count: "cut off", meaning: "a node above it is away" },
  lost: { word: "lost", count: "lost", meaning: "its stream is gone; its place is kept for the grace time" },
  gone: { word: "gone", count: "gone", meaning: "lost for longer than the grace time" },
  never_seen: { word: "never seen", count: "never seen", meaning: "expected by the size of the job, and has never joined" },
  finished: { word: "finished", count: "finished", meaning: "a Worker or an Agent that left in good order" },
  stopped: { word: "stopped", count: "stopped", meaning: "a Proxy whose process was told to end" },
};
// The states of nodes that nobody has to look after.
const CALM = new Set(["joined", "finished", "stopped"]);
const ROLES = ["Mgr", "Proxy", "Agent", "Worker"];
// Node ranks from here on are those of tools that join for a moment, also of those that do not say that they are tools.
const TOOL_RANKS = 1e9;

const mesh = {
  head: { node: "", time: 0, expected: null, summary: {} },
  missing: [],
  // The job's Manager; null where the node has none.
  job: null,
  nodes: new Map(),
  // Nodes under a strain, as the history of the server knows them, with the time since which messages wait for them.
  strained: new Map(),
  // Nodes and missing ones by their parent, in order; and the state of each as it is shown.
  below: new Map(),
  all: new Map(),
  states: new Map(),
  token: "",
};

// Take in what the server tells. Returns whether the tree has another form, and whose state has changed.
function take(told) {
  const { nodes, removed, whole, token, ask_again: _, missing, job, strained, ...head } = told;
  let form = whole;
  if (whole) mesh.nodes.clear();
  for (const position of removed) form = mesh.nodes.delete(position) || form;
  for (const node of nodes) {
    const old = mesh.nodes.get(node.position);
    if (!old || old.parent !== node.parent) form = true;
    mesh.nodes.set(node.position, node);
    mesh.all.set(node.position, node);
  }
  mesh.head = head;
  mesh.token = token;
  if (job || whole) mesh.job = job;
  if (strained) mesh.strained = new Map(Object.entries(strained));
  if (missing) {
    mesh.missing = missing;
    form = true;
  }
  if (form) arrange();
  const changed = [];
  const states = new Map();
  for (const [position, node] of mesh.all) {
    const state = stateOf(node);
    states.set(position, state);
    if (mesh.states.get(position) !== state) changed.push(position);
  }
  const first = mesh.states.size === 0;
  const before = mesh.states;
  mesh.states = states;
  return { form, changed, first, before };
}

function stateOf(node) {
  return node.state === "joined" && mesh.strained.has(node.position) ? "strained" : node.state;
}

// Who is below whom. Whoever has no parent here is put below the root, so that nobody is left out.
function arrange() {
  mesh.all = new Map(mesh.nodes);
  for (const { position, why } of mesh.missing) {
    if (why === "never_seen" && !mesh.all.has(position)) mesh.all.set(position, unseen(position));
  }
  const root = mesh.head.node;
  mesh.below = new Map();
  const reached = new Set([root]);
  const children = new Map();
  for (const node of mesh.all.values()) {
    if (node.position === root) continue;
    if (!children.has(node.parent)) children.set(node.parent, []);
    children.get(node.parent).push(node);
  }
  const walk = (position) => {
    const found = (children.get(position) || []).filter((node) => !reached.has(node.position));
    for (const node of found) reached.add(node.position);
    mesh.below.set(position, found);
    for (const node of found) if (children.has(node.position)) walk(node.position);
  };
  walk(root);
  for (const node of mesh.all.values()) {
    if (reached.has(node.position)) continue;
    reached.add(node.position);
    mesh.below.get(root).push(node);
    if (children.has(node.position)) walk(node.position);
  }
  for (const found of mesh.below.values()) found.sort(inOrder);
}

// The stand-in for a rank that should be there.
function unseen(position) {
  const [role, server, process] = position.split("/");
  const proxy = `Proxy/${server}`;
  const there = role !== "Proxy" && (mesh.nodes.has(proxy) || mesh.missing.some((missing) => missing.position === proxy));
  return {
    position,
    role,
    server_rank: Number(server),
    process_rank: process === undefined ? null : Number(process),
    parent: there ? proxy : mesh.head.node,
    state: "never_seen",
  };
}

function inOrder(one, other) {
  return (
    ROLES.indexOf(one.role) - ROLES.indexOf(other.role) ||
    one.server_rank - other.server_rank ||
    (one.process_rank ?? 0) - (other.process_rank ?? 0)
  );
}

function rankOf(node) {
  return node.process_rank ?? node.server_rank;
}

function nameOf(node) {
  if (node.role === "Agent" && node.server_rank >= TOOL_RANKS) return "Tool";
  if (node.service) return `Service ${node.role} ${rankOf(node)}`;
  return `${node.role} ${rankOf(node)}`;
}

function placeOf(node) {
  return node.role === "Worker" ? ` on node ${node.server_rank}` : "";
}

function inTrouble(position) {
  return !CALM.has(mesh.states.get(position));
}
