"""The training frameworks: a package for each, and one line in `registry`.

Read first: `kind.py` (what a framework has to be), `pytorch/__init__.py` (an entry), `pytorch/workers.py` (calls of its
functions), `pytorch/plans.py` (its steps for each command, pure).

It imports `taskd_net.job.agent` and what is below that. A training process loads `kind`, `registry` and the entries.
"""
