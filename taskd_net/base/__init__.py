"""The ground of every other room: names, codes, text from outside, the log, the process.

Read first: `position` (who a node is, and whom a message is for), `codes` (why a message did not arrive), `schema`
(what a setting is). Then `untrusted` (every text from outside passes it), `logger` and `logs` (one line per change of
state), `fork` (what a forked child must not do).

It imports nothing of this package, and neither grpc nor asyncio.
"""
