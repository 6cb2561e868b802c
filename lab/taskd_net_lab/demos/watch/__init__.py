"""A PyTorch training that stands still: its Manager notices, names the rank that holds it up, and shows where it is.

`trainee` is the training script, `stage` has the processes around it, `evidence` the verdict from outside, `scenarios`
the faults.
"""
