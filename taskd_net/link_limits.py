"""Limits of links between nodes of this package: batches, and direct sockets. As in `limits`."""

from __future__ import annotations

from typing import Final

from taskd_net.limits import ABANDONED_UUIDS, SHARED_IN_FLIGHT

BATCH_MESSAGES: Final = 256
"""Messages in one batch of a batched link. More gains nothing measurable and delays the answers in the same batch."""

BATCH_BYTES: Final = 512 * 1024
"""Bytes of the messages in one batch; a larger message goes alone. Bodies of 64 KiB are about twice as fast eight in a
batch as one by one (docs/performance.md). More would delay the messages behind a batch more."""

BATCH_ANSWERS: Final = 1024
"""Answers of each of the two forms in one batch: some milliseconds of work for who reads it."""

ANSWERS_AT_ONCE: Final = 256
"""Acks of a batch that are read in one go, some 2 ms; then other links have their turn."""

BATCH_ANSWERS_READ: Final = SHARED_IN_FLIGHT + ABANDONED_UUIDS
"""Answers of each form in a batch that is read. Nodes of 0.1.0 write all that wait in one batch, and a neighbour has so
many messages in flight or given up."""

BATCH_ANSWER_BYTES: Final = 512 * 1024
"""Bytes of the answers in one batch that are Acks, with their branches: 1,024 answers to broadcasts with a dozen
failures each."""

BATCH_FIELDS: Final = BATCH_ANSWERS_READ + 2048
"""Fields in one batch: one for each message, answer, branch and span, and one for all numbers of a kind."""

BATCH_OTHER_BYTES: Final = 2 * BATCH_ANSWER_BYTES
"""Bytes of everything but the messages in one batch: answers, and as much for uuids, numbers and spans."""

BATCH_COUNTED_BYTES: Final = 256 * 1024
"""Bytes from which on the fields of a batch are counted before it is read. Below, even a batch of nothing but empty
fields is read in some 3 ms; above, honest batches have large messages, and so few fields."""

BATCHES_AHEAD: Final = 4
"""Batches that an end of a batched link writes ahead of what the other end has taken in. Without this bound a steady
stream of single messages piles up before a busy receiver as many small batches, whose cost lets it fall further behind:
4,000 messages a second then took 20 to 190 ms each, with it 2 ms (docs/performance.md). More: the pile is that much
longer; fewer: an end would have to confirm each batch by one of its own."""

BATCHES_CONFIRMED: Final = 2
"""Batches after which an end says so by itself, if nothing else goes back: before the other end has to wait."""

DIRECT_READ_BYTES: Final = 128 * 1024
"""Bytes of the buffer that all direct links of an event loop read into, and so of one read: more small messages than
may be in flight to a leaf. A larger frame is put together in a buffer of its link; its first read is copied there."""

DIRECT_OWN_BYTES: Final = 4 * 1024
"""Least bytes of a link's own buffer, for the beginning of a frame. It ends with the frame."""

DIRECT_BATCH_BYTES: Final = 1024 * 1024
"""Bytes of the messages in one batch of a direct link; a larger message goes alone. With 16 bodies of 64 KiB in a batch
each costs less than with 8 (docs/performance.md). Twice as many gain nothing, and need a larger DIRECT_FRAME_BYTES."""

DIRECT_LARGE_AHEAD: Final = 2
"""Batches ahead of the other end beyond which none of more than BATCH_BYTES is written: what lies between two processes
then stays in the processor's cache. At least BATCHES_CONFIRMED, or a link without answers would stand still."""

DIRECT_FRAMES_AT_ONCE: Final = 64
"""Frames of a direct link that are handled in one go. An end is four batches ahead at most, so an honest one never has
as many. 50,000 small frames of a hostile one are one read, and took 0.1 s."""

DIRECT_SIGNS: Final = 64
"""Pings and pongs of the other end in a second; with more the link ends. A silent end is pinged every 2 s, for 60 s. A
flood of pings held a training thread for up to 0.8 s."""

DIRECT_TURN_S: Final = 0.004
"""Seconds of batches of one direct link after which other links have their turn, and of the reads of all direct links
before the turn of the loop ends. One read may have 4,000 small messages: a flood delayed others by 0.3 s. A thousand
links that each had this time delayed them by 4 to 16 s."""

DIRECT_TURN_GAP_S: Final = 0.0005
"""Seconds without a read after which the loop has had other turns."""

DIRECT_WAITING_BYTES: Final = 16 * 1024
"""Bytes of one read while others wait for their turn: 100 small messages, some 2 ms. A thousand links that wait hold 16
MiB, not 128."""

DIRECT_REQUEST_S: Final = 0.0002
"""Seconds that a request of a child counts for in that time: a task of its own takes it up in the next turn."""

DIRECT_GROWN_BYTES: Final = 64 * 1024
"""Bytes of the buffer of a frame whose first DIRECT_OWN_BYTES have come. It is doubled when it is full, up to the
frame's length. Python clears a new buffer, so a length of 8 MiB alone would cost 8 MiB."""

DIRECT_FRAME_BYTES: Final = 1024 * 1024 + 64 * 1024
"""Bytes of a buffer that an event loop keeps for its next large frame: any batch (DIRECT_BATCH_BYTES), and a message
with a body of 1 MiB, come in without growth."""

DIRECT_SPARES: Final = 4
"""Such buffers at most: as many large frames as came at the same time. With one, eight senders of 1 MiB each cost a
tenth more."""

DIRECT_UNFINISHED_PART: Final = 8
"""The buffers of unfinished frames of all children have at most `Limits.total_bytes`, as the whole messages that wait:
by default 32 of the largest at a time, or 1,000 of 256 KiB. Beyond this part of it, 32 MiB, a frame that stands still
ends its link, if another one grows. 5,000 heads without a body take 20 MiB."""

DIRECT_UNFINISHED_STILL_S: Final = 1.0
"""Seconds without a byte after which an unfinished frame stands still. A machine without packet loss resends after 0.2
s; a process that is stopped, or holds its interpreter, loses its link only if the memory is needed."""

DIRECT_UNFINISHED_ENDS: Final = 16
"""Links that end in one go for that part: each end takes their parent some 0.3 ms."""

UNFINISHED_LOOK_S: Final = 0.02
"""Seconds between two looks at the calls of gRPC whose messages have not come whole."""

UNFINISHED_LOOKS: Final = 3
"""Looks that such a call has seen before it counts, so after 40 to 60 ms. Until then its peer can send as much as the
network carries. Looks count, not seconds: a busy loop has read what is whole before it looks for the third time."""

UNFINISHED_CHILD_LOOKS: Final = 100
"""The same for calls over the connection of a child: 2 s, in which a Proxy has brought 25 MB at 100 Mbit/s."""

SILENT_CALL_S: Final = 60.0
"""Seconds after which such a call stands still, as a frame without a byte does. Nobody waits longer for an answer."""

DIRECT_VIEWED_BYTES: Final = 16 * 1024
"""Bytes of a batch from which on it is read where it lies. Reading a view costs a microsecond more, copying 16 KiB as
much."""

DIRECT_JOINED_BYTES: Final = 16 * 1024
"""Bytes of a batch from which on its head is written beside it: joining the two would copy it."""

DIRECT_PIECE: Final = 32
"""Messages or answers of a direct link that leave before the turn of the loop is over. Fewer: each piece costs some
40 µs at every hop. More: with 64 messages in flight one node works at a time, and a fifth of the rate is lost."""

DIRECT_PIECES_AHEAD: Final = 2
"""Batches ahead of the other end from which on a piece is larger: every node has one to work on."""

DIRECT_PIECES: Final = 64
"""Messages of such a piece, and in one batch at most: with 256 in flight a fifth more than with pieces of 32."""

DIRECT_TOKEN_BYTES: Final = 32
"""Bytes of the random token that a parent gives to a child for one direct link: nobody guesses it."""

DIRECT_GREETING_BYTES: Final = 1024
"""Bytes of the first frame on a direct link, whose sender is still unknown: a greeting has 50."""

DIRECT_GREETING_S: Final = 2.0
"""Seconds for TLS and the greeting of whoever connects to the port of direct links."""

DIRECT_GREETINGS: Final = 1024
"""Connections to the port of direct links that have not greeted; the next one is closed at once."""

DIRECT_GREETINGS_PER_ADDRESS: Final = 256
"""The same of one address: as many as its registrations without a stream (PENDING_PER_ADDRESS)."""

DIRECT_REQUESTS: Final = 16
"""Requests of one child under way over its direct link, with their replies that wait there. A node of ours has an
announcement, a report and the word that it leaves; with more the link ends."""

DIRECT_REQUEST_FIELDS: Final = 32
"""Fields of such a request or reply; there are five, and others of a later version."""

DIRECT_LOOK_S: Final = 0.25
"""Seconds between two looks at what the other machine's kernel has acknowledged. A shorter time finds a cut
sooner after its 2 s (KEEPALIVE_TIMEOUT_S); a look costs 2 µs for each link that has something outstanding. Looks at
silent links are at its multiples: 1,250 children at rest wake their parent 4 times a second instead of 600 times."""

DIRECT_CONNECT_S: Final = 0.05
"""Seconds for a connection to the offered port: a firewall that drops packets costs no join more than this."""

DIRECT_LOCAL_NAME_BYTES: Final = 16
"""Random bytes of the name of a Unix socket: no two are the same, also after a restart."""

DIRECT_LOCAL_BYTES: Final = 1024 * 1024
"""Bytes that a Unix socket holds for its reader (the kernel doubles them, and allows at most `net.core.wmem_max`). With
the system's 208 KiB each batch of large bodies waits for the reader several times (docs/performance.md)."""

DIRECT_ACCEPT_PAUSE_S: Final = 0.1
"""Seconds before the next connection is accepted where none could be, mostly for want of file descriptors."""

DIRECT_RETRY_S: Final = 60.0
"""Seconds between two looks at whether a port that did not answer does so now."""

FREED_BYTES_KEPT: Final = 64 * 1024 * 1024
"""Bytes of freed memory that a process of ours keeps: the blocks of a message of 8 MiB on its way, and the share of one
peer. A training process keeps its own allocator as it is."""

HEAP_BLOCK_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a block up to which freed memory serves it: more than gRPC's buffer for the largest message."""

UPSTREAMS: Final = 8
"""Addresses of a node's parent. Each costs a round at least one attempt."""

UPSTREAM_LOOK_S: Final = 0.5
"""Seconds for the look at all addresses after a loss. Longer finds a slow parent; shorter wastes less where none is."""
