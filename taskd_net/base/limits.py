"""Limits and defaults that documents promise to users, each with its unit and the reason for its value.

Any other limit stands in the module that uses it, and so does what only an engineer of the package needs to know.
Settings of users are fields of `config.NodeConfig`, `peer_limits.Limits` or `tls.files.Tls`.
"""

from __future__ import annotations

from typing import Final

# Messages, inboxes and answers (docs/contract.md, sections 2 and 5)

MESSAGE_BYTES: Final = 8_388_608
"""Bytes of a serialized Message (docs/contract.md, section 2); the original's Mgr refuses more upwards as well."""

RECEIVE_BYTES: Final = 5 * MESSAGE_BYTES // 4
"""Bytes gRPC accepts in one message, at a parent and at a child. Above MESSAGE_BYTES, so that an oversized message gets
4999 instead of a broken call; bounded, because while it is read it lies in memory up to four times."""

RANKS_PER_LIST: Final = 16_384
"""Ranks in one comma list. A list that names every rank of a large job still fits; garbage does not."""

INBOX: Final = {"Mgr": 1024, "Proxy": 32, "Agent": 8, "Worker": 8}
"""Messages that wait in an inbox, by role (docs/contract.md, section 5): more senders need more room."""

INBOX_WAIT_S: Final = 0.010
"""Seconds a sync message waits for room in a full inbox before 5001 (docs/contract.md, section 5)."""

DEDUP_WINDOW: Final = 4096
"""Uuids of other makes that a receiver remembers of each sender (docs/contract.md, section 5): more than a sender can
have in flight and resend."""

SEEN_S: Final = 600.0
"""Seconds for which a receiver remembers the uuids of this package's messages (docs/contract.md, section 5): the
longest time for which a message is retried."""

ACK_TIMEOUT_S: Final = 3.0
"""Seconds the Mgr waits for a child's answer (docs/contract.md, section 5); also the default timeout of a send."""

TIMEOUT_MAX_S: Final = 86_400.0
"""Seconds that anybody can be made to wait for an answer. A day is for ever here, and fits what the wire and gRPC can
say; infinity does not."""

QUARANTINE_S: Final = 1.0
"""Seconds that a message waits for the announcement of a sender that is known below another child: an announcement
takes milliseconds, and a second when thousands of nodes join at once."""

# Back-pressure on a link (docs/contract.md, section 5; docs/reliability.md)

LINK_MESSAGES: Final = 1024
"""Messages that wait to be written on one link (docs/contract.md, section 5)."""

LINK_BYTES: Final = 16 * 1024 * 1024
"""Bytes that wait to be written on one link (docs/contract.md, section 5): two of the largest messages."""

SHARED_IN_FLIGHT: Final = 4096
"""Messages in flight on a link that many share (to a Proxy, or upstream)."""

SEND_ALL_IN_FLIGHT: Final = 256
"""Messages that `send_all` has in flight at most, by default: full throughput, and a quarter of a link's room."""

# Joining, and the end of a link (docs/contract.md, section 3; docs/reliability.md)

MAX_CHILDREN: Final = 5000
"""Children of one parent (docs/contract.md, section 3)."""

GRACE_S: Final = 30.0
"""Seconds a child whose stream is gone keeps its place and its routes (docs/contract.md, section 3)."""

REGISTRATION_HOLD_S: Final = 10.0
"""Seconds a registration holds its place without a stream (docs/contract.md, section 3)."""

ANNOUNCE_POSITIONS: Final = 2000
"""Positions in one PathDiscovery of ours: some 60 KB, so that a Proxy with a large subtree never nears a size limit."""

BACKOFF_INITIAL_S: Final = 0.05
"""Upper end of the first pause between attempts to join (docs/contract.md, section 3); doubles each time."""

BACKOFF_MAX_S: Final = 0.8
"""Upper end of every later pause: within the second of docs/contract.md, section 3, with room for the join: all nodes
are back one second after a parent listens."""

CONNECT_S: Final = 2.0
"""Seconds for connecting to a parent. On a network that is cut the kernel repeats a connection's first packet after 1 s
and after 3 s: who waits for the latter finds a network that is back too late, a new attempt finds it sooner. With 1 s,
4,000 children that connected at once to one busy parent gave up before their turn, for ever."""

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

KEEPALIVE_TIME_S: Final = 5.0
"""Seconds of silence before a link is pinged."""

KEEPALIVE_TIMEOUT_S: Final = 2.0
"""Seconds without an answer to a ping until the link counts as lost; 7 s in all from freeze to detection."""

NOT_ANSWERING_S: Final = 8.0
"""Seconds without a sign of life after which messages over a direct link are answered 6001 at once (docs/contract.md,
section 3)."""

SILENT_S: Final = 60.0
"""Seconds without a sign of life after which a direct link ends. A process that holds its interpreter while it imports
or compiles gives none for up to 30 s (docs/contract.md, section 3)."""

CLOSE_GRACE_S: Final = 1.0
"""Seconds that closing a node waits for the last answers to leave."""

# Nodes of TaskD's own TaskNet (docs/interop.md)

ORIGINAL_DOWN_BYTES: Final = 4_194_304
"""Bytes of a serialized Message that a node of the original's takes from its parent. A larger one costs the whole
connection (docs/interop.md)."""

ORIGINAL_WAIT_S: Final = 3.0
"""Seconds that a node of the original's waits: as a parent for the next Ack, as a Proxy for each forwarded message
(docs/interop.md)."""

ORIGINAL_ANSWER_S: Final = 0.9 * ORIGINAL_WAIT_S
"""Seconds within which a parent of the original's gets its Ack from us: its own wait, less the way there and back."""

# Certificates and strangers (docs/security.md)

CERTIFICATES_LOOK_S: Final = 20.0
"""Seconds between two looks at the files of TLS when nothing is heard of a change, as on network file systems. Changes
are to be taken in within a minute."""

RENEWAL_SPREAD_S: Final = 10.0
"""Seconds over which the nodes that have new certificates at the same moment spread their new connections: 5,000
handshakes at once would hold up a parent's messages."""

RENEWAL_S: Final = 1.0
"""Seconds that a link may stand still while it moves to a new connection; a few milliseconds as a rule. Waiting
messages are delayed, not lost: senders wait longer than that."""

STRANGERS_HEARD_S: Final = 10.0
"""Seconds after which whoever has begun TLS and has not registered is a stranger: as long as a registration may take
that a parent holds back, and more."""

# Configuration and logs (docs/configuration.md, docs/operations.md)

CONFIG_BYTES: Final = 1024 * 1024
"""Bytes of a configuration file or a file of TLS: a thousand times what one has. A device without an end is refused."""

CONFIG_READ_S: Final = 5.0
"""Seconds for reading one: a disk that spins up takes a few. A FIFO that nobody writes into is given up then."""

LOG_FILE_BYTES: Final = 10 * 1024 * 1024
"""Bytes of one log file, some 50,000 lines: with a line per change of state, days of a job in trouble."""

LOG_FILES: Final = 5
"""Log files kept of one node, the current one included: at most 50 MiB, so 450 MiB for 8 Workers and their Proxy."""

LOG_VALUE_CHARS: Final = 500
"""Characters of one value in a log line: a path, or a reason with the text of an error. Longer values come from a fault
or from an attacker: ten of 7 MiB would rotate every other line out of the files."""

LOG_PEER_LINES: Final = 10
"""Lines of one event about one peer at once: enough to see a pattern."""

LOG_PEER_REFILL_S: Final = 60.0
"""Seconds until one more of them: 1,440 a day, some 300 KiB."""

LOG_WARNINGS: Final = 100
"""Lines of one event of level WARNING or above at once, about all peers together: some 50 KiB."""

LOG_CHANGES: Final = 5000
"""Lines of any other event at once: every child of a large parent joins."""

LOG_REFILL_S: Final = 10.0
"""Seconds until one more line about all peers together: 2 MiB a day of one event."""

# The state of the mesh (docs/status.md)

STATUS_FIGURES_S: Final = 2.0
"""Seconds between two reports of figures to a parent, and the least time over which answer times are taken together."""

STATUS_REASON_BYTES: Final = 300
"""Bytes of the reason for a kind of link, or for the end of a stream, in reports: an address, and the text of an
error of the system or of TLS. A record of a node has 1,024 bytes for everything."""

# Jobs (docs/api.md, docs/manager.md)

HANDLER_GRACE_S: Final = 2.0
"""Seconds that destroying a node waits for a handler of the application's to return; nothing can end it by force."""

IN_PLACE_S: Final = 60.0
"""Seconds that a Worker has to come back for the next epoch: the start of a process that imports a framework, twice."""

NODE_S: Final = 900.0
"""Seconds that the nodes of a job wait for one that has not come, or is lost, where the Manager restarts processes:
as long as torchrun's nodes."""

SWITCH_NIC_S: Final = 7200.0
"""Seconds that all Workers have to switch their network cards, as with TaskD's Manager."""

STRESS_TEST_S: Final = 900.0
"""Seconds for a stress test, as with TaskD's Manager: one operation takes 300 to 600."""

KILLED_S: Final = 2.0
"""Seconds from SIGKILL to the end of a process. One that a driver holds does not end, and is left."""
