// The top of the page: who answers, how many are in which state, what is in trouble of its own, and which ranks are missing.

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
  const { expected, summary, causes = [] } = mesh.head;
  box.className = mesh.missing.length || causes.length ? "some" : "";
  const children = [];
  if (causes.length) {
    const more = summary.causes - causes.length;
    children.push(html("h2", {}, "Trouble"), html("ul", {}, ...causes.map(cause), ...(more ? [html("li", {}, `and ${more.toLocaleString("en")} more`)] : [])));
  }
  // Those that were here are in trouble of their own, or cut off by it.
  const unseen = mesh.missing.filter((one) => one.why === "never_seen");
  const behind = mesh.missing.filter((one) => one.why === "cut_off");
  if (unseen.length) children.push(html("h2", {}, `${unseen.length.toLocaleString("en")} missing`), ...listed(groups(unseen), "unseen"));
  if (behind.length) children.push(folded(`${behind.length.toLocaleString("en")} missing because of it`, listed(groups(behind), "behind"), "because"));
  if (!expected) children.push(html("p", {}, "Which ranks are missing is not known: nobody said how large the job is (", html("code", {}, "--expect 4x8"), ")."));
  else if (!mesh.missing.length) {
    children.push(html("p", {}, `No rank is missing: ${expected.nodes} × ${expected.processes} are expected, and all are here${summary.finished ? " or have finished" : ""}.`));
  }
  keepingFocus(box, children, "data-group");
}

// Nodes in trouble of their own, and how many others that cuts off.
function cause({ positions, count, state, since, cuts_off }) {
  const [group] = groups(positions.map((position) => ({ position, why: state, since })));
  const more = count - positions.length;
  const behind = cuts_off ? `, cuts off ${cuts_off.toLocaleString("en")}` : "";
  const name = more ? `${group.name} and ${more.toLocaleString("en")} more` : group.name;
  return item({ ...group, name }, `cause ${positions[0]}`, behind);
}

function listed(found, kind) {
  const items = found.map((group) => item(group, `${kind} ${group.first}`, ""));
  const list = [html("ul", {}, ...items.slice(0, GROUPS_SHOWN))];
  if (items.length > GROUPS_SHOWN) list.push(folded(`and ${items.length - GROUPS_SHOWN} more`, [html("ul", {}, ...items.slice(GROUPS_SHOWN))], kind));
  return list;
}

// Children that are seen after a click, and stay so when the page changes.
function folded(words, children, key) {
  const made = html("details", { "data-fold": key }, html("summary", {}, words), ...children);
  made.open = Boolean(document.querySelector(`#missing [data-fold="${key}"]`)?.open);
  return made;
}

function item(group, key, behind) {
  return html(
    "li",
    {},
    html(
      "button",
      { type: "button", "data-group": key, onclick: () => choose(group.first, true) },
      swatch(group.why),
      html("span", {}, html("b", {}, group.name), ` ${STATES[group.why].count}${group.since ? ` since ${clock(group.since)}` : ""}${behind}`),
    ),
  );
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
    const whole = group.proxy && group.ranks.length === mesh.head.expected?.processes;
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
