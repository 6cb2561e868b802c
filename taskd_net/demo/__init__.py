"""The mesh that `taskd-net demo` starts and shows: one process per node, driven by a script.

`tour` is the script, `fleet` the processes, `process` the program in each of them, `steering` their requests and
answers, `report` the findings, `display` their appearance.
"""
