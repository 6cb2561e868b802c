// Finding nodes by rank, role, state, host or version: the picture has these alone, and, pale, the nodes above them. The
// page's address keeps what was found and chosen.

const find = document.getElementById("find");

// `found` is the set of the positions that match, `kept` the one of those in the picture; null while nothing is searched.
const search = { words: [], found: null, kept: null };

// A number is a rank, of a node or of a process. Any other word may stand anywhere in what is known of the node.
function matches(node) {
  const known = [node.position, nameOf(node), `node ${node.server_rank}`, STATES[mesh.states.get(node.position)].count, node.address, node.listen, node.version, node.link];
  const text = known.filter(Boolean).join("\n").toLowerCase();
  return search.words.every((word) => (/^\d+$/.test(word) ? [rankOf(node), node.server_rank].includes(Number(word)) : text.includes(word)));
}

function isPale(position) {
  return search.found !== null && !search.found.has(position);
}

function isKept(position) {
  return search.kept === null || search.kept.has(position);
}

// Look for all nodes again, as their states change. Returns whether the picture has to be drawn again.
function searchAgain() {
  const { found, kept } = search;
  search.found = search.words.length ? new Set([...mesh.all.values()].filter(matches).map((node) => node.position)) : null;
  search.kept = search.found && withThoseAbove(search.found);
  document.getElementById("found").textContent = search.found === null ? "" : `${search.found.size.toLocaleString("en")} of ${mesh.all.size.toLocaleString("en")}`;
  return !same(found, search.found) || !same(kept, search.kept);
}

// The chosen node stays in the picture as well, whether it was found or not.
function withThoseAbove(found) {
  const kept = new Set([mesh.head.node]);
  for (const position of picture.chosen ? [...found, picture.chosen] : found) {
    for (let at = mesh.all.get(position); at && !kept.has(at.position); at = mesh.all.get(at.parent)) kept.add(at.position);
  }
  return kept;
}

function same(one, other) {
  return one === other || (one !== null && other !== null && one.size === other.size && [...one].every((each) => other.has(each)));
}

function searchFor(text) {
  if (find.value !== text) find.value = text;
  search.words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (searchAgain()) redraw();
}

find.addEventListener("input", () => {
  searchFor(find.value);
  writeAddress();
});
find.addEventListener("keydown", (event) => {
  if (event.key === "Enter") goToNext(event.shiftKey ? -1 : 1, (position) => search.found?.has(position), false);
  else if (event.key === "Escape") {
    searchFor("");
    writeAddress();
    goToNode(picture.current);
  } else return;
  event.preventDefault();
  event.stopPropagation();
});

// `#node=Worker/1/9&find=lost`
function writeAddress() {
  const said = new URLSearchParams();
  if (picture.chosen) said.set("node", picture.chosen);
  if (search.words.length) said.set("find", find.value);
  const text = said.toString().replaceAll("%2F", "/");
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}

function readAddress() {
  const said = new URLSearchParams(location.hash.slice(1));
  searchFor(said.get("find") ?? "");
  const position = said.get("node");
  if (position === null) return;
  if (mesh.all.has(position)) choose(position, true);
  else {
    picture.unknown = position;
    showDetails();
  }
}

addEventListener("hashchange", readAddress);
