"""A job of two nodes with two training processes each, whose Manager decides on faults: `taskd-net demo job`.

- `scenarios` is the script: the steps of each scenario, and its expected end.
- `stage` starts, kills and freezes the processes of one scenario; `run` plays all scenarios.
- `manager`, `launcher` and `trainee` are the programs of the processes. The last two use the documented calls alone.
- `witness` reports from inside a process what it was sent; `evidence` collects that, with pids from the kernel.

The verdict rests on the evidence alone: processes that began and ended, exit codes, commands as their receivers got
them, and answers as ClusterD got them. The Manager's own record has no part in it.
"""
