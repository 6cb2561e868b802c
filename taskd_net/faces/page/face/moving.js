// Moving about in the picture, by keyboard and by mouse, and choosing a node.

const tip = document.getElementById("tip");
// As in the style: the details stand below the picture, mostly out of sight.
const ONE_COLUMN = matchMedia("(max-width: 860px)");

// Move the focus in the picture.
function goToNode(position) {
  if (!picture.cells.has(position)) return;
  picture.current = position;
  mark();
  const element = picture.elements.get(position);
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "nearest", inline: "nearest" });
}

// Show the details of a node; null for those of the mesh.
function choose(position, moving) {
  picture.chosen = position;
  picture.unknown = null;
  if (searchAgain()) redraw();
  if (moving && position) goToNode(position);
  mark();
  showDetails();
  askPast();
  writeAddress();
  details.scrollTop = 0;
  if (ONE_COLUMN.matches) (position ? details : tree).scrollIntoView({ block: "start" });
  if (position) say(`Details of ${sentence(mesh.all.get(position))}`);
}

// The nearest cell in a direction: far along it costs once, beside it three times.
function neighbour(position, dx, dy) {
  const from = middle(picture.cells.get(position));
  let best = null;
  let least = Infinity;
  for (const [other, cell] of picture.cells) {
    const to = middle(cell);
    const along = (to.x - from.x) * dx + (to.y - from.y) * dy;
    const beside = Math.abs((to.x - from.x) * dy) + Math.abs((to.y - from.y) * dx);
    if (along <= 1) continue;
    const cost = along + 3 * beside;
    if (cost < least) [best, least] = [other, cost];
  }
  return best;
}

function middle(cell) {
  // The title of a block is as wide as the block: what is below it is below its left end as well.
  return { x: cell.head && !cell.root ? cell.x + Math.min(cell.w, picture.placed.size.w) / 2 : cell.x + cell.w / 2, y: cell.y + cell.h / 2 };
}

// Choose the next node in trouble, in the order of the picture; or the next one that is wanted. One that a search has
// left out comes after those in the picture.
function goToNext(step, wanted = inTrouble, moving = true) {
  const order = [...picture.cells.keys()];
  const start = order.indexOf(picture.current);
  for (let far = 1; far <= order.length; far++) {
    const position = order[(start + step * far + order.length * far) % order.length];
    if (wanted(position)) {
      picture.current = position;
      picture.elements.get(position).scrollIntoView({ block: "nearest", inline: "nearest" });
      choose(position, moving);
      return;
    }
  }
  const other = [...mesh.all.keys()].find(wanted);
  if (other) choose(other, moving);
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

tree.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const arrow = ARROWS[event.key];
  if (arrow) {
    const next = neighbour(picture.current, ...arrow);
    if (next) goToNode(next);
  } else if (event.key === "Enter" || event.key === " ") choose(picture.current, true);
  else if (event.key === "Home") goToNode(mesh.head.node);
  else if (event.key === "End") goToNode([...picture.cells.keys()].at(-1));
  else return;
  event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || legend.open) return;
  if (event.target === find) return;
  if (event.key === "Escape" && picture.chosen) choose(null, false);
  else if (event.key === "/") find.focus();
  else if (event.key === "?") showLegend();
  else if (event.key === "n") goToNext(1);
  else if (event.key === "N") goToNext(-1);
  else if (event.key === "+" || event.key === "=") resize(-1);
  else if (event.key === "-") resize(1);
  else if (event.key === "0") resize(0);
  else return;
  event.preventDefault();
});

tree.addEventListener("click", (event) => {
  const found = event.target.closest("[data-position]");
  if (found) choose(found.dataset.position, true);
});

// A ring only for who moves by keyboard; a mouse shows where it is by itself.
tree.addEventListener("focusin", (event) => {
  const found = event.target.closest("[data-position]");
  if (!found) return;
  picture.current = found.dataset.position;
  mark();
  const keyboard = found.matches(":focus-visible");
  tree.classList.toggle("focused", keyboard);
  // Where its name can be read anyway it would only hide those below.
  if (keyboard && !["words", "name"].includes(picture.placed.size.text)) showTip(picture.current);
});
tree.addEventListener("focusout", () => {
  tree.classList.remove("focused");
  tip.hidden = true;
});
tree.addEventListener("pointerover", (event) => {
  const found = event.target.closest("[data-position]");
  if (found) showTip(found.dataset.position);
  else tip.hidden = true;
});
tree.addEventListener("pointerleave", () => (tip.hidden = true));
scroll.addEventListener("scroll", () => (tip.hidden = true));

function showTip(position) {
  const node = mesh.all.get(position);
  if (!node) return;
  tip.replaceChildren(html("b", {}, nameOf(node)), `${placeOf(node)} · ${shortly(node)}`);
  tip.hidden = false;
  const box = picture.elements.get(position).getBoundingClientRect();
  const own = tip.getBoundingClientRect();
  const below = box.bottom + 6 + own.height < innerHeight;
  tip.style.left = `${Math.max(4, Math.min(box.left, innerWidth - own.width - 4))}px`;
  tip.style.top = `${below ? box.bottom + 6 : box.top - own.height - 6}px`;
}

// Larger, smaller, or as it fits.
function resize(step) {
  const now = picture.placed?.number ?? 0;
  picture.fixed = step === 0 ? null : Math.min(SIZES.length - 1, Math.max(0, now + step));
  redraw();
  picture.elements.get(picture.current)?.scrollIntoView({ block: "nearest" });
}

function showSize() {
  document.getElementById("fit").setAttribute("aria-pressed", String(picture.fixed === null));
  document.getElementById("larger").disabled = picture.placed.number === 0;
  document.getElementById("smaller").disabled = picture.placed.number === SIZES.length - 1;
}

document.getElementById("smaller").addEventListener("click", () => resize(1));
document.getElementById("larger").addEventListener("click", () => resize(-1));
document.getElementById("fit").addEventListener("click", () => resize(0));

// Tell who cannot see it what has changed.
function say(text) {
  document.getElementById("said").textContent = text;
}
