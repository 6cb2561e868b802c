"""The state of the whole mesh: what is known of each node, what is passed on upwards, and which ranks are missing.

Pure, as the core is: no gRPC, no asyncio, no clock. `records` says what is known of one node, `ledger` what a node
knows of those below it and has still to tell its parent, `expect` which ranks a job should have, `document` what is
shown.
"""
