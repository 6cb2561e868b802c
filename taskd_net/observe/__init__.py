"""Observation of the mesh: the state of every node, probes, and traces of messages.

Pure: `records`, `ledger` (the records below a node), `document` and `job_document` (JSON for people and tools),
`rates`. Codecs: `status_codec`, `probe_codec`, `job_codec`. A node's own part: `view`, `reporter`, `prober`, `service`
(with `shared_answer`), `tracing`. Asking a node from outside: `client`, `identify`.
"""
