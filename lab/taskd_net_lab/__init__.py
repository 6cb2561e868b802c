"""Demos of a job, a stand-in for ClusterD, and a mesh of many nodes in one process: for development, not for a job.

The distribution `taskd-net-lab` has the version of `taskd-net`, and brings these commands to it.
`taskd_net.cli.commands` names the module of each; nothing of `taskd_net` imports this package. Read first:

- `clusterd`: `taskd-net clusterd-sim`, the stand-in for ClusterD. It imports no other part of the lab.
- `demos`: `taskd-net demo job`, `faults`, `recovery`, `training`, `watch` and `mindspore`, judged from outside.
- `simulate`, `crowd`: `taskd-net simulate`. `bench`: `taskd-net bench`, which runs `benchmarks/` of a checkout.
"""
