"""A job whose Manager recovers it on ClusterD's orders: `taskd-net demo recovery`.

The processes are those of `taskd-net demo job`, and two more: the stand-in for ClusterD, with the scenario of the same
name, and a Mgr whose training framework is a double (`manager`). The verdict rests on evidence from outside the
Manager: commands as the Agents got them, processes that began and ended, calls as the framework's double got them, and
reports as ClusterD got them.
"""
