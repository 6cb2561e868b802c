"""Observation of the mesh: the state of every node, probes, and traces of messages.

Pure: `records` and `job_view` (the views of nodes and of a job: each declares its fields once), `fields` (the forms
that follow), `document` (JSON for people and tools), `ledger` (the records below a node), `rates`. Codecs:
`status_codec`, `probe_codec`, `job_codec`. A node's own part: `view`, `reporter`, `prober`, `service` (with
`shared_answer`), `tracing`. Asking a node from outside: `client`, `identify`.
"""
