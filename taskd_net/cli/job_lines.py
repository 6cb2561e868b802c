"""The document of a job as text: its state in one look, Agents, and the last decisions with what became of them.

Fields come from their declarations (`phrases`). Streams, decisions and commands are drawn by hand: they are a tree, in
which equal lines are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Final

from taskd_net.base.codes import Code
from taskd_net.base.progress import ACCOUNT_WORDS
from taskd_net.cli.hang_lines import headline
from taskd_net.cli.mesh_lines import Line, names
from taskd_net.cli.phrases import clock, duration, phrases, span
from taskd_net.observe import job_view
from taskd_net.observe.document import Document
from taskd_net.observe.job_view import (
    AGENT_WORDS,
    COMMAND_WORDS,
    SILENT,
    TROUBLE,
    AgentView,
    ClusterdView,
    DeviceView,
    JobCounters,
    JobView,
    LeaderView,
)
from taskd_net.observe.status_codec import read_position

DECISIONS: Final = 10
"""Last decisions that are shown unless all are asked for: with their commands, about a screen."""

AGENTS: Final = 20
"""The same of Agents without trouble."""


def draw(job: Document, *, everything: bool = False) -> list[Line]:
    """The lines: a hang, the job, its trouble, its time, streams, ClusterD, Agents, decisions.

    Args:
        job: the document.
        everything: whether to show each Agent and each decision that the document has.
    """
    shown = (devices(job), _agents(job, everything=everything), _decisions(job, everything=everything))
    first = [*headline(job), *_head(job)]
    return [*first, *_time(job["books"]), *_streams(job), *_clusterd(job["clusterd"], job["time"]), *chain(*shown)]


def devices(job: Document) -> list[Line]:
    """The devices with a fault, and the isolated ones; nothing for a job without rules for them."""
    if job["fault_mode"] is None and not job["devices"]:
        return []
    numbers = f"{job['devices_known']} with a fault, {job['devices_isolated']} isolated"
    heading = f"DEVICES  {numbers}; mode {job['fault_mode'] or 'none'}"
    lines: list[Line] = [("", ""), (heading, "bold")]
    lines += [(f"  {device_words(each, job['time'])}", _device_style(each)) for each in job["devices"]]
    if len(job["devices"]) < job["devices_known"]:
        lines.append((f"  and {job['devices_known'] - len(job['devices'])} more", "dim"))
    return lines


def silent_agents(mesh: Document) -> list[Line]:
    """The Agents that are silent, of the document of a mesh; nothing where none is."""
    if not mesh["agents_silent"]:
        return []
    lines: list[Line] = [("", ""), (f"SILENT AGENTS  {mesh['agents_silent']}", "bold")]
    lines += [
        (f"  Agent/{each['rank']:<4} silent since {clock(each['since'])}", "yellow") for each in mesh["silent_agents"]
    ]
    if len(mesh["silent_agents"]) < mesh["agents_silent"]:
        lines.append((f"  and {mesh['agents_silent'] - len(mesh['silent_agents'])} more", "dim"))
    return lines


def device_words(device: Document, now: float) -> str:
    """A device in a line: what is with it, since when, and why."""
    node = "node unknown" if device["node"] is None else f"node {device['node']}"
    rank = f" ({node})" if device["rank"] is None else f" ({node}, rank {device['rank']})"
    words = ["ISOLATED" if device["isolated"] else "faulty"]
    if device["since"] is not None:
        words[0] += f" for {duration(now - device['since'])}"
    words.append(" ".join(filter(None, (device["level"], device["type"], device["code"]))))
    words.append(device["reason"])
    words += phrases(DeviceView, device, now)
    return f"{device['device']}{rank}  {'  '.join(filter(None, words))}"


def _device_style(device: Document) -> str:
    return "bold red" if device["isolated"] else "yellow"


def _head(job: Document) -> list[Line]:
    size = job["expected"]
    words = [f"job {job['job']}"]
    if size is not None:
        words[0] += f" of {size['nodes']}x{size['processes']}"
    words.append("ClusterD decides on faults" if job["decides_on"] == "ClusterD" else "decides on reports")
    words += phrases(JobView, job, job["time"])
    counters, state = job["counters"], job["state"]
    decided = sum(counters["decisions"].values())
    done = [f"since its start: {decided} decisions", *phrases(JobCounters, counters, job["time"])]
    done.append(f"state in {state['file']}" if state["file"] else "no state file")
    leader = job["leader"]
    return [
        (", ".join(words), "bold"),
        (", ".join(done), ""),
        *([] if leader is None else [(leader_words(leader, job["time"]), "" if leader["decides"] else "red")]),
        *((text, "bold red") for text in job["trouble"]),
    ]


def _time(books: Document | None) -> list[Line]:
    """The wall time of the run, by hand: a sentence of several fields, and the accounts, the largest first."""
    if books is None:
        return []
    goodput = books["goodput"]
    marks = "goodput not known: the script marks no steps" if goodput is None else f"goodput {goodput:.0%}"
    words = [f"TIME  {span(books['wall'])}", marks]
    if books["step"] is not None:
        words.append(f"step {books['step']}" + ("" if books["of"] is None else f" of {books['of']}"))
    words += [f"{books['again']} steps done again"] if books["again"] else []
    words += [] if books["left"] is None else [f"{duration(books['left'])} left"]
    spent = [(seconds, words) for name, words in ACCOUNT_WORDS.items() if (seconds := books["seconds"].get(name, 0.0))]
    accounts = [f"{its} {span(seconds)}" for seconds, its in sorted(spent, key=lambda each: -each[0])]
    return [("", ""), (", ".join(words), "bold"), (f"  {', '.join(accounts)}", "")]


def leader_words(leader: Document, now: float) -> str:
    """The lead of a job in a line: a sentence by hand, because its parts have two fields each, and declared phrases."""
    changes = leader["changes"]
    words = [f"{leader['name']} leads since {clock(leader['since'])}, for {duration(now - leader['since'])}"]
    words.append(f"term {leader['term']}, after {changes} change{'' if changes == 1 else 's'}")
    committed = leader["last_commit"]
    words.append("no commit yet" if committed is None else f"last commit {duration(now - committed)} ago")
    words += phrases(LeaderView, leader, now)
    if not leader["decides"]:
        words.append("DECIDES NOTHING")
    return ", ".join(words)


def _streams(job: Document) -> list[Line]:
    width = max((len(stream["name"]) for stream in job["streams"]), default=0)
    lines: list[Line] = [("", ""), ("STREAMS", "bold")]
    for stream in job["streams"]:
        text = f"  {stream['name']:<{width}}  {stream['owner'] or 'free'}"
        if stream["barred"]:
            text += f"  barred after a failure: {', '.join(stream['barred'])}"
        lines.append((text, "yellow" if stream["owner"] or stream["barred"] else "dim"))
    return lines


def _clusterd(client: Document | None, now: float) -> list[Line]:
    """The client of ClusterD: counters of one kind in a line each, by hand, and declared phrases in the heading."""
    if client is None:
        return []
    orders, reports = client["orders"], client["reports"]
    actions = f"{client['unknown_actions']} unknown, {client['failed_actions']} failed"
    state = _CLIENT_STATES.get(client["state"]) or str(client["state"])
    heading = ", ".join((state, *phrases(ClusterdView, client, now)))
    return [
        ("", ""),
        (f"CLUSTERD  {client['address']}  {heading}", "bold"),
        (f"  orders   {_numbers(orders)}; {client['keep_alives']} keep-alives", ""),
        (f"  actions  {actions}", ""),
        (f"  reports  {_numbers(reports)}", ""),
    ]


_CLIENT_STATES: Final = {
    job_view.SUBSCRIBED: "orders come in",
    job_view.OFF: "recovery is off for the job",
    job_view.AWAY: "AWAY",
}


def _numbers(by_outcome: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in by_outcome.items())


def _agents(job: Document, *, everything: bool) -> list[Line]:
    first = [agent for agent in job["agents"] if agent["state"] in (*TROUBLE, SILENT)]
    calm = [agent for agent in job["agents"] if agent["state"] not in (*TROUBLE, SILENT)]
    shown = first + (calm if everything else calm[:AGENTS])
    agents, workers = str(job["agents_known"]), str(job["workers"])
    if (size := job["expected"]) is not None:
        agents += f" of {size['nodes']}"
        workers += f" of {size['nodes'] * size['processes']}"
    silent = f", {job['agents_silent']} silent" if job["agents_silent"] else ""
    heading = f"AGENTS  {agents}, {job['agents_in_trouble']} in trouble{silent}; {workers} Workers"
    if job["profiling"]:
        heading += f", profiling {', '.join(_profiling(job['profiling']))}"
    lines: list[Line] = [("", ""), (heading, "bold")]
    lines += [(f"  {_agent(agent, job['time'])}", _AGENT_STYLES.get(agent["state"], "")) for agent in shown]
    if len(shown) < job["agents_known"]:
        lines.append((f"  and {job['agents_known'] - len(shown)} more", "dim"))
    return lines


_AGENT_STYLES: Final = {
    "faulty": "bold red",
    "exited": "red",
    "left": "yellow",
    "asking": "yellow",
    SILENT: "yellow",
    "running": "green",
}


def _agent(agent: Document, now: float) -> str:
    words = [f"Agent/{agent['rank']:<4} {AGENT_WORDS.get(agent['state'], agent['state'])}"]
    if agent["state"] == "faulty":
        ranks = ",".join(map(str, agent["fault_ranks"]))
        words[0] += f": ranks {ranks}" if ranks else ": ranks unknown"
    elif agent["state"] == SILENT:
        words[0] += f" since {clock(agent['silent_since'])}"
    words += phrases(AgentView, agent, now)
    if agent["commands"]:
        words.append("on their way: " + ", ".join(_order(code) for code in agent["commands"]))
    return "  ".join(words)


def _decisions(job: Document, *, everything: bool) -> list[Line]:
    decisions: Sequence[Document] = job["decisions"]
    shown = decisions if everything else decisions[-DECISIONS:]
    heading = f"DECISIONS  the last {len(shown)}, oldest first" if shown else "DECISIONS  none yet"
    lines: list[Line] = [("", ""), (heading, "bold")]
    for decision in shown:
        text = f"  #{decision['number']}  {clock(decision['time'])}  {decision['plugin']}  after {decision['cause']}"
        if decision["restarts_left"] is not None:
            text += f"  round: {decision['restarts_left']} restarts left"
        lines.append((text, ""))
        lines += [(f"      {text}", style) for text, style in _commands(decision)]
        lines += [(f"      {call}", "dim") for call in decision["calls"]]
    return lines


def _commands(decision: Document) -> Iterable[Line]:
    """The commands of a decision: one line for those that say and became the same."""
    for key, group in groupby(decision["messages"], lambda each: (each["code"], each["message"], _outcome(each))):
        code, message, (outcome, style) = key
        yield f"{_order(code)}{f' ({message})' if message else ''} to {_places(group)}: {outcome}", style
    if decision["sent"] > len(decision["messages"]):
        open_ = decision["sent"] - decision["acknowledged"] - decision["lost"]
        text = f"of all {decision['sent']} commands {decision['acknowledged']} acknowledged, {decision['lost']} lost"
        yield f"{text}, {open_} open", "red" if decision["lost"] else ""


def _outcome(message: Mapping[str, Any]) -> Line:
    answer = message["answer"]
    if answer == Code.OK:
        return "acknowledged", "green"
    last = "" if answer is None else f", last answer {answer}"
    return (f"LOST{last}", "red") if message["lost"] else (f"on its way{last}", "yellow")


def _order(code: int) -> str:
    word = COMMAND_WORDS.get(code)
    return f"{code} {word}" if word else str(code)


def _places(messages: Iterable[Mapping[str, Any]]) -> str:
    """The destinations, those of single nodes as ranges of ranks."""
    places = [each["to"] for each in messages]
    return ", ".join(names(places) if all(map(read_position, places)) else places)


def _profiling(states: Mapping[str, int]) -> list[str]:
    return [f"{number} {'unknown' if state == '-1' else f'in {1400 + int(state)}'}" for state, number in states.items()]
