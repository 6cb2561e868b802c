// Figures of the last minutes, kept here: a sample of every node each two seconds. Older ones are in the past.

const SAMPLE_S = 2;
const SAMPLES = 150;
// A rate is taken over so many samples, as figures arrive from different depths at different times.
const RATE_SAMPLES = 3;
// The columns of the samples are in COLUMNS, which the server writes before all scripts from `observe/series.py`.
const FIELDS = COLUMNS.length;
const [DOWN, UP, DOWN_P50, DOWN_P99, IN_FLIGHT, UP_P99] = ["down", "up", "down_p50", "down_p99", "in_flight", "up_p99"].map((name) => COLUMNS.findIndex((column) => column.name === name));

// The states of nodes that are away: their last figures are no sample.
const ABSENT = ["lost", "gone", "cut_off", "finished", "stopped"];

// The sums over all links, under a name that no node has: the one of those that have no parent.
const WHOLE = "";
const total = (values) => values.reduce((sum, value) => sum + value, 0);
const largest = (values) => values.reduce((most, value) => Math.max(most, value), 0);

const times = new Float64Array(SAMPLES).fill(NaN);
const rings = new Map();
let taken = 0;
// The next sample comes after a time without answers, or from another process: nothing is known of the time between.
let interrupted = false;

// Sample all nodes, if it is time to.
function sample() {
  const now = mesh.head.time;
  const last = times[(taken - 1 + SAMPLES) % SAMPLES];
  if (now - last < SAMPLE_S * 0.9) return;
  if (interrupted && taken) {
    times[taken % SAMPLES] = (last + now) / 2;
    for (const ring of rings.values()) ring.fill(NaN, (taken % SAMPLES) * FIELDS, ((taken % SAMPLES) + 1) * FIELDS);
    taken += 1;
  }
  interrupted = false;
  const at = taken % SAMPLES;
  times[at] = now;
  taken += 1;
  const whole = COLUMNS.map((column) => (column.whole === "sum" ? 0 : NaN));
  for (const [position, node] of mesh.nodes) {
    const { parent, state } = node;
    if (ABSENT.includes(state)) {
      keep(position, at, new Array(FIELDS).fill(NaN));
      continue;
    }
    // A counter is kept as it is, and its rate is made when it is shown.
    const values = COLUMNS.map(({ figures }) => total(figures.map(([way, figure]) => node[way][figure] ?? NaN)));
    keep(position, at, values);
    if (!parent || position === mesh.head.node) continue;
    for (const [field, column] of COLUMNS.entries()) {
      const value = values[field];
      if (column.whole === "sum") whole[field] += column.taken === "rate" ? rateNow(position, field) || 0 : value;
      else if (column.whole === "most" && !(value <= whole[field]) && !Number.isNaN(value)) whole[field] = value;
    }
  }
  // One sample makes no rate.
  if (taken < 2) for (const [field, column] of COLUMNS.entries()) if (column.taken === "rate") whole[field] = NaN;
  keep(WHOLE, at, whole);
  for (const [position, ring] of rings) {
    if (position !== WHOLE && !mesh.nodes.has(position)) {
      // What has left keeps its past for as long as it is seen.
      ring.fill(NaN, at * FIELDS, (at + 1) * FIELDS);
      if (ring.every(Number.isNaN)) rings.delete(position);
    }
  }
}

function keep(position, at, values) {
  let ring = rings.get(position);
  if (!ring) rings.set(position, (ring = new Float64Array(SAMPLES * FIELDS).fill(NaN)));
  ring.set(values, at * FIELDS);
}

// The own samples of one field, oldest first, as [seconds ago, value]; NaN where nothing is known.
function own(position, field) {
  const ring = rings.get(position);
  const points = [];
  for (let back = Math.min(taken, SAMPLES) - 1; back >= 0; back--) {
    const at = (taken - 1 - back + SAMPLES) % SAMPLES;
    points.push([mesh.head.time - times[at], ring ? ring[at * FIELDS + field] : NaN]);
  }
  return points;
}

// The samples of one field with those of the past before them.
function series(position, field) {
  return withPast(position, field, own(position, field));
}

// A counter as a rate for each second.
function rates(position, field) {
  const counts = own(position, field);
  const points = counts.map(([ago, count], index) => {
    let first = index;
    while (first > 0 && index - first < RATE_SAMPLES && !Number.isNaN(counts[first - 1][1])) first -= 1;
    if (first === index) return [ago, NaN];
    const rate = (count - counts[first][1]) / (counts[first][0] - ago);
    // A counter that begins anew says nothing for a moment.
    return [ago, rate < 0 ? NaN : rate];
  });
  return withPast(position, field, points);
}

function rateNow(position, field) {
  const ring = rings.get(position);
  if (!ring || taken < 2) return NaN;
  const last = (taken - 1) % SAMPLES;
  const first = (taken - 1 - Math.min(RATE_SAMPLES, taken - 1, SAMPLES - 1) + SAMPLES) % SAMPLES;
  const rate = (ring[last * FIELDS + field] - ring[first * FIELDS + field]) / (times[last] - times[first]);
  return rate < 0 ? NaN : rate;
}
