"""Fault levels: from a fault code of a device to what is done about it.

`reading` turns the files of the ConfigMap `mindx-dl-fault-config` into frozen `rules`. `policy` decides: events in,
decisions out, with the time as an argument. `levels` has the order of the types of fault and their steps, `editions`
the ranges and defaults.
"""
