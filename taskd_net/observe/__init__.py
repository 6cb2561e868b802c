"""Observation of the mesh: the state of every node, probes, and traces of messages.

Pure: `records`, `ledger` (the records below a node), `document` (JSON for people and tools), `rates`. Codecs:
`status_codec`, `probe_codec`. A node's own part: `view`, `reporter`, `prober`, `service`, `tracing`. Asking a node from
outside: `client`, `identify`.
"""
