"""Failures of a PyTorch training under several launchers: the measure `training`.

`script` is the training, `launchers` starts it, `timeline` reads what both wrote, `measure` takes turns.
"""
