"""The vocabulary of TaskD's own messages: types, codes, and keys of extensions (docs/contract.md, section 7).

The code is unique only together with the type: 201 and 202 are both a `STATUS`, a REGISTER of an Agent has 0.
"""

from __future__ import annotations

from typing import Final

REGISTER: Final = "REGISTER"
KEEP_ALIVE: Final = "KEEP_ALIVE"
STATUS: Final = "STATUS"
ACTION: Final = "ACTION"
GRACE_EXIT: Final = "GRACE_EXIT"
DEVICE_FAULT: Final = "FAULT"
"""A report of a device watcher, of this package: a fault code of a device, which is the message."""

AGENT_REGISTERS: Final = 0
WORKER_REGISTERS: Final = 101
MAY_I_START: Final = 201
FAULT: Final = 202
EXIT: Final = 203
SWITCH_NIC: Final = 204
STRESS_TEST: Final = 205
RESTART_ALL: Final = 208
RESTART_RANKS: Final = 209
START: Final = 210
STOP_RANKS: Final = 213

AGENT_COMMANDS: Final = frozenset((EXIT, RESTART_ALL, RESTART_RANKS, START, STOP_RANKS))
"""Codes that an Agent of the original survives."""

PROFILING_COMMANDS: Final = range(700, 712)
WORKER_COMMANDS: Final = frozenset((SWITCH_NIC, STRESS_TEST, *PROFILING_COMMANDS))
"""Codes of the Mgr's commands to Workers."""

PROFILING_STATES: Final = range(1400, 1500)
"""Codes of a Worker's profiling state."""

EPOCH_STATE: Final = 301
"""`STATUS` of a Worker of this package: its part in the training (`job.decide.epochs`)."""
EPOCH_BEGIN: Final = 302
"""`ACTION` of a Mgr of this package: join the epoch whose number is the message."""
EPOCH_END: Final = 303
"""`ACTION` of a Mgr of this package: leave that epoch."""

READY: Final = 304
"""`STATUS` of an Agent of this package: it is ready for the round whose number is the message."""
MEETING: Final = 305
"""`ACTION` of a Mgr of this package to an Agent: all nodes are ready for that round, or whom it waits for."""
FINISHED: Final = 306
"""`STATUS` of an Agent of this package: all its workers have succeeded in that round."""
RELEASED: Final = 307
"""`ACTION` of a Mgr of this package to an Agent: so have those of all nodes."""

NODE_RANK: Final = "NODE_RANK"
"""Type of a message to a Mgr of this package, by a launcher's place as a tool: it asks for the rank of its node. The
message is a text of the launcher's own."""
HOST: Final = "Host"
PID: Final = "Pid"
RANK: Final = "Rank"
NODES: Final = "Nodes"
"""Keys in the extension of a `NODE_RANK`: name of the launcher's host, its pid, the rank that it has, and the number of
nodes that it was started for."""
RANK_GIVEN: Final = 308
"""`ACTION` of a Mgr of this package: the answer to a `NODE_RANK`, the rank, or a `Reason` why there is none."""

LEAVES: Final = 309
"""`STATUS` of an Agent of this package: a signal ends it. The message is `JOB` where it ends the job, too, else
empty: the node may come back."""

STACKS_WANTED: Final = 310
"""`ACTION` of a Mgr of this package to an Agent: collect the stacks of the ranks that the message lists, of all if it
lists none."""
STACKS: Final = 311
"""`STATUS` of an Agent of this package: they are collected; the message is that `Collection`."""
COLLECTION: Final = "Collection"
"""Key in the extension of a 310: a text of the Mgr's own for this collection."""
STACKS_TEXT: Final = "Stacks"
"""Key in the extension of a 311: the stacks (`base.stacks`)."""
SHOWS_STACKS: Final = "stacks"
"""A feature: the Agent collects the stacks of its ranks."""

MEETING_COMMANDS: Final = frozenset((MEETING, RELEASED))
"""Codes for Agents that have named the feature `MEETS`; others do not know them."""

FEATURES: Final = "Features"
"""Key in the extension of a REGISTER of this package's Agents: what the Agent can do, with commas between."""
MEETS: Final = "meets"
"""A feature: the Agent meets the other nodes by way of the Mgr, and no store of the framework's is needed for it."""

TELLS: Final = "tells"
"""A feature: the Agent says why its processes have failed, and takes the cause of a failure of the job."""

CAUSE: Final = "Cause"
"""Key in the extension of a 202 and a 304: the node's first failure (`base.cause`); of a 203 and a 305: the job's."""
OTHERS: Final = "Others"
"""Key in the extension of a 203: the ranks that failed after it, with commas between."""

ROUND: Final = "Round"
"""Key in the extension of a 210, a 208 and a REGISTER: the number of the start of all nodes that it is about."""
STORE: Final = "Store"
"""Key in the extension of a 304 and a 305: the address of the workers' store in this round, `HOST:PORT`."""
LOCAL_WORLDS: Final = "LocalWorlds"
"""Key in the extension of a 305: the number of workers of each node, with commas between."""
EXIT_STATUS: Final = "ExitStatus"
"""Key in the extension of a 203 of a Manager that ends the job itself: exit status of each launcher, 1 without it."""
STARTS: Final = "Starts"
"""Key in the extension of a 305: the starts of all processes before this one, in this run."""
MISSING: Final = "Missing"
"""Key in the extension of a 305: the nodes that the others wait for, with commas between."""
SECONDS: Final = "Seconds"
"""Key in the extension of a 210, a 208 and a 305: seconds that a node is waited for; in a 305 what is left of them."""

RECOVERED: Final = 0
"""`FAULT`: the fault of the device is over."""
OCCURRED: Final = 1
"""`FAULT`: the fault has begun."""
ONCE: Final = 2
"""`FAULT`: an event without an end."""
RELEASE: Final = 3
"""`FAULT`: a person takes the device, which is the message, off the list of separated devices."""

DEVICE: Final = "Device"
NODE: Final = "Node"
SEVERITY: Final = "Severity"
AT: Final = "At"
NETWORK: Final = "Network"
"""Keys in the extension of a `FAULT`."""

ACTION_WANTED: Final = "Action"
"""Key in the extension of a `FAULT` to a Worker: what it is asked for."""

DEVICES: Final = "Devices"
"""Key in the extension of a REGISTER of this package's Agents: the node's devices, a JSON list by local rank."""

EPOCH: Final = "Epoch"
WORLD: Final = "World"
LOCAL_WORLD: Final = "LocalWorld"
REASON: Final = "Reason"

IN_PLACE: Final = "InPlace"
"""Key in the extension of a 210: the Mgr of this package recovers in place, so Workers wait for its epochs."""

JOB: Final = "job"
PLATFORM: Final = "platform"
"""The two that may start again what has failed: the Mgr, or a platform."""

ON_HANG_REPORT: Final = "report"
ON_HANG_GUILTY: Final = "guilty"
ON_HANG_ALL: Final = "all"
ON_HANG: Final = (ON_HANG_REPORT, ON_HANG_GUILTY, ON_HANG_ALL)
"""The answers of a Mgr to a hang: none, a restart of the guilty ranks, or of all."""

RESTARTS: Final = "Restarts"
"""Key in the extension of a 210 of a Mgr of this package that restarts what fails: `JOB`. Else a platform does."""

MAX_RESTARTS: Final = "MaxRestarts"
"""Key in the extension of a 201 of this package's Agents: restarts of their launcher's own argument; 0 is none.

The message has TaskD's number, which cannot say that: 0 is no number there.
"""

INCARNATION: Final = "Incarnation"
"""Key in the extension of a REGISTER of this package's, and of a 210: its value differs for each process and role.

A Mgr tells a repeated registration from that of a restarted process by it; an Agent recognises a Mgr of this package.
"""

MEANT_FOR: Final = "MeantFor"
"""Key in the extension of a command to an Agent of this package: the incarnation of the process that it is for.

A command may be sent again after that process was replaced. The new process refuses it, and registers.
"""

TERM: Final = "Term"
"""Key in the extension of a command of a Mgr of this package with its state in etcd: the fencing number of its lease.

It grows with each leader. A receiver of this package refuses a command with a smaller one than it has seen.
"""

AFTER: Final = "AfterRestart"
"""Key in the extension of a 202 of this package's: the uuid of the last 208 or 209 that the Agent had taken before it.

The acknowledgement of that command may come later than the report, which it does not settle.
"""

WORKER_STATE: Final = "WorkerState"
"""Key in the extension of a KEEP_ALIVE and a 202 of this package's Agents: the state of the training processes."""

SUCCEEDED: Final = "SUCCEEDED"
WORKER_STATES: Final = frozenset(("UNKNOWN", "INIT", "HEALTHY", "UNHEALTHY", "STOPPED", SUCCEEDED, "FAILED"))
"""The values of it: names of torch's WorkerState."""

PROGRESS: Final = "Progress"
"""Key in the extension of a KEEP_ALIVE of this package's Agents to a Mgr of it: the progress of the node's ranks
(`base.progress`)."""
HIGHEST_STEP: Final = "HighestStep"
"""Key in the extension of a 210, a 208, a 209 and a 305: the highest step that the job has done, where ranks mark
steps."""

FAULT_TIME: Final = "REPORT_FAULT_TIME"
FAULT_RANKS: Final = "FaultRanks"

SWITCH_NIC_UUID: Final = "switchNicUUID"
SWITCH_RANKS: Final = "globalRankIDs"
SWITCH_OPS: Final = "globalOps"
STRESS_TEST_UUID: Final = "stressTestUUID"
STRESS_OPS: Final = "StressTestRankOPStr"

FAILED_START: Final = "Error: "
"""Beginning of the line by which a Manager says its launcher why it cannot start, in place of that it is ready."""
