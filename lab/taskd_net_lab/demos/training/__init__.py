"""A PyTorch training on two nodes of this machine, under a Manager, in scenarios of faults.

The training script is `taskd_net/torch/small_training.py`. `stage` has the processes around it, `evidence` the view of
outside observers, `scenarios` the steps and the expected course of each.
"""
