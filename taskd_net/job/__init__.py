"""The job on top of the mesh: its Manager, the Agents of its nodes, and TaskD's calls for both.

Read first: `decide/job.py` (reports and orders in, commands out), `decide/plugins/` (one decision each),
`manager/runtime.py` (the shell that feeds it), `agent/agent.py` and `agent/supervision.py` (a node's launcher),
`clusterd/client.py` (ClusterD).

`decide` and `faults` are pure: no I/O, no clock, no chance. `keep` has the state in etcd, `frameworks` PyTorch and
MindSpore. Workers and Agents share `member` (one of each in a process) and `exchange` (messages with the Mgr). The
package imports `node`, `observe`, `net`, `core` and `base`, and no face.
"""
