"""The Worker: one training process of the job, under the commands of the Mgr.

Read first: `worker.py` (from init to destroy), `duties.py` (its own answers to commands: pure), `attendant.py` (their
shell), `reporting.py` (reports that never hold a training step up). `devices.py` calls the framework's functions,
`receiver.py` the application's handlers, `disk.py` bounds the profiling files.

It imports `exchange`, `member` and `arguments` of `taskd_net.job`, and the entries of `frameworks`.
"""
