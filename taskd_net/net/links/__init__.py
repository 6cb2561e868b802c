"""Links: the kinds of link between two nodes, each kind one module and one line in `registry`.

Read first: `kind` (what a kind of link is), `session` (one link while it stands). The kinds: `tasknet` (TaskD's four
calls, which every peer knows), `batched` (batches over a stream of gRPC) and `direct` (batches over a plain socket),
with their offers in `batched_kind` and `direct_kind`. `peer` knows the make of the node at the other end.

It imports `wire`, `tls`, and the rooms below `net`.
"""
