"""Limits and defaults above the mesh: TaskD's calls, Agents, and the Manager's decisions. As in `limits`."""

from __future__ import annotations

from typing import Final

LEASE_S: Final = 5
"""Seconds without a sign of life after which a Manager with its state in etcd leads no more. etcd grants whole seconds,
and by default none below two."""

LEASE_RENEW_S: Final = 1.0
"""Seconds between two renewals of the lease. It outlasts an election among etcd's members that begins just before one:
some 3 s on a busy machine."""

LEASE_MARGIN_S: Final = 0.5
"""Seconds before the end of the lease at which its holder stops deciding: far more than two clocks differ in 5 s."""

LEADER_LOOK_S: Final = 0.25
"""Seconds between two looks at the lease of another Manager."""

STANDBY_YIELDS_S: Final = 2.0
"""Seconds that a standby leaves the lease to others after etcd was away. The Manager that has led takes it sooner, and
its children need not move."""

LEADER_GONE_S: Final = 8.0
"""Seconds that a Manager waits at its start for the lease of one before it, which may have been killed a moment ago."""

ETCD_TRY_S: Final = 0.7
"""Seconds for one member of etcd to answer before the next one is asked. A commit takes milliseconds; an election among
the members takes one or two seconds."""

ETCD_CALL_S: Final = 3.5
"""Seconds for one request to etcd, over all members: as long as the lease outlasts without a renewal."""

ETCD_AGAIN_S: Final = 0.2
"""Seconds before a commit that no member has answered is tried again."""

ETCD_COMMIT_KEYS: Final = 100
"""Keys in one request to etcd, which takes 128 by default."""

ETCD_COMMIT_CHARS: Final = 400_000
"""Characters in one request to etcd, which takes 1.5 MiB by default; staged as JSON they may double."""

ETCD_VALUE_CHARS: Final = 100_000
"""Characters of one value in etcd; a longer part of the state takes several."""

ETCD_READ_KEYS: Final = 64
"""Keys that are read at once: 6.4 MB at most, below what a client of gRPC receives here."""

CLUSTERD_PORT: Final = 8899
"""TCP port of ClusterD."""

CLUSTERD_CALL_S: Final = 15.0
"""Seconds for one call of ClusterD: it answers Register after 6 s where the kube API fails."""

CLUSTERD_REPORT_S: Final = 15.0
"""Seconds for one report to ClusterD. It holds a second report back until the first one is read."""

CLUSTERD_INIT_S: Final = 5.0
"""Seconds between two Inits, and two Registers, that fail, as TaskD's client waits."""

CLUSTERD_REGISTERS: Final = 3
"""Registers before the client begins again with Init, as TaskD's client."""

CLUSTERD_OFF_S: Final = 30.0
"""Seconds after which a Manager asks again where recovery is switched off: an operator may have switched it on."""

CLUSTERD_PAUSE_S: Final = 1.0
"""Seconds after a first stream that broke; each further one in a row adds as much."""

CLUSTERD_PAUSE_MOST_S: Final = 10.0
"""Seconds of that pause at most, and those after a health check without an answer."""

CLUSTERD_SETTLED_S: Final = 0.2
"""Seconds from a subscription to the first report of a fault, and from the end of a stream for operations to the next.
ClusterD loses the ranks of a report in the first 0.1 s, while it resets the machine of the job."""

CLUSTERD_FRAGILE_S: Final = 6.0
"""Seconds after changeStrategy recover-in-place in which a client ends no stream of signals: the end of one within
5 s ends ClusterD, with the rounds of all jobs."""

CLUSTERD_HEALTH_S: Final = 1.0
"""Seconds between two health checks, as TaskD's client."""

CLUSTERD_LOOK_S: Final = 1.0
"""Seconds between two connects to a ClusterD that could not be reached, and for each of them. One that works ends the
pause: a ClusterD that is back gets its clients within 1.5 s."""

CLUSTERD_WAITING: Final = 16_384
"""Orders that wait for the application at most; ClusterD sends the next one after its machine has moved on."""

REPLY_PAUSE_S: Final = 1.0
"""Seconds between them."""

MINDIO_CALL_S: Final = 30.0
"""Seconds for one call of MindIO's controller, which returns at once: its process may be starting on a busy machine."""

MINDIO_END_S: Final = 10.0
"""Seconds that MindIO's controller has to end after an `exit`: it takes 5 s. Then its process is killed."""

MINDIO_AGAIN_S: Final = 60.0
"""Seconds that a process of MindIO's controller has lived if another one follows at once. One that ends sooner ends
again, so the next one waits for a restart of the training."""
