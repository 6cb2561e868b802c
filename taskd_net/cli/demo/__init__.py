"""`taskd-net demo`: a mesh of separate processes, shown at work.

`command` is what the user calls, `tour` what is shown and in which order, `fleet` the processes, `node` what runs in
each of them, `report` what was found, `view` how it looks.
"""
