"""Limits and defaults above the mesh: TaskD's calls, Agents, and the Manager's decisions. As in `limits`."""

from __future__ import annotations

from typing import Final

REPORT_RETRY_S: Final = 1.0
"""Seconds before a report that the Mgr did not acknowledge is sent again, as TaskD's Agents do."""

DEVICES_PER_NODE: Final = 1_024
"""Devices of one node that others may not report about: hosts have 8 to 64, and an index of all nodes has them."""

REPORTS_WAITING: Final = 256
"""Reports of `send_to_manager(wait=False)` that wait for the Mgr at most: some minutes of training steps."""

FAULT_AGAIN_S: Final = 2.0
"""Seconds between a REGISTER and the 202 behind it, at a Manager of the original's that may have restarted: it decides
0.1 s after the 202, and an Agent that has not registered by then gets no 208. Its Agents register within a second."""

REGISTER_EVERY_S: Final = 30.0
"""Seconds between a node's registrations with the Mgr, and between an Agent's repeats of an unanswered 201 or 202: so
long may a Mgr that was restarted not know of them. 5,000 Workers cost it 170 messages a second, a few per cent of what
it can take."""

HANDLER_GRACE_S: Final = 2.0
"""Seconds that destroying a node waits for a handler of the application's to return; nothing can end it by force."""

PROFILING_PRUNE_S: Final = 60.0
"""Seconds between two looks at the profiling folder: how long it may be above its bound."""

PROFILING_KEPT: Final = 3
"""Newest files of each rank that stay in the profiling folder whatever they take: one may be being written."""

PROFILING_SWITCH_S: Final = 1.0
"""Seconds between two looks at the profiling switch, as TaskD's, and for reading it at most."""

PROFILING_SWITCH_REST_S: Final = 2.0
"""Seconds since the last change of the profiling switch after which it is read no more until its status changes: the
clock of a file system has ticks of 10 ms at most, and the clocks of two machines differ."""

PROFILING_SWITCH_BYTES: Final = 65_536
"""Bytes of the profiling switch at most; it has five short entries."""

WORKER_BEAT_S: Final = 1.0
"""Seconds between two KEEP_ALIVEs of a Worker during a stress test, as TaskD's. A Mgr gives it up after 3 s."""

DEVICE_CALLS_WAITING: Final = 8
"""Switches of cards and stress tests that a Worker has at a time, as many as its inbox; more are answered as failed."""

STRESS_AIC_S: Final = 300.0
"""Seconds for the stress test of a device's cores, as with TaskD."""

STRESS_HCCS_S: Final = 600.0
"""Seconds for the stress test of a device's links, as with TaskD."""

AGENT_LOOK_S: Final = 1.0
"""Seconds between two looks of an Agent at its workers, and between two of its KEEP_ALIVEs, as TaskD's Agents do."""

AGENT_JOIN_S: Final = 180.0
"""Seconds that an Agent has to join the mesh, as TaskD's: the start of a job's other pods. Then it leaves with 1."""

AGENT_GO_S: Final = 900.0
"""Seconds that an Agent waits for the go after it has joined, as TaskD's mean to. Then it leaves with 1."""

AGENT_LEAVE_S: Final = 3.0
"""Seconds that an Agent that leaves waits for the Mgr to take its last report: three attempts, as TaskD's make."""

FAULT_TIMEOUT_S: Final = (300, 600)
"""Least and greatest seconds of `TASKD_REPORT_FAULT_TIMEOUT`; outside it is off, as in TaskD's Agents."""

RESTART_PAUSE_S: Final = 60.0
"""Seconds between the end of all MindSpore workers and their start on a node with NPUs, as TaskD's Agents wait: the
devices are freed meanwhile."""

RESTART_RANKS_PAUSE_S: Final = 15.0
"""The same where only some ranks are started again, at most."""

FINISH_PAUSE_S: Final = 10.0
"""Seconds between the end of a node's last MindSpore worker and the Agent's, as TaskD's Agents wait."""

GRACE_EXIT_S: Final = 600.0
"""Seconds that workers have to end after SIGTERM when the Mgr asks for a graceful exit: time to write a checkpoint."""

PROCESS_INTERVAL_MS: Final = (100, 1000)
"""Least and greatest milliseconds of `TASKD_PROCESS_INTERVAL`; outside it is the least, as with TaskD's Manager."""

DECISIONS_KEPT: Final = 50
"""Last decisions of a job that its Manager keeps and shows: more than any fault and its recovery take."""

MESSAGES_SHOWN: Final = 16
"""Commands of one decision that are shown one by one; the others are counted."""

SHOWN_CHARS: Final = 200
"""Characters of a command's message, and of a decision's cause, that are shown."""

AGENTS_SHOWN: Final = 1_000
"""Agents of a job that are shown one by one, those in trouble first: some 5 ms for the Manager, once in 100 ms."""

DEVICES_SHOWN: Final = 256
"""Devices of a job that are shown one by one: those of 16 nodes, all with a fault."""

RANKS_SHOWN: Final = 64
"""Failed ranks of one Agent that are shown: four times those of a node."""

JOB_TEXT_CHARS: Final = 512
"""Characters of each text in the state of a job that is sent to a caller: a plugin's texts have no bound of their own.
The widest state has 6 MB then, and 10 MiB are received."""

STORE_S: Final = 1.0
"""Seconds for one commit of the state. Then decisions and acknowledgements go on without it: a disk that hangs must not
stop a job."""

STORE_OPEN_S: Final = 10.0
"""Seconds for opening the state file and reading it, at the Manager's start."""

STORE_AGAIN_S: Final = 5.0
"""Seconds after a failed commit before the next attempt."""

STORE_LOOK_S: Final = 10.0
"""Seconds after a commit before a look whether the state file is in its place: longer is a job without a state."""

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

LEADER_UNSURE_S: Final = 20.0
"""Seconds without a confirmed lease after which a leader sends its children to look for another one, and twice as many
before the next time.
An etcd that restarts takes less, and the mesh's traffic is not touched."""

LEADER_ALONE_S: Final = 10.0
"""Seconds without any child after which a leader that has had one leaves the job to a standby, which may reach them.
Children of a network that has healed, or of a Mgr that was stopped for a moment, are back sooner."""

SEED_BYTES: Final = 8
"""Random bytes at the head of a Manager's uuids: 64 bits, so that no two Managers share one, of one job neither."""

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

PLUGIN_S: Final = 1.0
"""Seconds for one call of a user's plugin."""

PLUGIN_LOAD_S: Final = 60.0
"""Seconds to import a user's plugin and make its first object: large libraries on a slow file system take some 30."""

PLUGIN_ITEMS: Final = 65_536
"""Decisions in one step of a user's plugin: one for each Agent and Worker that a Manager keeps a record of."""

PLUGIN_STATE_CHARS: Final = 262_144
"""Characters of the state of a user's plugin as JSON. It is written with each change of the job: a millisecond."""

PLUGIN_FAILURES: Final = 3
"""Failures in a row after which a user's plugin is off until the Manager restarts."""

FIRST_RULES_S: Final = 5.0
"""Seconds that the first reports wait for the first look at the rules for faults of devices. A look takes milliseconds;
a disk that hangs must not stop a job."""

REMOVED_S: Final = 0.5
"""Seconds after which names that are missing in the list of separated devices have been removed: a file that somebody
rewrites in place is empty for a moment. Less than `STORE_S`, in which the list is written."""

RESET_LOOK_S: Final = 1.0
"""Seconds between two looks at the reset file where nothing tells of its changes. A look is one call of `stat`."""

WATCH_STEP_MS: Final = 100
"""Milliseconds between two looks of a watching thread at what the kernel has told: a change is seen within 0.2 s, and
an idle Manager wakes ten times a second for some 20 µs."""

WATCH_LEAVE_S: Final = 1.0
"""Seconds that the end of the process waits for a watching thread. More: a disk that hangs holds it up for longer."""

WATCH_GATHER_MS: Final = 400
"""Milliseconds for which changes of one folder are taken together at most: an update of a ConfigMap makes several."""

RESET_BYTES: Final = 1_048_576
"""Bytes of the reset file at most; it has a line for each failed rank."""

RESET_READ_S: Final = 1.0
"""Seconds for reading it."""

REPORTS_PER_NODE: Final = 16
"""Kinds of report (by msg_type and code) that the Mgr keeps of one node; TaskD's Workers have 13."""

COMMAND_ATTEMPTS: Final = 5
"""Times that the Mgr sends one command until it is acknowledged, as TaskD's does."""

COMMAND_RETRY_S: Final = 3.0
"""Seconds between them."""

COMMANDS_A_TURN: Final = 50
"""Commands that the Mgr sends in one turn of its event loop: some 10 ms, in which it reads and writes nothing else."""

JOB_NODES: Final = 65_536
"""Agents and Workers of which a Manager keeps a record: some 100 MB. Further ones are refused."""

TIME_STORED_S: Final = 60.0
"""Seconds between two ticks while a job waits for something. Each stores the time, so a Manager that is restarted waits
for at most as much longer."""

CLOCK_LOOK_S: Final = 0.5
"""Seconds between two looks of a Manager at the clock."""

STOPPED_S: Final = 1.5
"""Seconds between two looks at the clock after which a Manager was stopped, or its event loop held. With a heartbeat's
second it is less than the least silence that counts, `SILENT_LEAST_S`."""

JOB_PAUSE_S: Final = 0.010
"""Least seconds between two ticks of a Manager's decisions: a burst of reports is looked at together."""

IN_PLACE_S: Final = 60.0
"""Seconds that a Worker has to come back for the next epoch: the start of a process that imports a framework, twice."""

IN_PLACE_LONGEST_S: Final = 3600.0
"""The longest of that setting."""

IN_PLACE_TOGETHER_S: Final = 1.0
"""Seconds after a first failure in which further ones belong to it: Agents of ours report one within 0.1 s, others look
at their workers once a second."""

AGENT_SILENT_S: Final = 10.0
"""Seconds without a report after which an Agent is silent, and the node of a missing Worker lost: ten heartbeats."""

SWITCH_NIC_S: Final = 7200.0
"""Seconds that all Workers have to switch their network cards, as with TaskD's Manager."""

STRESS_TEST_S: Final = 900.0
"""Seconds for a stress test, as with TaskD's Manager: one operation takes 300 to 600."""

SILENT_SNAPSHOTS: Final = 30
"""Intervals of the Manager without KEEP_ALIVE after which a Worker under stress test has failed, as with TaskD's."""

SILENT_LEAST_S: Final = 3.0
"""Seconds that this takes at least: three missed heartbeats, whatever the interval."""

PROFILING_AGAIN_S: Final = 30.0
"""Seconds of other profiling states after which the switch is sent again, as with TaskD's Manager."""

MASTER_FAULT_S: Final = 1500.0
"""Seconds that ClusterD has to answer a fault of Agent 0 before the job is rescheduled: 25 minutes, as with TaskD's."""

STOP_TRAIN_S: Final = 1800.0
"""Seconds after a stopTrain for which the recovery waits for ClusterD's next signal: twice the 15 minutes that ClusterD
itself waits for a report. Its machine may end without another signal."""

EXITS_FIRST_S: Final = 15.0
"""Seconds that the controller's recovery waits for the faulty nodes to have their 203: five attempts, 3 s each."""

PAUSE_STARTS_S: Final = 3600.0
"""Seconds after pauseStartAgent for which Agents are held back at most. The stress test behind it has ended before:
ClusterD waits 15 minutes for the training to pause, 15 for the test, and 15 for the training to go on."""

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

CLUSTERD_ORDERS: Final = 512
"""Orders of ClusterD that a client remembers, so that none is carried out twice: a fault has some ten."""

CLUSTERD_WAITING: Final = 16_384
"""Orders that wait for the application at most; ClusterD sends the next one after its machine has moved on."""

FAULT_UNREPORTED_S: Final = 3.0
"""Seconds from an Agent's report of failed ranks to the Manager's own report to ClusterD: time for the framework to
report them."""

LOST_PEER_S: Final = 5.0
"""Seconds after the first failure in which a rank that has lost a peer counts as its consequence."""

REPORT_ATTEMPTS: Final = 4
"""Times that a report of the controller is sent to ClusterD, as by TaskD's Manager."""

REPLY_ATTEMPTS: Final = 10
"""Times that the result of a switch of cards or a stress test is sent to ClusterD, as by TaskD's Manager."""

REPLY_PAUSE_S: Final = 1.0
"""Seconds between them."""

CONTROLLER_S: Final = 900.0
"""Seconds for one call of the training framework's controller: as long as ClusterD waits for a report."""

MINDIO_CALL_S: Final = 30.0
"""Seconds for one call of MindIO's controller, which returns at once: its process may be starting on a busy machine."""

MINDIO_END_S: Final = 10.0
"""Seconds that MindIO's controller has to end after an `exit`: it takes 5 s. Then its process is killed."""

MINDIO_CHECKPOINT_S: Final = 45.0
"""Seconds after a fault that MindIO has reported until it writes a checkpoint, where ClusterD has sent no order. It
would end the training after 60 s."""

MINDIO_AGAIN_S: Final = 60.0
"""Seconds that a process of MindIO's controller has lived if another one follows at once. One that ends sooner ends
again, so the next one waits for a restart of the training."""

VALID_RANKS: Final = 4096
"""Ranks and devices of a job that TaskD's validators take for possible."""

VALID_FILES: Final = 4096
"""Entries of a folder that they let pass."""

VALID_FILE_BYTES: Final = 1_048_576
"""Bytes of a file that they let pass: the reset file's bound."""

KILLED_S: Final = 2.0
"""Seconds from SIGKILL to the end of a process. One that a driver holds does not end, and is left."""

RESET_END_S: Final = 3 * KILLED_S
"""Seconds for the resets under way when their Manager ends: a hook is killed, then its shell, which is waited for."""

GUARDIAN_GRACE_S: Final = 1.0
"""Seconds from SIGTERM to SIGKILL for the training processes of an Agent that was killed. None is left after 3 s."""

MGR_END_S: Final = 10.0
"""Seconds that the Manager of `taskd-net run --mgr` has to drain and end after the job."""

LAUNCHER_LOOK_S: Final = 1.0
"""Seconds between two looks of a launcher without a Manager at its workers and the platform's files, as TaskD's."""

RESET_LOOK_AGAIN_S: Final = 5.0
"""Seconds between two looks of such a launcher that must not start its workers yet, as with TaskD's."""

RESET_START_S: Final = 900.0
"""Seconds that such a launcher waits to start its workers, as TaskD's: the reset of a node's devices. Then it leaves
with 1."""

REPLACE_S: Final = 120.0
"""Seconds after a worker's failure for the platform's order to restart it alone, as with TaskD's launcher."""

FAILURE_PAUSE_S: Final = 10.0
"""Seconds between a worker's failure and the end of the others where none is restarted alone, as with TaskD's launcher:
the platform's files may say more meanwhile."""

SCHEDULER_GRACE_S: Final = 5.0
"""Seconds that msrun's scheduler has to end after SIGTERM. It has nothing to store."""
