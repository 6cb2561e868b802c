// The picture: what `layout` has placed, as SVG. Elements are kept by position, so that focus stays where it is.

const SVG = "http://www.w3.org/2000/svg";
const tree = document.getElementById("tree");
const scroll = document.getElementById("scroll");

const picture = { placed: null, fixed: null, elements: new Map(), cells: new Map(), chosen: null, current: null, unknown: null };

function draw(name, attributes, ...inside) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
}

const [lines, frames, cells] = ["lines", "frames", "cells"].map((id) => draw("g", { id, role: "none" }));
const chosenRing = draw("rect", { id: "chosen", rx: 5, visibility: "hidden" });
const ring = draw("rect", { id: "ring", rx: 5 });
tree.append(frames, lines, cells, chosenRing, ring);

// The mark of a state in a square of this size; the colour says the same again.
function markOf(state, x, y, side) {
  const [a, b] = [side * 0.26, side * 0.74];
  const m = side / 2;
  switch (state) {
    case "lost":
    case "gone":
      return `M${x + a} ${y + a}L${x + b} ${y + b}M${x + b} ${y + a}L${x + a} ${y + b}`;
    case "cut_off":
      return `M${x + a} ${y + b}L${x + b} ${y + a}`;
    case "finished":
      return `M${x + a} ${y + side * 0.52}L${x + side * 0.44} ${y + b}L${x + b} ${y + side * 0.3}`;
    case "not_answering":
      return `M${x + a} ${y + m}v.01M${x + m} ${y + m}v.01M${x + b} ${y + m}v.01`;
    case "stopped":
      return `M${x + a} ${y + m}H${x + b}`;
    case "strained":
      return `M${x + m} ${y + side * 0.22}V${y + side * 0.56}M${x + m} ${y + side * 0.77}v.01`;
    case "never_seen":
      return side < 12
        ? `M${x + m} ${y + m}v.01`
        : `M${x + side * 0.36} ${y + side * 0.38}a${side * 0.14} ${side * 0.14} 0 1 1 ${side * 0.19} ${side * 0.13}q-${side * 0.05} ${side * 0.03} -${side * 0.05} ${side * 0.11}M${x + m} ${y + side * 0.78}v.01`;
    default:
      return "";
  }
}

// A state as a small tile, for legends and lists.
function swatch(state) {
  const side = 14;
  return draw(
    "svg",
    { class: `swatch ${state}`, width: side, height: side, "aria-hidden": "true" },
    draw("rect", { class: "tile", x: 0.5, y: 0.5, width: side - 1, height: side - 1, rx: 3 }),
    draw("path", { class: "mark", d: markOf(state, 0, 0, side) }),
  );
}

// Lay everything out again, if the tree has another form, or the room for it.
function redraw(form = true) {
  const style = getComputedStyle(scroll);
  const room = scroll.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  // In one column the page gives the picture as much as it may have; what it has depends on the picture.
  const most = parseFloat(style.maxHeight);
  const height = (Number.isNaN(most) ? scroll.clientHeight : most) - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
  if (!form && room === picture.room && height === picture.height) return;
  Object.assign(picture, { room, height });
  const placed = (picture.placed = layout(room, height, picture.fixed));
  if (!placed) return;
  tree.setAttribute("width", Math.ceil(placed.w * placed.scale));
  tree.setAttribute("height", Math.ceil(placed.h * placed.scale));
  tree.setAttribute("viewBox", `0 0 ${placed.w} ${placed.h}`);
  const old = picture.elements;
  picture.elements = new Map();
  picture.cells = new Map();
  const fragment = document.createDocumentFragment();
  for (const cell of placed.cells) {
    const position = cell.node.position;
    const element = old.get(position) || draw("g", { "data-position": position, role: "treeitem", tabindex: "-1" });
    old.delete(position);
    element.replaceChildren();
    element.setAttribute("aria-level", depthOf(cell.node));
    picture.elements.set(position, element);
    picture.cells.set(position, cell);
    fillIn(element, cell, placed.size);
    // Moving an element would take the focus off it.
    if (!element.isConnected) fragment.append(element);
  }
  for (const element of old.values()) element.remove();
  cells.append(fragment);
  frames.replaceChildren(
    ...placed.frames.map((frame) => {
      const { x, y, w, h, r } = frame;
      return draw("rect", { class: "frame", "data-of": frame.node.position, x, y, width: w, height: h, rx: r });
    }),
  );
  lines.replaceChildren(
    ...placed.edges.map((edge) => draw("path", { class: "edge", d: edge.d, ...(edge.node ? { "data-of": edge.node.position } : {}) })),
  );
  for (const position of picture.elements.keys()) paint(position);
  paintParents();
  mark();
  showSize();
}

function depthOf(node) {
  let depth = 1;
  for (let at = node; at && at.position !== mesh.head.node && depth < 20; at = mesh.all.get(at.parent)) depth += 1;
  return depth;
}

function fillIn(element, cell, size) {
  const { node, x, y, w, h } = cell;
  const text = (name, tx, ty, font, anchor = "start") =>
    draw("text", { class: name, x: tx, y: ty, "font-size": font, "text-anchor": anchor });
  if (cell.head) {
    const shape = draw("rect", { class: "shape", x, y, width: w, height: h, rx: 4 });
    // Among dots there is room for a name alone.
    cell.small = !size.text && !cell.root;
    if (cell.small) {
      element.append(shape, draw("path", { class: "mark" }), text("name", x + 1, y + h / 2, size.title));
      return;
    }
    const side = Math.min(size.head - 4 - (size.text ? 4 : 0), 16);
    const [at, top] = [x + 1, y + (h - side) / 2];
    element.append(
      shape,
      draw("rect", { class: "tile", x: at, y: top, width: side, height: side, rx: node.role === "Mgr" ? side / 2 : side / 4 }),
      draw("path", { class: "mark" }),
      text("name", x + side + 6, y + h / 2, size.title),
    );
    if (size.text && cell.leaves.length) element.append(text("share", x + w - 1, y + h / 2, size.font, "end"));
    cell.mark = [at, top, side];
    return;
  }
  const round = node.role === "Agent" ? Math.min(w, h) / 2 : Math.min(5, h / 5);
  element.append(draw("rect", { class: "shape", x, y, width: w, height: h, rx: round }), draw("path", { class: "mark" }));
  switch (size.text) {
    case "words":
      element.append(text("name", x + 12, y + h * 0.33, size.font), text("figures", x + 12, y + h * 0.7, size.font - 2));
      cell.mark = [x + w - 26, y + 5, 18];
      break;
    case "name":
      element.append(text("name", x + 9, y + h / 2, size.font));
      cell.mark = [x + w - 19, y + h / 2 - 8, 16];
      break;
    case "rank":
      element.append(text("name", x + w / 2, y + h / 2, size.font, "middle"));
      cell.mark = null;
      break;
    default:
      cell.mark = [x + (w - h) / 2, y, h];
  }
}

// Across a cell with a rank in it the mark goes from corner to corner.
function across(state, { x, y, w, h }) {
  const [l, r, t, b] = [x + 2.5, x + w - 2.5, y + 2.5, y + h - 2.5];
  if (state === "lost" || state === "gone") return `M${l} ${t}L${r} ${b}M${r} ${t}L${l} ${b}`;
  if (state === "cut_off") return `M${l} ${b}L${r} ${t}`;
  if (state === "not_answering") return `M${r - 8} ${t + 2}v.01M${r - 4} ${t + 2}v.01M${r} ${t + 2}v.01`;
  if (state === "finished") return `M${r - 6} ${t + 3}l2 2.5L${r} ${t}`;
  if (state === "stopped") return `M${r - 6} ${t + 2}H${r}`;
  if (state === "strained") return `M${r - 0.5} ${t + 1}v3M${r - 0.5} ${t + 7}v.01`;
  return "";
}

// Show the state of one node.
function paint(position) {
  const element = picture.elements.get(position);
  const cell = picture.cells.get(position);
  if (!element || !cell) return;
  const node = (cell.node = mesh.all.get(position) || cell.node);
  const state = mesh.states.get(position);
  const size = picture.placed.size;
  const form = cell.head ? "plain" : size.text === "rank" ? "behind" : size.text ? "" : "bare";
  element.setAttribute("class", `node ${form} ${state}${isPale(position) ? " pale" : ""}`);
  element.setAttribute("aria-label", sentence(node));
  element.querySelector(".mark").setAttribute("d", cell.mark ? markOf(state, ...cell.mark) : cell.small ? "" : across(state, cell));
  const name = element.querySelector(".name");
  if (name) name.textContent = cell.small ? markedTitle(node, state) : cell.head ? titleOf(node, size) : labelOf(node, size);
  paintFigures(position);
}

// The name of a Proxy where there is no room for a mark: the mark stands in place of the P.
function markedTitle(node, state) {
  const sign = { lost: "×", gone: "×", not_answering: "…", cut_off: "/", strained: "!", never_seen: "?", stopped: "–" }[state] ?? node.role[0];
  return `${sign}${rankOf(node)}`;
}

function labelOf(node, size) {
  if (size.text === "words" || size.text === "name") return nameOf(node);
  if (node.role === "Worker") return rankOf(node);
  return nameOf(node)[0];
}

// The second line in large cells, and how many of a Proxy's are there.
function paintFigures(position) {
  const cell = picture.cells.get(position);
  const element = picture.elements.get(position);
  const figures = element.querySelector(".figures");
  if (figures) figures.textContent = shortly(mesh.all.get(position));
  const share = element.querySelector(".share");
  if (share) {
    const there = cell.leaves.filter((leaf) => ["joined", "strained"].includes(mesh.states.get(leaf.position))).length;
    share.textContent = `${there}/${cell.leaves.length}`;
  }
}

function shortly(node) {
  const state = mesh.states.get(node.position);
  if (!["joined", "strained"].includes(state)) return AWAY.includes(state) && node.since ? `${STATES[state].count} ${clock(node.since)}` : STATES[state].count;
  const rate = total([rateNow(node.position, DOWN), rateNow(node.position, UP)].filter((value) => !Number.isNaN(value)));
  const answered = node.down.ack_p99 ?? node.up.ack_p99;
  return `${number(rate)}/s${answered === null ? "" : ` · ${duration(answered)}`}`;
}

// Frames and lines have the state of the Proxy that they belong to.
function paintParents() {
  for (const element of tree.querySelectorAll("[data-of]")) {
    const kind = element.getAttribute("class").split(" ")[0];
    element.setAttribute("class", `${kind} ${mesh.states.get(element.dataset.of)}`);
  }
}

// Show which node has the focus, and which one's details are shown.
function mark() {
  if (!picture.cells.has(picture.current)) picture.current = mesh.head.node;
  for (const [position, element] of picture.elements) {
    const current = position === picture.current;
    if (element.tabIndex !== (current ? 0 : -1)) element.setAttribute("tabindex", current ? "0" : "-1");
    element.setAttribute("aria-selected", String(position === picture.chosen));
  }
  around(ring, picture.current, 2.5);
  around(chosenRing, picture.chosen, 1.5);
}

function around(rect, position, far) {
  const cell = picture.cells.get(position);
  rect.setAttribute("visibility", cell ? "visible" : "hidden");
  if (!cell) return;
  for (const [key, value] of Object.entries({ x: cell.x - far, y: cell.y - far, width: cell.w + 2 * far, height: cell.h + 2 * far })) {
    rect.setAttribute(key, value);
  }
}
