"""Mutual TLS: its files, their checks and rotation, gRPC's credentials, and explanations of failures.

Read first: `files` (the settings), `rotation` (certificates that change while a node runs), `credentials` (gRPC's, and
the names in a peer's certificate). `explain` says why a handshake has failed.

It imports `core` and `base`.
"""
