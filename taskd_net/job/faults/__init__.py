"""Fault levels: from a fault code of a device to what is done about it. Pure: no I/O, no clock.

Read first: `policy.py` (events in, decisions out), `device.py` (the state of one device), `answers.py` (its steps, and
whether it is out), `levels.py` (the types of fault, in order, and their steps).

`reading` turns the files of the ConfigMap `mindx-dl-fault-config` into frozen `rules`, `editions` has ranges and
defaults. The policy has its memory in parts: `occurrences` counts, `recent` knows doubled events, `looks` has the next
times, and `saving` is the stored form. The room imports `base` alone.
"""
