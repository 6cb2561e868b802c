"""gRPC: the four calls of the TaskNet service, served to children and made to the parent.

`serve` is the parent's part, `join` the child's; `permissions` says for which child a call may speak, `peer` knows the
kind of node at the other end, `channel` the settings of gRPC.
"""
