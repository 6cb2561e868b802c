"""`taskd-net doctor`: what keeps a node from its place, in plain words. `checkup` is the command, the rest its checks.

Nothing here joins, registers or sends: a node that runs notices nothing.
"""
