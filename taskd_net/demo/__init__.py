"""The mesh that `taskd-net demo` starts and shows: one process per node, driven by a script.

`tour` is the script, `fleet` the processes with their requests and answers, `process` the program in each of them,
`report` the findings, `display` their appearance.
"""
