// Asking the server what has changed, again and again; and saying so when it does not answer.

const ANSWER_MS = 10000;
const RETRY_MS = [1000, 2000, 4000, 5000];
const HIDDEN_S = 10;
const NAMED_CHANGES = 4;

let failures = 0;
let timer = null;
const saved = location.protocol === "file:";

function show(told) {
  if (lifeOf(told.token) !== lifeOf(mesh.token)) interrupted = true;
  const { form, changed, first, before } = take(told);
  sample();
  showTop();
  showEmpty();
  const filtered = searchAgain();
  if (form || filtered) redraw();
  else {
    for (const position of changed) paint(position);
    if (changed.length) paintParents();
    if (picture.placed?.size.text) for (const position of picture.elements.keys()) paintFigures(position);
  }
  showDetails();
  if (!first) announce(changed.filter((position) => before.has(position)));
}

// The process that has answered.
function lifeOf(token) {
  return token.slice(0, token.lastIndexOf("-"));
}

function announce(changed) {
  if (!changed.length) return;
  const named = changed.slice(0, NAMED_CHANGES).map((position) => sentence(mesh.all.get(position)));
  const more = changed.length - named.length;
  say(named.join(". ") + (more > 0 ? `. And ${more} more.` : ""));
}

async function ask() {
  clearTimeout(timer);
  timer = null;
  let wait = 1;
  try {
    const answer = await fetch(`tree?since=${encodeURIComponent(mesh.token)}`, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
    if (!answer.ok) throw new Error(`${answer.status}`);
    const told = await answer.json();
    failures = 0;
    show(told);
    askPast();
    wait = document.hidden ? Math.max(HIDDEN_S, told.ask_again) : told.ask_again;
  } catch (error) {
    failures += 1;
    interrupted = true;
    wait = RETRY_MS[Math.min(failures, RETRY_MS.length) - 1] / 1000;
    if (error instanceof TypeError || error instanceof DOMException || /^\d+$/.test(error.message)) {
      // No answer, or not the right one: that is what is said below.
    } else console.error(error);
  }
  showConnection();
  timer = setTimeout(ask, wait * 1000);
}

function showConnection() {
  const at = clock(mesh.head.time);
  document.body.classList.toggle("stale", failures > 0);
  document.body.classList.toggle("saved", saved);
  const text = saved ? `Saved at ${at}; not live` : failures ? `No answer since ${at}: what is shown is old. Trying again …` : `Live, as of ${at}`;
  const place = document.getElementById("connection");
  if (place.textContent !== text) place.textContent = text;
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && timer !== null && !saved) ask();
});
new ResizeObserver(() => redraw(false)).observe(scroll);

const told = JSON.parse(document.getElementById("told").textContent);
takePast(JSON.parse(document.getElementById("past").textContent));
show(told);
readAddress();
showConnection();
// When this is drawn, two frames later, is what a test reads.
requestAnimationFrame(() => setTimeout(() => performance.measure("drawn", { start: 0, end: performance.now() })));
if (!saved) timer = setTimeout(ask, told.ask_again * 1000);
