// Where everything goes. A Proxy is a block with the cells of its Agent and its Workers, and with the blocks of the
// Proxies below it; blocks stand in rows, and a line leads from each parent along every row. Sizes go from cells with
// words in them to cells that are dots, so that the largest can be taken at which the whole tree is seen at once.

const SIZES = [
  { w: 204, h: 66, gap: 12, pad: 18, head: 38, rail: 34, between: 28, font: 18, title: 19, text: "words", long: true },
  { w: 136, h: 46, gap: 8, pad: 12, head: 28, rail: 26, between: 20, font: 13, title: 14, text: "words", long: true },
  { w: 88, h: 30, gap: 6, pad: 10, head: 24, rail: 22, between: 16, font: 12, title: 13, text: "name", long: true },
  { w: 50, h: 26, gap: 5, pad: 9, head: 22, rail: 18, between: 14, font: 12, title: 13, text: "rank", long: true },
  { w: 34, h: 21, gap: 3, pad: 7, head: 20, rail: 15, between: 11, font: 11, title: 12, text: "rank", long: true },
  { w: 24, h: 17, gap: 2, pad: 5, head: 17, rail: 12, between: 8, font: 10, title: 11, text: "rank" },
  { w: 13, h: 13, gap: 2, pad: 4, head: 14, rail: 10, between: 7, font: 0, title: 10, text: "" },
  { w: 9, h: 9, gap: 1.5, pad: 3, head: 12, rail: 8, between: 5, font: 0, title: 9, text: "" },
];
const TRUNK = 16;
// The largest size is drawn larger by this at most.
const ENLARGED = 1.25;
const ENLARGING_STEPS = 6;

// How wide a text of so many letters is, near enough.
function width(letters, font) {
  return letters * font * 0.61;
}

// The tree as blocks: a node, all its leaves, the cells of those that a search keeps, and the blocks in it.
function blocks() {
  const block = (node) => {
    const below = mesh.below.get(node.position) || [];
    const inner = below.filter((child) => child.role === "Proxy" || mesh.below.has(child.position));
    const leaves = below.filter((child) => !inner.includes(child));
    const kept = (nodes) => nodes.filter((child) => isKept(child.position));
    return { node, all: leaves, leaves: kept(leaves), blocks: kept(inner).map(block) };
  };
  const root = mesh.all.get(mesh.head.node);
  return root ? block(root) : null;
}

// Lay the tree out. `fixed` is the size to take; null for the largest with which it fits into the height, enlarged to
// the room that this leaves, but not to the size above it.
function layout(room, height, fixed) {
  const root = blocks();
  if (!root) return null;
  const most = Math.max(1, ...sizesOf(root));
  // Up to so many columns of cells in a block: the fewest rows of blocks is not always the one with the widest blocks.
  const columns = new Set([1, ...[1, 2, 3, 4, 5, 6].map((rows) => Math.ceil(most / rows))]);
  // All cells are as wide as the longest rank needs, and so are all titles: what is in rows is in columns as well.
  const longest = (role) => largest([...mesh.all.values()].filter((node) => node.role === role).map((node) => String(rankOf(node)).length));
  const [workers, proxies] = [longest("Worker"), longest("Proxy")];
  const sizes = SIZES.map((base) => sizeFor(base, workers, proxies));
  // The lowest arrangement of one size in a room that is `scale` times smaller.
  const arranged = (number, scale) => {
    let best = null;
    for (const many of columns) {
      const measured = measure(root, sizes[number], many, room / scale, true);
      if (measured.w * scale > room && many > 1) continue;
      if (!best || measured.h < best.measured.h) best = { measured, size: sizes[number], number, scale };
    }
    return best;
  };
  const fits = ({ measured, scale }) => measured.h * scale <= height && measured.w * scale <= room;
  let best = null;
  for (const number of fixed === null ? sizes.keys() : [fixed]) {
    best = arranged(number, 1);
    if (fits(best)) break;
  }
  if (fixed === null && fits(best)) best = enlarged(best, arranged, fits, sizes);
  const { measured, size, number, scale } = best;
  const placed = { cells: [], frames: [], edges: [], w: measured.w, h: measured.h, size, number, scale };
  place(measured, size, 0, 0, placed);
  return placed;
}

// A size with the widths that the longest rank and the longest title need.
function sizeFor(base, workers, proxies) {
  const cell = base.text === "rank" ? width(workers, base.font) + 6 : base.text === "name" ? width(7 + workers, base.font) + 34 : 0;
  const letters = (base.long ? 6 : 1) + proxies;
  const title = (base.text ? base.head + width(5, base.font) + 8 : 7) + width(letters, base.title);
  return { ...base, w: Math.max(base.w, Math.ceil(cell)), least: Math.ceil(title) };
}

function enlarged(best, arranged, fits, sizes) {
  const { number } = best;
  let [low, high] = [1, number ? sizes[number - 1].w / sizes[number].w : ENLARGED];
  for (let step = 0; step < ENLARGING_STEPS; step++) {
    const scale = (low + high) / 2;
    const tried = arranged(number, scale);
    if (tried && fits(tried)) [best, low] = [tried, scale];
    else high = scale;
  }
  return best;
}

function sizesOf(block) {
  return [block.leaves.length, ...block.blocks.flatMap(sizesOf)];
}

function titleOf(node, size) {
  return size.long || node.role === "Mgr" ? nameOf(node) : `${node.role[0]}${rankOf(node)}`;
}

function measure(block, size, columns, room, outer) {
  const pad = outer ? 0 : size.pad;
  const title = Math.max((size.text || outer ? size.head + width(5, size.font) + 8 : 7) + width(titleOf(block.node, size).length, size.title), outer ? 0 : size.least);
  const rows = [];
  const inside = room - 2 * pad - (block.blocks.length ? TRUNK : 0);
  let row = null;
  for (const child of block.blocks.map((inner) => measure(inner, size, columns, inside, false))) {
    if (!row || row.w + size.between + child.w > inside) {
      row = { blocks: [], w: -size.between, h: 0 };
      rows.push(row);
    }
    row.blocks.push(child);
    row.w += size.between + child.w;
    row.h = Math.max(row.h, child.h);
  }
  const trunk = rows.length > 1 || !outer ? TRUNK : 0;
  // Where blocks are below them anyway, cells may be as wide as these.
  const many = Math.max(columns, ...rows.map((one) => Math.floor((one.w + size.gap) / (size.w + size.gap))));
  const high = Math.ceil(block.leaves.length / many);
  const cells = { w: Math.min(many, block.leaves.length) * (size.w + size.gap) - size.gap, h: high * (size.h + size.gap) - size.gap };
  let h = size.head;
  if (high) h += cells.h + size.gap;
  for (const one of rows) h += size.rail + one.h;
  const w = Math.max(title, cells.w, ...rows.map((one) => one.w + trunk));
  return { block, rows, cells, columns: many, pad, trunk, outer, title, w: w + 2 * pad, h: h + 2 * pad };
}

function place(measured, size, x, y, placed) {
  const { block, rows, pad, outer } = measured;
  if (!outer) placed.frames.push({ node: block.node, x, y, w: measured.w, h: measured.h, r: Math.min(8, size.pad) });
  const left = x + pad;
  let at = y + pad;
  const single = outer && rows.length === 1;
  const centre = x + measured.w / 2;
  // The root stands in the middle when there is one row below it, else at the head of the line along the rows.
  const titled = outer ? measured.title : measured.w - 2 * pad;
  const head = { node: block.node, leaves: block.all, x: single ? centre - titled / 2 : left, y: at, w: titled, h: size.head, head: true, root: outer };
  placed.cells.push(head);
  at += size.head;
  if (block.leaves.length) {
    at += size.gap;
    const start = single ? centre - measured.cells.w / 2 : left + (rows.length ? measured.trunk : 0);
    for (const [index, node] of block.leaves.entries()) {
      const column = index % measured.columns;
      const line = Math.floor(index / measured.columns);
      placed.cells.push({ node, x: start + column * (size.w + size.gap), y: at + line * (size.h + size.gap), w: size.w, h: size.h });
    }
    at += measured.cells.h;
  }
  if (!rows.length) return;
  const from = single ? centre : left + TRUNK / 2 - 2;
  const top = y + pad + size.head;
  let last = at;
  for (const row of rows) {
    const rail = at + size.rail * 0.62;
    at += size.rail;
    let child = single ? centre - row.w / 2 : left + measured.trunk;
    const ends = [from];
    for (const inner of row.blocks) {
      const drop = single ? child + inner.w / 2 : child + Math.min(inner.w / 2, size.pad + size.head / 2);
      ends.push(drop);
      placed.edges.push({ node: inner.block.node, d: `M${drop} ${rail}V${at}` });
      place(inner, size, child, at, placed);
      child += inner.w + size.between;
    }
    placed.edges.push({ node: null, d: `M${Math.min(...ends)} ${rail}H${Math.max(...ends)}` });
    last = rail;
    at += row.h;
  }
  placed.edges.push({ node: null, d: `M${from} ${top}V${last}` });
}
