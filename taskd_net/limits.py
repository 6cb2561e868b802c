"""Limits and defaults of the mesh, each with its unit and the reason for its value.

Links between nodes of ours have `link_limits`, the layers above the mesh `job_limits` and `observe_limits`. Settings of
users are fields of `config.NodeConfig`, `peer_limits.Limits` or `tls.files.Tls`.
"""

from __future__ import annotations

from typing import Final

MESSAGE_BYTES: Final = 8_388_608
"""Bytes of a serialized Message (docs/contract.md, section 2); the original's Mgr refuses more upwards as well."""

RECEIVE_BYTES: Final = 5 * MESSAGE_BYTES // 4
"""Bytes gRPC accepts in one message, at a parent and at a child. Above MESSAGE_BYTES, so that an oversized message gets
4999 instead of a broken call; bounded, because while it is read it lies in memory up to four times."""

RANKS_PER_LIST: Final = 16_384
"""Ranks in one comma list. A list that names every rank of a large job still fits; garbage does not."""

INBOX: Final = {"Mgr": 1024, "Proxy": 32, "Agent": 8, "Worker": 8}
"""Messages that wait in an inbox, by role (docs/contract.md, section 5): more senders need more room."""

INBOX_BYTES: Final = 4 * MESSAGE_BYTES
"""Bytes of the messages in an inbox: 32 MiB. By number alone a Mgr's inbox would hold 8 GiB. Messages up to 32 KiB fill
every inbox by their number first."""

INBOX_SMALL_BYTES: Final = 4096
"""Bytes up to which a message is bounded by the number of messages in an inbox alone, 4 MiB at a Mgr. So a sender of
the largest bodies does not keep those of others out."""

INBOX_WAIT_S: Final = 0.010
"""Seconds a sync message waits for room in a full inbox before 5001 (docs/contract.md, section 5)."""

DEDUP_WINDOW: Final = 4096
"""Uuids of other makes that a receiver remembers of each sender (docs/contract.md, section 5): more than a sender can
have in flight and resend."""

SEEN_S: Final = 600.0
"""Seconds for which a receiver remembers the uuids of this package's messages (docs/contract.md, section 5): the
longest time for which a message is retried."""

SEEN_BYTES: Final = 32 * 1024 * 1024
"""Bytes of all that a receiver remembers of messages. A sender of 30,000 messages a second takes 12 MiB in ten minutes,
10,000 senders of one a second take 7 MiB."""

UUID_FLOWS: Final = 65_536
"""Destinations whose messages a sender numbers one by one: every node of a large job. Beyond it all begin again with
new flows, which costs receivers some memory and nothing else."""

ACK_TIMEOUT_S: Final = 3.0
"""Seconds the Mgr waits for a child's answer (docs/contract.md, section 5); also the default timeout of a send."""

FAILURES_TOLD: Final = 16
"""Nodes that the answer to a broadcast names because they did not confirm it: enough to see whose trouble it is. No hop
passes on more, so an answer takes some hundred bytes whatever the size of the job."""

ACK_TIMEOUT_PER_LEVEL: Final = 0.8
"""Factor on the ack timeout per level below the Mgr: a Proxy gives up, and can say who did not answer, before its
parent gives up on the Proxy. Six levels still leave 0.8 s."""

ACK_TIMEOUT_LEVELS: Final = 10
"""Levels that shorten the ack timeout: a parent may say any depth. Ten leave 0.3 s."""

ACK_BUDGET_PER_HOP: Final = 0.95
"""Share of what is left of a sender's timeout that a hop on the way spends: the rest brings the answer back."""

TIMEOUT_MAX_S: Final = 86_400.0
"""Seconds that anybody can be made to wait for an answer. A day is for ever here, and fits what the wire and gRPC can
say; infinity does not."""

LINK_MESSAGES: Final = 1024
"""Messages that wait to be written on one link (docs/contract.md, section 5)."""

LINK_BYTES: Final = 16 * 1024 * 1024
"""Bytes that wait to be written on one link (docs/contract.md, section 5): two of the largest messages."""

LINK_FREE_BYTES: Final = 16 * 1024
"""Bytes that may wait on each link beside the bound on all links: some small messages, so that nearly none looks at
that bound, and 80 MiB for 5,000 links."""

LINK_GRANT_BYTES: Final = 256 * 1024
"""Bytes that a link takes out of the pool of all links at least, where that has them: half of a batch, so that few
messages of a full queue look at the pool."""

COPIES_WRITTEN: Final = 2
"""Times that the bytes of a message are held while it is written: the batch, and gRPC's copy."""

LARGE_WRITE_BYTES: Final = 64 * 1024
"""Bytes from which on a write waits for its turn among the large writes of a node. Copying fewer takes some 20 µs."""

LARGE_WRITES_AHEAD: Final = 2 * 1024 * 1024
"""Bytes of large writes that begin together: some batches of 512 KiB, and no second message of 8 MiB. Copying as much
takes 1 to 4 ms."""

LARGE_WRITES_PER_S: Final = 1024 * 1024 * 1024
"""Bytes of large writes for each second in which the loop serves others: 8 ms after the 5 to 15 ms that copying 8 MiB
takes. A node that forwards 64 KiB bodies at full rate never waits."""

SEND_ALL_IN_FLIGHT: Final = 256
"""Messages that `send_all` has in flight at most, by default: full throughput, and a quarter of a link's room."""

LEAF_IN_FLIGHT: Final = 1024
"""Messages written to one Worker or Agent and not yet acknowledged. A frozen Worker can occupy no more than this of
the links above it, which have room for four such."""

SHARED_IN_FLIGHT: Final = 4096
"""Messages in flight on a link that many share (to a Proxy, or upstream)."""

ANSWERS_UNTAKEN: Final = 2 * SHARED_IN_FLIGHT
"""Answers that wait for one neighbour beyond its quota of messages; then its stream ends. An honest neighbour awaits no
more than SHARED_IN_FLIGHT, and may have given up on as many. With the default quota, 16,384 answers take some 7 MiB."""

ABANDONED_UUIDS: Final = 1024
"""Messages of one link that nobody waits for any more and whose answers may still come: as many as a leaf has in
flight."""

MAX_CHILDREN: Final = 5000
"""Children of one parent (docs/contract.md, section 3)."""

PENDING_CALLS: Final = 8192
"""Calls that gRPC keeps until the event loop looks at them, before it begins to cancel some: more than one of each of
MAX_CHILDREN, and two seconds' work. Calls that were begun and reset wait there too, and take up to 25 KiB each."""

RECORD_CHARACTERS: Final = 64 * 1024 * 1024
"""Characters of a record of a Router's events, some 100,000 of them. A switch for bug reports must not fill a disk."""

PROBE_HOPS: Final = 64
"""Links that a trace follows at most: more levels than any tree has; in the wire it has two digits."""

PROBE_INTERVAL_S: Final = 0.01
"""Least seconds from one probe of a series to the next: a hundred a second harm nobody, a loop without pause might."""

PROBE_SERIES: Final = 256
"""Series of probes that a node sends at a time for those who ask it to; more are told to come later."""

PROBE_SERIES_PER_CALLER: Final = 4
"""Series of one connection: endless ones of a stranger must not keep others from theirs."""

PROBE_SERIES_AT_FULL_RATE: Final = 4
"""Series that may each use the shortest interval. Where more run, each makes that much longer pauses, so that all
together send no more: 400 probes a second take some 6 % of a core."""

VIOLATION_PAUSE_S: Final = 5.0
"""Seconds before the next stream of a neighbour, after one that has broken the bounds of a link. To read such an item
stops the loop for 10 to 25 ms, most of it in gRPC, so a neighbour that goes on delays one message in 200."""

GRACE_S: Final = 30.0
"""Seconds a child whose stream is gone keeps its place and its routes (docs/contract.md, section 3)."""

REGISTRATION_HOLD_S: Final = 10.0
"""Seconds a registration holds its place without a stream (docs/contract.md, section 3)."""

PENDING_PER_CONNECTION: Final = 64
"""Registrations of one connection whose stream is not open; the next waits. A process has one node as a rule."""

PENDING_PER_ADDRESS: Final = 256
"""Registrations from one address whose stream is not open, where the parent has few places left; the next waits. Else
an address may have as many as there are places left, so that there is always room for the next one. 2,000 children of
one address then join without waiting. Waiting took a third more of their parent's time."""

PENDING_REPEAT_S: Final = 0.1
"""Seconds that the answer to a repeated registration is held, over the same connection and before its stream: a peer
that repeats all its registrations without a pause takes a tenth of a core."""

PENDING_GATHER_S: Final = 0.02
"""Seconds for which free places are gathered for the next registrations. Children that join one by one, not in groups,
cost their parent a third more: 2,000 joined in 3.5 s instead of 3.1."""

PENDING_LINE: Final = 8192
"""Registrations that wait for such a place, of all connections: more than the children that a parent may have. The
call of each takes some 21 KB."""

ANNOUNCE_POSITIONS: Final = 2000
"""Positions in one PathDiscovery of ours: some 60 KB, so that a Proxy with a large subtree never nears a size limit."""

ROUTES_SLICE: Final = 256
"""Positions of announcements that are taken in, and routes that are withdrawn, in one go: some 3 ms, for which messages
wait. Larger announcements are taken in by slices, and messages pass between two of them."""

SLICE_TURNS: Final = 3
"""Turns of the event loop after such a slice, if more wait: a message is read, decided on and written in as many."""

ANNOUNCEMENT_COST: Final = 10
"""Positions that cost as much as an announcement by itself."""

ANNOUNCEMENT_COPIES: Final = 12
"""Times that the bytes of an announcement count towards its child's quota of bytes: gRPC holds copies, and a position
of 23 bytes becomes a route and a record of 550. With the default quota, one of the longest waits at a time."""

ANNOUNCEMENT_BYTES: Final = 1024
"""Bytes of an announcement from which on it counts towards the quotas of bytes: more than a short one has. A thousand
children with 16 requests of 16 KiB each took 250 MiB beside the quotas."""

POSITION_BYTES: Final = 64
"""Bytes of an announcement that count as a position at least: more than a position of a large job has."""

ANNOUNCEMENT_SHORT: Final = 32
"""Positions of an announcement that is taken in at once, without slices: 0.3 ms, as much as gRPC's part of the call."""

HEAD_FIELDS: Final = 16
"""Fields of an announcement in front of its path; there are two, and others of a later version."""

ROUTES: Final = 262_144
"""Nodes behind all children of a node, some 130 MiB; more if the user lets a single child have more."""

ROUTES_SHARES: Final = 4
"""Children that may each lead to as many nodes as a single one may."""

BACKOFF_INITIAL_S: Final = 0.05
"""Upper end of the first pause between attempts to join (docs/contract.md, section 3); doubles each time."""

BACKOFF_MAX_S: Final = 0.8
"""Upper end of every later pause: within the second of docs/contract.md, section 3, with room for the join: all nodes
are back one second after a parent listens."""

TRIAL_LEAST_S: Final = 0.1
"""Seconds that a send which waits for the join has left at least when it is tried again: the parent's answer, which is
there after a millisecond, may take as long on a busy machine."""

CONNECT_S: Final = 2.0
"""Seconds for connecting to a parent. On a network that is cut the kernel repeats a connection's first packet after 1 s
and after 3 s: who waits for the latter finds a network that is back too late, a new attempt finds it sooner. With 1 s,
4,000 children that connected at once to one busy parent gave up before their turn, for ever."""

JOINS_AT_ONCE: Final = 8
"""Nodes of one event loop that join at a time, half of them at one parent. A process has one node as a rule. In a
simulation of 10,000 nodes that joined all at once, most attempts ran out of time. Over a network with a round trip of
5 ms, eight are 400 joins a second."""

JOIN_ANSWER_MAX_S: Final = 60.0
"""Seconds that the answer to a step of joining gets at most, after earlier ones ran out of time: 5,000 children of one
parent, if each takes 10 ms of a busy core."""

JOIN_UNKNOWN_MAX_S: Final = 14.0
"""Seconds that Register gets at most at a parent that has never answered: two pings. A parent that permits none, like
the original's, closes the connection at the third."""

FULL_PAUSE_MAX_S: Final = 8.0
"""Seconds, upper bound of the pauses of a child that was refused with 5003: thousands that find no place and ask once a
second would take a whole core of their parent."""

RETRY_ATTEMPTS: Final = 16
"""Times that a message is sent at most, by default: with pauses of half a second on average, some 7 s of refusals, the
time to notice a frozen node. Attempts that time out take far longer."""

RETRY_WITHIN_S: Final = 30.0
"""Seconds for all attempts together, by default: the grace time, in which a restarted node is back."""

NOT_JOINED_LOG_S: Final = 300.0
"""Seconds between two lines of a node that is not joined: often enough to be found in the last lines of a log, too
rarely to fill it."""

POSITION_TAKEN_PAUSE_S: Final = 5.0
"""Least pause before a node whose position was taken tries again (docs/contract.md, section 3)."""

FIGHT_S: Final = 10.0
"""Seconds within which a position that changed hands counts as claimed by two nodes."""

FIGHT_PAUSE_S: Final = 1.0
"""Seconds that the answer to Register is held then, for a child that joins again without any pause of its own. Doubles
each time; a single hand-over, a node that was replaced, costs nobody a pause."""

FIGHT_PAUSE_MAX_S: Final = 5.0
"""Seconds that it is held at most: as long as a node of ours waits whose position was taken."""

QUARANTINE_S: Final = 1.0
"""Seconds that a message waits for the announcement of a sender that is known below another child: an announcement
takes milliseconds, and a second when thousands of nodes join at once."""

WAITING_BYTES: Final = 720
"""Bytes that a message in the quarantine takes besides its data: tracemalloc tells 718."""

QUARANTINE_MESSAGES: Final = 256
"""Messages of one child that wait so; then 5001."""

KEEPALIVE_TIME_S: Final = 5.0
"""Seconds of silence before a link is pinged."""

KEEPALIVE_TIMEOUT_S: Final = 2.0
"""Seconds without an answer to a ping until the link counts as lost; 7 s in all from freeze to detection."""

CLOSE_GRACE_S: Final = 1.0
"""Seconds that closing a node waits for the last answers to leave."""

DRAIN_LOOK_S: Final = 0.01
"""Seconds between two looks at whether a draining node is done. Looked at, not signalled: a signal would cost every
message of a node's life something, for once at its end."""

DRAIN_LOOKS: Final = 20
"""Looks that find no call held by gRPC, after which a draining node has all calls that had arrived: 200 ms. On a busy
machine, gRPC's threads may read nothing for 50 ms."""

DRAIN_LAST_LOOKS: Final = 5
"""Such looks before the server stops: the calls that came since have their codes then."""

DRAIN_TURNS: Final = 8
"""Turns of the loop in which the tasks of calls before a marker are woken. In 10,000 calls, three were enough."""

DRAIN_CATCH_UP_S: Final = 1.0
"""Seconds after which senders that keep calls waiting at gRPC all the time count as such, and the wait may end."""

DRAIN_CATCH_UP_CALLS: Final = 500
"""Calls of such senders that are taken in first, also when that takes a busy machine longer."""

ORIGINAL_DOWN_BYTES: Final = 4_194_304
"""Bytes of a serialized Message that a node of the original's takes from its parent. A larger one costs the whole
connection (docs/interop.md)."""

ORIGINAL_WAIT_S: Final = 3.0
"""Seconds that a node of the original's waits: as a parent for the next Ack, as a Proxy for each forwarded message
(docs/interop.md)."""

ORIGINAL_TURN_S: Final = 1.1 * ORIGINAL_WAIT_S
"""Seconds for each message on a link to a Proxy of the original's: its own wait, and the way there and back."""

ORIGINAL_CALL_S: Final = 8.0
"""Seconds for which this node tries to bring a child's message to the Mgr, where the child takes any answer for its
delivery: an Agent of the original's reports a fault three times, 1 s apart, and never again. Its calls have no
deadline. A Mgr that was killed is back by then, and so is a Proxy that lost its parent."""

ORIGINAL_ANSWER_S: Final = 0.9 * ORIGINAL_WAIT_S
"""Seconds within which a parent of the original's gets its Ack from us: its own wait, less the way there and back."""

ORIGINAL_LATE_S: Final = 0.97 * ORIGINAL_WAIT_S
"""Seconds after which an Ack for a parent of the original's does more harm than none: it would be taken for the next
message's."""

PULSE_S: Final = 0.2
"""Seconds between two looks at whether the event loop stood still, on a link to a parent of the original's."""

ORIGINAL_ANNOUNCE_POSITIONS: Final = 100_000
"""Positions in one PathDiscovery to a parent of the original's: some 3 MB, so everything below us in one request."""

COPIES_S: Final = 10.0
"""Seconds for which a broadcast is known that a neighbour sends once for each receiver. A later resend is intended."""

NOT_ANSWERING_S: Final = 8.0
"""Seconds without a sign of life after which messages over a direct link are answered 6001 at once (docs/contract.md,
section 3)."""

SILENT_S: Final = 60.0
"""Seconds without a sign of life after which a direct link ends. A process that holds its interpreter while it imports
or compiles gives none for up to 30 s (docs/contract.md, section 3)."""

OUTPUT_RETRY_S: Final = 1.0
"""Seconds before a line for which the disk had no room is written again."""

RELOAD_S: Final = 10.0
"""Seconds for each step of a reload, reading the settings and opening the log: twice `CONFIG_READ_S`, for file systems
that hang where no time limit of ours reaches."""

CONFIG_BYTES: Final = 1024 * 1024
"""Bytes of a configuration file or a file of TLS: a thousand times what one has. A device without an end is refused."""

CONFIG_READ_S: Final = 5.0
"""Seconds for reading one: a disk that spins up takes a few. A FIFO that nobody writes into is given up then."""

GATHER_IDLE_S: Final = 0.0004
"""Seconds without a further unary call after which the gathered ones are decided on (`links/transfers.py`): gRPC hands
over the next one within half of that, if it has it."""

GATHER_S: Final = 0.002
"""Seconds for which a message that comes by a unary call is gathered at most: a few round trips to the next hop."""

GATHER_MESSAGES: Final = 16
"""Messages that are gathered at most: twice as many in one batch gain nothing that can be measured."""

GATHER_DECISIONS: Final = 8
"""Decisions on one message alone after which calls no longer count as coming together."""

LOG_FILE_BYTES: Final = 10 * 1024 * 1024
"""Bytes of one log file, some 50,000 lines: with a line per change of state, days of a job in trouble."""

LOG_FILES: Final = 5
"""Log files kept of one node, the current one included: at most 50 MiB, so 450 MiB for 8 Workers and their Proxy."""

LOG_VALUE_CHARS: Final = 500
"""Characters of one value in a log line: a path, or a reason with the text of an error. Longer values come from a fault
or from an attacker: ten of 7 MiB would rotate every other line out of the files."""

LOG_TRACEBACK_CHARS: Final = 4000
"""Characters of a traceback in a log line, half of them from its end: some thirty frames."""

LOG_PEER_LINES: Final = 10
"""Lines of one event about one peer at once: enough to see a pattern."""

LOG_PEER_REFILL_S: Final = 60.0
"""Seconds until one more of them: 1,440 a day, some 300 KiB."""

LOG_WAITING: Final = 1000
"""Lines of the package's threads that wait for a handler of the application; the oldest goes. Budgets allow some 100 at
once."""

LOG_WAIT_S: Final = 0.1
"""Seconds that such a thread waits for a handler that is free, so that lines are there when a call returns."""

LOG_PEERS: Final = 8192
"""Events and peers with a budget of their own, above the children of a large parent. Beyond it all budgets begin again;
the bound on all peers together stays."""

LOG_WARNINGS: Final = 100
"""Lines of one event of level WARNING or above at once, about all peers together: some 50 KiB."""

LOG_CHANGES: Final = 5000
"""Lines of any other event at once: every child of a large parent joins."""

LOG_REFILL_S: Final = 10.0
"""Seconds until one more line about all peers together: 2 MiB a day of one event."""

CERTIFICATES_LOOK_S: Final = 20.0
"""Seconds between two looks at the files of TLS when nothing is heard of a change, as on network file systems. Changes
are to be taken in within a minute."""

RENEWAL_SPREAD_S: Final = 10.0
"""Seconds over which the nodes that have new certificates at the same moment spread their new connections: 5,000
handshakes at once would hold up a parent's messages."""

RENEWAL_S: Final = 1.0
"""Seconds that a link may stand still while it moves to a new connection; a few milliseconds as a rule. Waiting
messages are delayed, not lost: senders wait longer than that."""

RENEWAL_RETRY_S: Final = 5.0
"""Seconds before a move to a new connection that failed is tried again; the old connection does its work meanwhile."""

RANK_CHARS: Final = 64
"""Characters of a rank, and of the processRank of a node that is no Worker (a start time, at most). Longer ones name
nobody, and would be remembered with every table that they come into."""

REMEMBERED_CHARS: Final = 256
"""Characters of a destination or position up to which what was found out about it is remembered: a list of some fifty
ranks. A sender of ever new ones fills that memory up to its bound."""

UUID_CHARS: Final = 128
"""Least value for the length of a uuid: shorter ones are never looked at for it."""

STRANGERS_LOOK_S: Final = 1.0
"""Seconds between two looks at the system's table of connections, which takes some 10 ms with 5,000 of them."""

STRANGERS_HEARD_S: Final = 10.0
"""Seconds after which whoever has begun TLS and has not registered is a stranger: as long as a registration may take
that a parent holds back, and more."""

HANDLER_GRACE_S: Final = 2.0
"""Seconds that destroying a node waits for a handler of the application's to return; nothing can end it by force."""

SWITCH_NIC_S: Final = 7200.0
"""Seconds that all Workers have to switch their network cards, as with TaskD's Manager."""

STRESS_TEST_S: Final = 900.0
"""Seconds for a stress test, as with TaskD's Manager: one operation takes 300 to 600."""

KILLED_S: Final = 2.0
"""Seconds from SIGKILL to the end of a process. One that a driver holds does not end, and is left."""
