// Finding nodes by rank, role, state, host or version: the others are pale. The page's address keeps what was found and chosen.

const find = document.getElementById("find");

// `found` is the set of the positions that match; null while nothing is searched.
const search = { words: [], found: null };

// A number is a rank, of a node or of a process. Any other word may stand anywhere in what is known of the node.
function matches(node) {
  const known = [node.position, nameOf(node), `node ${node.server_rank}`, STATES[mesh.states.get(node.position)].count, node.address, node.listen, node.version, node.link];
  const text = known.filter(Boolean).join("\n").toLowerCase();
  return search.words.every((word) => (/^\d+$/.test(word) ? [rankOf(node), node.server_rank].includes(Number(word)) : text.includes(word)));
}

function isPale(position) {
  return search.found !== null && !search.found.has(position);
}

// Look for all nodes again, as their states change; paint those for which it makes a difference.
function searchAgain() {
  const before = search.found;
  search.found = search.words.length ? new Set([...mesh.all.values()].filter(matches).map((node) => node.position)) : null;
  if (before === null && search.found === null) return;
  for (const position of picture.elements.keys()) {
    if ((before === null || before.has(position)) === isPale(position)) paint(position);
  }
  document.getElementById("found").textContent = search.found === null ? "" : `${search.found.size.toLocaleString("en")} of ${mesh.all.size.toLocaleString("en")}`;
}

function searchFor(text) {
  if (find.value !== text) find.value = text;
  search.words = text.toLowerCase().split(/\s+/).filter(Boolean);
  searchAgain();
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
