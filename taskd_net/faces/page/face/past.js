// The last hour, as the server keeps it: plots of the time before the page was opened, and the events of a node.

const PAST_S = 3600;
const PAST_EVERY_S = 5;
const GAP_STEPS = 2.5;

// By position; of all links together under WHOLE.
const past = new Map();
// The position that is being asked for.
let asking = null;

const EVENTS = {
  started: "started",
  joined: "joined",
  joined_again: "joined again",
  back: "back",
  restarted: "restarted",
  link: "link changed",
  refused: "refused",
  strained: "strained",
  relieved: "no longer strained",
  not_answering: "not answering",
  lost: "lost",
  gone: "gone",
  cut_off: "cut off",
  finished: "finished",
  stopped: "stopped",
  forgotten: "forgotten",
};

// Take in what the server has kept of one position. What an earlier process had told of it stays before that.
function takePast(told) {
  const key = told.position ?? WHOLE;
  const old = past.get(key);
  told.earlier = !old ? null : old.life === told.life ? old.earlier : old;
  if (told.earlier && told.time - told.earlier.time > PAST_S) told.earlier = null;
  const state = mesh.nodes.get(key);
  told.of = state ? `${state.state} ${state.since}` : "";
  past.set(key, told);
}

// Points of the past as [seconds ago, value], oldest first.
function pastPoints(told, field) {
  if (!told) return [];
  const before = pastPoints(told.earlier, field);
  const values = told.series[COLUMNS[field].name];
  const points = told.series.times.map((time, at) => [mesh.head.time - time, values[at] ?? NaN]).filter(([ago]) => ago <= PAST_S);
  if (before.length && points.length) before.push([(before.at(-1)[0] + points[0][0]) / 2, NaN]);
  return [...before, ...points];
}

// Points with those of the past before them. Where nothing is known in between, there is a gap.
function withPast(position, field, points) {
  const told = past.get(position);
  if (!told) return points;
  // The own samples begin without a rate.
  const first = points.findIndex(([, value]) => !Number.isNaN(value));
  const known = points.slice(Math.max(0, first));
  const since = known.length ? known[0][0] : 0;
  const before = pastPoints(told, field).filter(([ago]) => ago > since);
  if (before.length && before.at(-1)[0] - since > GAP_STEPS * told.step) before.push([(before.at(-1)[0] + since) / 2, NaN]);
  return [...before, ...known];
}

// Ask for the past of what is shown, if it is not known, or is old, or the node has another state.
async function askPast() {
  const key = picture.chosen ?? WHOLE;
  if (saved || asking !== null || (picture.chosen && !mesh.nodes.has(key))) return;
  const told = past.get(key);
  const node = mesh.nodes.get(key);
  if (told && mesh.head.time - told.time < PAST_EVERY_S && (!node || told.of === `${node.state} ${node.since}`)) return;
  asking = key;
  try {
    const answer = await fetch(key === WHOLE ? "history" : `history?node=${encodeURIComponent(key)}`, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
    if (answer.ok) takePast(await answer.json());
  } catch (error) {
    // No answer: `ask` says so, and this is asked again after its next answer.
    if (!(error instanceof TypeError || error instanceof DOMException)) console.error(error);
  }
  asking = null;
  showDetails();
  if ((picture.chosen ?? WHOLE) !== key) askPast();
}

// The events of a node, the newest first.
function happened(node) {
  const events = [];
  for (let told = past.get(node.position); told; told = told.earlier) events.unshift(...told.events);
  if (!events.length) return [];
  const item = ({ time, event, text, times }) =>
    html("li", { class: `event ${event}` }, html("time", {}, clock(time)), " ", html("b", {}, EVENTS[event] ?? event), times > 1 ? ` ${times} times` : null, text ? `: ${text}` : null);
  return [html("h3", {}, "What happened"), html("ol", { id: "events" }, ...events.reverse().map(item))];
}
