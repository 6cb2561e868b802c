// The job's Manager: its streams, the Agents in trouble, and the last decisions with what became of their commands. Fields
// come from their declarations (`fields.js`). A decision with its commands is drawn by hand, because it is a tree.

const STATES_OF_CLUSTERD = { subscribed: "orders come in", off: "recovery is off for the job", away: "away" };

function ofJob() {
  const job = mesh.job;
  if (!job) return [];
  const { counters, state } = job;
  // By hand: a row that has words of its own for each value, and one of several fields.
  const rows = [
    ["decides on", job.decides_on === "ClusterD" ? "orders of ClusterD" : "reports of Agents"],
    ...rowsOf("JobView", job),
    ...rowsOf("JobCounters", counters),
    [job.leader ? "state" : "state file", state.file ?? "none", !state.durable],
    ...(job.leader ? rowsOf("LeaderView", job.leader) : []),
  ];
  return [
    html("div", { id: "job" },
      html("h2", {}, `Job ${job.job}`),
      ...standsStill(job.hang),
      ...job.trouble.map((text) => html("p", { class: "alarm" }, text)),
      table(rows),
      ...wallTime(job.books),
      html("h3", {}, "Streams"),
      table(job.streams.map((stream) => [stream.name, stream.owner ?? "free"])),
      ...clusterd(job.clusterd),
      ...devicesWithFaults(job),
      ...firstFailures(job),
      ...agentsInTrouble(job),
      html("h3", {}, "Last decisions"),
      job.decisions.length ? html("ol", {}, ...[...job.decisions].reverse().map(decided)) : html("p", { class: "muted" }, "none yet"),
    ),
  ];
}

// By hand: rows of several fields, and the accounts, the largest first.
function wallTime(books) {
  if (!books) return [];
  const { wall, goodput, step, of, again, left, seconds } = books;
  const accounts = Object.keys(ACCOUNTS).filter((name) => seconds[name]).sort((one, other) => seconds[other] - seconds[one]);
  return [
    html("h3", {}, "Time"),
    table([
      ["wall time", lasting(wall)],
      ["goodput", goodput === null ? "not known: the script marks no steps" : percent(goodput)],
      ...(step === null ? [] : [["step, about", of === null ? number(step) : `${number(step)} of ${number(of)}`]]),
      ...(again ? [["steps done again", number(again)]] : []),
      ...(left === null ? [] : [["time left", lasting(left)]]),
      ...accounts.map((name) => [ACCOUNTS[name], `${lasting(seconds[name])}, ${percent(seconds[name] / wall)}`]),
    ]),
  ];
}

function percent(part) {
  return `${Math.round(100 * part)} %`;
}

function lasting(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// The phases of a recovery, each by the event that ends it.
function recovery({ phases, stepped }) {
  const known = Object.keys(RECOVERY).filter((name) => name in phases);
  if (!known.length) return "";
  const whole = lasting(known.reduce((sum, name) => sum + phases[name], 0));
  const words = known.map((name) => `${RECOVERY[name]} ${lasting(phases[name])}`).join(", ");
  return `${stepped ? "recovered in" : "recovery so far"} ${whole} (${words})`;
}

// The first line of a job that is suspected or hung.
function standsStill({ state, since, words, guilty }) {
  if (state !== "suspected" && state !== "hung") return [];
  const who = guilty.map((each) => `rank ${each.rank} of node ${each.node} ${each.words}`).join("; ");
  const text = `${state === "hung" ? "Hung" : "Suspected"}, no mark since ${clock(since)}: ${who || `who holds it up is not known: ${words}`}`;
  return [html("p", { class: "alarm", id: "hang" }, text)];
}

// By hand: a row has the counters of one kind, which are trouble together. Other fields follow.
function clusterd(client) {
  if (!client) return [];
  const { orders, reports, unknown_actions: unknown, failed_actions: failed } = client;
  const each = (...numbers) => numbers.map(number).join(" / ");
  return [
    html("h3", {}, "ClusterD"),
    table([
      ["address", client.address],
      ["state", STATES_OF_CLUSTERD[client.state] ?? client.state, client.state === "away"],
      ["orders taken", number(orders.taken)],
      ["repeated / foreign / unreadable", each(orders.repeated, orders.foreign, orders.unreadable)],
      ["actions unknown / failed", each(unknown, failed), unknown + failed > 0],
      ["reports sent", number(reports.sent)],
      ["refused / unanswered / void", each(reports.refused, reports.unanswered, reports.void)],
      ...rowsOf("ClusterdView", client),
    ]),
  ];
}

function devicesWithFaults(job) {
  if (!job.devices.length) return [];
  const rows = job.devices.map((device) => {
    const node = device.node === null ? "node unknown" : `node ${device.node}`;
    const rank = device.rank === null ? ` (${node})` : ` (${node}, rank ${device.rank})`;
    const state = `${device.isolated ? "isolated" : "faulty"} since ${clock(device.since)}`;
    const fault = [device.level, device.type, device.code].filter(Boolean).join(" ");
    const words = [state, fault, device.reason, ...phrasesOf("DeviceView", device)];
    return [device.device + rank, words.filter(Boolean).join("; "), device.isolated];
  });
  const more = job.devices_known - job.devices.length;
  return [html("h3", {}, "Devices with a fault"), table(rows), ...(more > 0 ? [html("p", { class: "muted" }, `and ${more} more`)] : [])];
}

// The last one first. A row has the rank with its end, and the exception with its place in the script.
function firstFailures(job) {
  if (!job.failures.length && !job.ended) return [];
  const rows = [...job.failures].reverse().map((failure) => {
    const { first, others, lost, answer, time } = failure;
    if (failure.hung) return ["the job hung", [failure.hung, answer, clock(time), recovery(failure)].filter(Boolean).join("; "), !answer];
    if (lost.length) {
      const victims = first.end ? `after it ranks ${[first.rank, ...others].join(", ")}` : "";
      const words = ["was lost", victims, answer, clock(time), recovery(failure)];
      return [`node ${lost.join(", ")}`, words.filter(Boolean).join("; "), !answer];
    }
    const place = first.file && `${first.file}, line ${first.line}`;
    const after = others.length ? `after it ranks ${others.join(", ")}` : "";
    const words = [first.end, first.message ?? first.type, place, after, answer, clock(time), recovery(failure)];
    return [`rank ${first.rank} (node ${first.node})`, words.filter(Boolean).join("; "), !answer];
  });
  const ended = job.ended ? [html("p", { class: "alarm" }, `The job has ended: ${job.ended}`)] : [];
  return [html("h3", {}, "First failures"), ...ended, table(rows)];
}

function agentsInTrouble(job) {
  if (!job.agents.length) return [];
  const rows = job.agents.map((agent) => {
    const position = `Agent/${agent.rank}`;
    const ranks = agent.fault_ranks.length ? `ranks ${agent.fault_ranks.join(", ")}` : "ranks unknown";
    const silent = agent.state === "silent";
    const known = silent ? `silent since ${clock(agent.silent_since)}` : AGENTS[agent.state] ?? agent.state;
    const words = agent.state === "faulty" ? `${known}: ${ranks}` : known;
    const all = [words, ...phrasesOf("AgentView", agent)].join("; ");
    return [mesh.all.has(position) ? goTo(position, `job ${position}`, position) : position, all, !silent];
  });
  return [html("h3", {}, "Agents in trouble or silent"), table(rows)];
}

function decided(decision) {
  const round = decision.restarts_left === null ? "" : `; ${decision.restarts_left} restarts left`;
  const hidden = decision.sent - decision.messages.length;
  return html("li", {},
    html("p", {}, html("b", {}, decision.plugin), ` at ${clock(decision.time)}${round}`),
    html("p", { class: "muted" }, `after ${decision.cause}`),
    ...decision.messages.map(sentCommand),
    ...(hidden > 0 ? [html("p", {}, `and ${hidden} more: of all ${decision.acknowledged} acknowledged, ${decision.lost} lost`)] : []),
    ...decision.calls.map((call) => html("p", {}, call)),
  );
}

function sentCommand(message) {
  const last = message.answer === null ? "" : `, last answer ${message.answer}`;
  const outcome = message.answer === 0 ? "acknowledged" : message.lost ? `lost${last}` : `on its way${last}`;
  const words = [message.code, COMMANDS[message.code] ?? "", message.message && `(${message.message})`].filter(Boolean).join(" ");
  return html("p", message.lost ? { class: "alarm" } : {}, `${words} to ${message.to}: ${outcome}`);
}
