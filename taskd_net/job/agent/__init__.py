"""The Agent: the launcher of one node's workers, under the commands of the Mgr.

Read first: `supervision.py` (events in, actions out: pure), `plans.py` (the steps of a command), `messages.py` (their
form on the wire), `agent.py` (the shell that feeds it), `workers.py` (a framework's functions).

It knows no training framework by name: `taskd_net.job.frameworks` has them. It imports `exchange`, `member` and
`node_proxy` of `taskd_net.job`, and forms of `decide`.
"""
