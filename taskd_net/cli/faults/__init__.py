"""`taskd-net faults`: the levels of faults. `group` is the list of its commands."""
