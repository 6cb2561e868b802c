"""The job on top of the mesh: its Manager, the Agents of its nodes, its Workers, and TaskD's calls for each.

Read first: `decide/job.py` (reports and orders in, commands out), `decide/plugins/` (one decision each),
`manager/runtime.py` (the shell that feeds it), `agent/supervision.py` and `agent/agent.py` (a node's launcher),
`worker/worker.py` (a training process), `clusterd/client.py` (ClusterD).

`decide` and `faults` are pure: no I/O, no clock, no chance. `keep` has the state in etcd, `frameworks` PyTorch and
MindSpore. Workers and Agents share `member` (one of each in a process) and `exchange` (messages with the Mgr). The
package imports `node`, `observe`, `net`, `core` and `base`, and no face.
"""
