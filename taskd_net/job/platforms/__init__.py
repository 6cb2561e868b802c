"""Platforms that start `taskd-net run` on each node of a job: what their environments say of the node.

Read `place.py` first: the order of precedence, and the two rules that stop a start. `facts.py` has the form of an
entry. Each other module has the platforms of one family. Nothing here has I/O: an environment and a host name come in.
"""
