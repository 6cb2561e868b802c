"""Joining: serving children and joining a parent.

Read first: `serve` (the parent's part: listens and registers children), `streams` (the links that they open), `join`
(the child's part: the loop that never gives up), `connecting` (the steps to one parent). Then `permissions` (for which
child a call may speak) and `renewal` (a move to a new connection).

It imports `links`, `wire`, `tls`, and the rooms below `net`.
"""
