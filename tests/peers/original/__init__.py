"""Stand-ins of the original's nodes (Go), with their habits: what they do is described in `docs/interop.md`.

They are built from `proto/tasknet.proto` and from what was seen on the wire, and use nothing of the package.
"""
