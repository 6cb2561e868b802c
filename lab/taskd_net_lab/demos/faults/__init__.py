"""Faults of devices in a job of two nodes with two training processes each: `taskd-net demo faults`.

- `stage` has the platform's side: the files of the rules, mounted as Kubernetes does, the device watcher, which is
  `taskd-net faults report`, and the program that resets devices. `reset` is that program.
- `plays` has the steps of each scenario, `scenarios` its expected end.

Processes, and the rule that the verdict rests on outside evidence alone, are those of `taskd_net_lab.demos.job`.
"""
