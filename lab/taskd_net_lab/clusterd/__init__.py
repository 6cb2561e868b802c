"""A stand-in for ClusterD, for development and tests: `taskd-net clusterd-sim`.

- `table` has the states and transitions of a job's recovery; `course` the work of each state; `round` the facts that
  decide; `machine` runs them, with time as an argument.
- `desk` knows the jobs, and answers Init and Register; `script` has the steps of a scenario and its scripted answers.
- `scenario` is the data of a scenario; `reader` makes it of a file, and `check` finds every problem there.
- `service` speaks gRPC, with the messages of `orders`; `run` is the process: it listens, goes away and comes back.

`machine`, `desk` and `script`, with all that they import, are pure: no I/O, no clock, no chance.
"""
