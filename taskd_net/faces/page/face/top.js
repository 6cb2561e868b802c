// The top of the page: who answers, how many are in which state, and which ranks are missing.

const GROUPS_SHOWN = 12;

function showTop() {
  const head = mesh.head;
  const root = mesh.all.get(head.node);
  const size = head.expected ? `${head.expected.nodes} × ${head.expected.processes} expected` : "";
  document.getElementById("title").replaceChildren(root ? nameOf(root) : head.node, html("small", {}, size));
  const troubled = mesh.missing.length || [...mesh.states.values()].filter((state) => !CALM.has(state)).length;
  document.title = `${troubled ? `(${troubled}) ` : ""}${head.node} · taskd_net`;
  showCounts();
  showMissing();
}

function showCounts() {
  const counts = new Map(Object.keys(STATES).map((state) => [state, []]));
  for (const [position, state] of mesh.states) counts.get(state)?.push(position);
  const items = [...counts].map(([state, positions]) => {
    const inside = [swatch(state), html("span", {}, html("b", {}, positions.length.toLocaleString("en")), ` ${STATES[state].count}`)];
    if (!positions.length || CALM.has(state)) return html("li", positions.length ? {} : { class: "none" }, ...inside);
    const button = html("button", { type: "button", "data-state": state, title: `Go to the next one that is ${STATES[state].count} (N)`, onclick: () => goToNext(1, (position) => mesh.states.get(position) === state) }, ...inside);
    return html("li", {}, button);
  });
  keepingFocus(document.getElementById("counts"), items, "data-state");
}

// Put in new children; what had the focus has it again.
function keepingFocus(element, children, key) {
  const kept = element.contains(document.activeElement) ? document.activeElement.getAttribute(key) : null;
  element.replaceChildren(...children);
  if (kept !== null) element.querySelector(`[${key}="${CSS.escape(kept)}"]`)?.focus();
}

function showMissing() {
  const box = document.getElementById("missing");
  const { expected, summary } = mesh.head;
  box.className = mesh.missing.length ? "some" : "";
  if (!expected) {
    box.replaceChildren(html("p", {}, "Which ranks are missing is not known: nobody said how large the job is (", html("code", {}, "--expect 4x8"), ")."));
    return;
  }
  if (!mesh.missing.length) {
    box.replaceChildren(html("p", {}, `No rank is missing: ${expected.nodes} × ${expected.processes} are expected, and all are here${summary.finished ? " or have finished" : ""}.`));
    return;
  }
  const items = groups(mesh.missing).map((group, index) =>
    html(
      "li",
      {},
      html(
        "button",
        { type: "button", "data-group": `${index}`, onclick: () => choose(group.first, true) },
        swatch(group.why),
        html("span", {}, html("b", {}, group.name), ` ${STATES[group.why].count}${group.since ? ` since ${clock(group.since)}` : ""}`),
      ),
    ),
  );
  const open = box.querySelector("details")?.open;
  const children = [html("h2", {}, `${summary.missing.toLocaleString("en")} missing`), html("ul", {}, ...items.slice(0, GROUPS_SHOWN))];
  if (items.length > GROUPS_SHOWN) {
    const more = html("details", {}, html("summary", {}, `and ${items.length - GROUPS_SHOWN} more`), html("ul", {}, ...items.slice(GROUPS_SHOWN)));
    more.open = Boolean(open);
    children.push(more);
  }
  keepingFocus(box, children, "data-group");
}

// The missing ones, those that belong together in one group: of one node, and whole nodes in a row.
function groups(missing) {
  const nodes = new Map();
  for (const one of missing) {
    const [role, server, process] = one.position.split("/");
    const key = `${server} ${one.why}`;
    if (!nodes.has(key)) nodes.set(key, { server: Number(server), why: one.why, since: one.since, first: one.position, proxy: false, agent: false, ranks: [] });
    const group = nodes.get(key);
    if (one.since && one.since < group.since) group.since = one.since;
    if (role === "Proxy") group.proxy = true;
    else if (role === "Agent") group.agent = true;
    else group.ranks.push(Number(process));
  }
  const found = [];
  for (const group of [...nodes.values()].sort((one, other) => one.server - other.server || one.why.localeCompare(other.why))) {
    const whole = group.proxy && group.ranks.length === mesh.head.expected.processes;
    const last = found.at(-1);
    if (whole && last?.whole && last.why === group.why && last.to === group.server - 1) {
      last.to = group.server;
      last.since = last.since && Math.min(last.since, group.since);
    } else found.push({ ...group, whole, to: group.server });
  }
  return found.map((group) => ({ ...group, name: group.whole ? wholeNodes(group) : partOfNode(group) }));
}

function wholeNodes({ server, to }) {
  return server === to ? `Node ${server}, all of it` : `Nodes ${server}–${to}, all of them`;
}

function partOfNode({ server, proxy, agent, ranks }) {
  const parts = [];
  if (proxy) parts.push(`Proxy ${server}`);
  if (agent) parts.push(`Agent ${server}`);
  if (ranks.length) parts.push(`${ranks.length > 1 ? "Workers" : "Worker"} ${ranges(ranks)}${proxy || agent ? "" : ` on node ${server}`}`);
  return parts.join(", ");
}

// 3, 5–9, 12
function ranges(ranks) {
  const runs = [];
  for (const rank of ranks.sort((one, other) => one - other)) {
    if (runs.length && runs.at(-1)[1] === rank - 1) runs.at(-1)[1] = rank;
    else runs.push([rank, rank]);
  }
  return runs.map(([from, to]) => (from === to ? from : to === from + 1 ? `${from}, ${to}` : `${from}–${to}`)).join(", ");
}
