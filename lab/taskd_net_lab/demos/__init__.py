"""The demos of a job: real processes, faults, and a verdict from what observers outside have seen.

A folder for each demo: `stage` has the processes, `scenarios` the steps and the expected end, `evidence` the view from
outside. `job` comes first; `faults` and `recovery` use its processes. `commands` has the commands.
"""
