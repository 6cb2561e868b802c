"""`taskd-net demo`: a mesh of separate processes, shown at work.

`command` is what the user calls, `tour` what is shown and in which order, `fleet` the processes, `node` what runs in
each of them, `steering` what these two say to each other, `report` what was found, `view` how it looks.
"""
