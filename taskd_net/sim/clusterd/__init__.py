"""A stand-in for ClusterD, for development and tests: `taskd-net clusterd-sim`.

- `table` has the states and transitions of a job's recovery; `course` the work of each state; `round` the facts that
  decide; `machine` runs them, with time as an argument.
- `desk` knows the jobs, and answers Init and Register; `script` has the steps of a scenario and its scripted answers.
- `scenario` reads a scenario file, and `check` finds every problem in it.
- `service` speaks gRPC; `run` is the process: it listens, goes away and comes back, and prints JSON lines.

`machine`, `desk` and `script` are pure: no I/O, no clock, no chance.
"""
