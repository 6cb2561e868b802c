"""`python -m taskd_net.cli` is `taskd-net`."""

from taskd_net.cli import main

main()
