"""Stand-ins for nodes of the original (Go), with the behaviour of `docs/interop.md`.

They are built from `proto/tasknet.proto` and from observations on the wire, and use nothing of the package.
"""
