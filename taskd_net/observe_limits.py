"""Limits and defaults of the state of the mesh: reports, status page and metrics. As in `limits`."""

from __future__ import annotations

from typing import Final

STATUS_FIGURES_S: Final = 2.0
"""Seconds between two reports of figures to a parent, and the least time over which answer times are taken together."""

STATUS_IDLE: Final = 4
"""Times STATUS_FIGURES_S between two looks of a node where nothing changes: the pause doubles with each look that finds
nothing, up to this. With 2 s the looks were most of what an idle Worker did. Changes of state are seen at once."""

STATUS_GRID_S: Final = 0.5
"""Seconds between the times at which nodes of a machine look at their figures: those of one process wake it once."""

STATUS_PACE_MAX_S: Final = 999.0
"""Seconds between two reports that a parent can ask for: as many as it can say at Register."""

STATUS_PACE_BYTES: Final = 1024
"""Bytes of the answer to a report, which has one number, and those of later versions."""

STATUS_REPORTS_PER_S: Final = 50
"""Reports of figures a second that a parent takes from all its children together: it asks them to make longer pauses
where they are many. A report with ten nodes costs it some 0.3 ms (`benchmarks/status.py`), so all of them cost some 2 %
of a core, for any number of children. Changes of state are sent at once."""

STATUS_URGENT_S: Final = 0.1
"""Seconds that a change of state waits for others, to be told together; at each level of the tree."""

STATUS_LATELY_S: Final = 10.0
"""Seconds for which the time that answers took is shown after the last one."""

STATUS_LOOKS: Final = 100
"""Children that a node looks at in one go: some 1.5 ms, if all of them are busy."""

STATUS_LOOKS_BEHIND: Final = 1000
"""Nodes behind children that do not report at which a node looks in one go: some 0.3 ms, up to 3 ms if all are new."""

STATUS_REPORT_NODES: Final = 500
"""Nodes in one report: some 75 KB, which the parent reads in a few milliseconds."""

STATUS_UPSTREAM_BYTES: Final = 160
"""Bytes of the parent's address in use, and of the reasons against others, in reports: two addresses and a reason."""

STATUS_REASON_BYTES: Final = 300
"""Bytes of the reason for a kind of link, or for the end of a stream, in reports: an address, and the text of an
error of the system or of TLS. A record of a node has 1,024 bytes for everything."""

STATUS_REPORT_BYTES: Final = 256 * 1024
"""Bytes of one report: three times those of a full one."""

STATUS_REPORT_COPIES: Final = 4
"""Times that the bytes of a report count towards its child's quota of bytes while it waits. So the reports of all
children together have an eighth of the memory of all, or little more, also where a thousand of one process wait."""

STATUS_NODES_PER_S: Final = 8192
"""Nodes of which one child reports a second, after half as many at once; a further report waits. Reading that many
takes some 7 % of a core. A Proxy with 16,000 busy nodes below it reports all of them every 2 s."""

STATUS_REPORT_COST: Final = 10
"""Nodes that cost as much as a report by itself."""

STATUS_TURN_BYTES: Final = 16 * 1024
"""Bytes of reports that are read before messages have their turn: some 5 ms of the smallest entries. A larger report
goes alone."""

STATUS_REPORTS_AT_ONCE: Final = 4
"""Reports of one child under way. A child of this package has one, and two for a moment when it changes connections."""

STATUS_NODES: Final = 65_536
"""Nodes of which a node keeps the state: some 20 MB. Further ones are routed, but not shown."""

STATUS_GONE_S: Final = 3600.0
"""Seconds for which a node is shown that has vanished without leaving in good order."""

STATUS_GONE: Final = 8192
"""Such nodes at most, above the children of a large parent. Beyond it the first one is shown no more."""

STATUS_ENDED: Final = 32_768
"""Nodes that have left in good order of which a node keeps the state: a job of 4,000 nodes that has come to its end.
Beyond that the one that has left first is forgotten, as it is where a living one needs its place in STATUS_NODES."""

HISTORY_S: Final = 3600.0
"""Seconds of which a status page keeps samples, and events of nodes that are not known any more: whoever is called
after an incident looks within the hour."""

HISTORY_LOOK_S: Final = 5.0
"""Seconds between two looks at the mesh for the history. A look costs as much as one for the page; changes of state are
looked at as they come."""

HISTORY_SAMPLE_S: Final = 20.0
"""Seconds between two samples of the history: 180 in the hour, which a plot of 300 pixels can show."""

HISTORY_NODES: Final = 4096
"""Nodes with samples: 4 KiB each."""

HISTORY_EVENTS_EACH: Final = 32
"""Events of one node that are kept: one that is lost and joins again every minute fills it in a quarter of an hour."""

HISTORY_EVENTS: Final = 20_000
"""Events of all nodes that are kept: ten of each of 2,000. The oldest make room."""

HISTORY_TEXT_BYTES: Final = 2 * 1024 * 1024
"""Bytes of the texts of all events, some of which peers choose: a hundred of each in HISTORY_EVENTS."""

HISTORY_REFUSED: Final = 256
"""Refused registrations between two looks of the history; older ones are left out."""

HISTORY_LOAD: Final = 0.02
"""Share of a node's time that looks for the history may take: where many nodes change, the next look is that much
later."""

STRAINED_S: Final = 10.0
"""Seconds for which each look has to find messages waiting for a node before it counts as strained. `mesh.js` of the
status page has the same number."""

HTTP_CONNECTIONS: Final = 32
"""Connections to a node's status page, or to its metrics: some ten people with the page open. Beyond them the one that
has been silent for the longest is closed."""

HTTP_PATIENCE_S: Final = 15.0
"""Seconds a browser may be silent, or take to read one answer: the page asks every second. Slower ones are cut off, so
that silent clients do not keep connections from others."""

HTTP_ANSWERS_PER_S: Final = 50
"""Answers a second of a status page, to all its browsers together: 1 to 2 % of one core. Further ones wait."""

METRICS_KEEP_S: Final = 1.0
"""Seconds for which one scrape answers all that ask: Prometheus asks every 15 s, and a Mgr with 5,000 children is busy
for some 10 ms with one."""

HTTP_BYTES_PER_S: Final = 20_000_000
"""Bytes a second of a status page, to all its browsers together: sixteen whole trees of 2,000 nodes."""

PAGE_LOOK_S: Final = 0.5
"""Seconds between two looks at the mesh for all browsers of a status page together: half of what they wait between
two questions."""

PAGE_ASK_S: Final = 1.0
"""Seconds that a browser waits between two questions: a change is seen within two."""

PAGE_LOAD: Final = 0.05
"""Share of a node's time that looking may take: where many nodes have changed, the next look is that much later."""

PAGE_SLICE: Final = 40
"""Nodes that are looked at in one go: about a millisecond, which messages have to wait."""

PAGE_AGENTS: Final = 50
"""Agents in trouble that a status page shows one by one; `taskd-net job` shows more."""

PAGE_DEVICES: Final = 50
"""Devices with a fault that a status page shows one by one; `taskd-net job` shows more."""

PAGE_DECISIONS: Final = 10
"""Last decisions of a job on a status page: some 30 KB at most, sent to each browser when one of them changes."""

PAGE_REMOVED: Final = 1000
"""Nodes that have left of which a browser can still be told; one that has missed more gets the whole tree again."""

LATENCY_EVERY_S: Final = 0.01
"""Seconds between two messages on one link whose answer times are measured: a hundred in a second give quantiles. Each
costs two histograms an entry, a twentieth of the Python of a message that is alone on its way."""
