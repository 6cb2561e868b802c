// Figures of the last minutes, kept here: a sample of every node each two seconds. Older ones are in the past.

const SAMPLE_S = 2;
const SAMPLES = 150;
// A rate is taken over so many samples, as figures arrive from different depths at different times.
const RATE_SAMPLES = 3;
const FIELDS = 6;
const [DOWN, UP, DOWN_P50, DOWN_P99, IN_FLIGHT, UP_P99] = [0, 1, 2, 3, 4, 5];

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
  const whole = [0, 0, NaN, NaN, 0, NaN];
  for (const [position, { parent, state, down, up }] of mesh.nodes) {
    if (ABSENT.includes(state)) {
      keep(position, at, new Array(FIELDS).fill(NaN));
      continue;
    }
    const values = [down.messages, up.messages, down.ack_p50 ?? NaN, down.ack_p99 ?? NaN, down.in_flight + up.in_flight, up.ack_p99 ?? NaN];
    keep(position, at, values);
    if (!parent || position === mesh.head.node) continue;
    for (const field of [DOWN, UP]) whole[field] += rateNow(position, field) || 0;
    whole[IN_FLIGHT] += values[IN_FLIGHT];
    for (const field of [DOWN_P99, UP_P99]) if (!(values[field] <= whole[field]) && !Number.isNaN(values[field])) whole[field] = values[field];
  }
  // One sample makes no rate.
  if (taken < 2) whole[DOWN] = whole[UP] = NaN;
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
