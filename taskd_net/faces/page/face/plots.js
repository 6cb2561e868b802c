// Small plots of the last minutes or of the last hour, and figures in words.

const PLOT = { most: 480, h: 58, top: 12, bottom: 12 };
const SPANS = [
  { seconds: SAMPLE_S * SAMPLES, button: "5 min", label: "5 min ago", words: "five minutes" },
  { seconds: PAST_S, button: "1 h", label: "1 h ago", words: "hour" },
];
let shownSpan = SPANS[0];

function number(value) {
  if (Number.isNaN(value)) return "–";
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  if (value >= 10 || value === 0 || Number.isInteger(value)) return Math.round(value).toLocaleString("en");
  return value.toFixed(1);
}

function duration(seconds) {
  if (seconds === null || Number.isNaN(seconds)) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 0.01) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
  return `${seconds.toFixed(1)} s`;
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

// A time of day, with the date if it is another one.
function clock(seconds) {
  const at = new Date(seconds * 1000);
  const two = (value) => String(value).padStart(2, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const date = (day) => `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
  return date(at) === date(new Date(mesh.head.time * 1000)) ? time : `${date(at)} ${time}`;
}

function ago(seconds) {
  const past = Math.max(0, mesh.head.time - seconds);
  if (past < 60) return `${Math.round(past)} s ago`;
  if (past < 7200) return `${Math.round(past / 60)} min ago`;
  return past < 172800 ? `${Math.round(past / 3600)} h ago` : `${Math.round(past / 86400)} days ago`;
}

function html(name, attributes, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...inside.filter((part) => part !== null));
  return element;
}

// One plot with one or two lines: [{name, points}], the points as `series` has them; `say` puts a value in words.
function plot(heading, all, say) {
  const { seconds: span, label, words: long } = shownSpan;
  const curves = all.map(({ name, points }) => ({ name, points: points.filter(([past]) => past <= span) }));
  const known = curves.flatMap((curve) => curve.points.map(([, value]) => value)).filter((value) => !Number.isNaN(value));
  const most = largest(known);
  const { h, top, bottom } = PLOT;
  const style = getComputedStyle(details);
  const w = Math.max(100, Math.min(PLOT.most, details.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)));
  const x = (past) => w - (Math.min(past, span) / span) * w;
  const y = (value) => h - bottom - (most ? value / most : 0) * (h - top - bottom);
  const drawing = draw("svg", { width: w, height: h, "aria-hidden": "true" });
  drawing.append(draw("path", { class: "axis", d: `M0 ${h - bottom}H${w}` }));
  for (const [index, curve] of curves.entries()) {
    const runs = pieces(curve.points);
    const d = runs.map((run) => run.map(([past, value], at) => `${at ? "L" : "M"}${x(past).toFixed(1)} ${y(value).toFixed(1)}`).join("")).join("");
    if (index === 0 && runs.length) {
      const filled = runs.map((run) => `M${x(run[0][0])} ${h - bottom}${run.map(([past, value]) => `L${x(past).toFixed(1)} ${y(value).toFixed(1)}`).join("")}L${x(run.at(-1)[0])} ${h - bottom}Z`);
      drawing.append(draw("path", { class: "area", d: filled.join("") }));
    }
    drawing.append(draw("path", { class: index ? "other" : "one", d }));
  }
  drawing.append(
    draw("text", { class: "label", x: 0, y: h - 1 }, label),
    draw("text", { class: "label", x: w, y: h - 1, "text-anchor": "end" }, "now"),
  );
  if (most) drawing.append(draw("text", { class: "label", x: 0, y: 9 }, `most ${say(most)}`));
  const now = curves.map((curve) => ({ name: curve.name, value: say(curve.points.at(-1)?.[1] ?? NaN) }));
  const words = now.map((one) => `${one.name} ${one.value}`);
  return html(
    "div",
    { class: "plot", role: "img", "aria-label": `${heading} over the last ${long}: now ${words.join(", ")}; at most ${say(most)}` },
    html("div", { class: "heading" }, html("span", {}, heading), html("span", { class: curves.length > 1 ? "now" : "now one" }, ...words.map((text) => html("span", {}, text)))),
    drawing,
  );
}

// The choice of the time that all plots show.
function spans() {
  const button = (span) =>
    html("button", { type: "button", "data-key": `span ${span.seconds}`, "aria-pressed": String(span === shownSpan), onclick: () => showSpan(span) }, span.button);
  return html("div", { class: "spans", role: "group", "aria-label": "Time of the plots" }, ...SPANS.map(button));
}

function showSpan(span) {
  shownSpan = span;
  showDetails();
}

// Points without the unknown ones between them.
function pieces(points) {
  const runs = [];
  let open = null;
  for (const point of points) {
    if (Number.isNaN(point[1])) open = null;
    else {
      if (!open) runs.push((open = []));
      open.push(point);
    }
  }
  return runs;
}
