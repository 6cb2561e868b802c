"""Faults of a training of two nodes, under torchrun and under `taskd-net run`: `make supervise`.

`script` is the training, and `failing` lets its ranks fail. `job` starts the launchers and hurts them, `rows` has the
faults, `outcome` compares what came of them. `python -m benchmarks.supervision` plays the rows, and goes on where it
was ended.
"""
