"""Bystanders of attacks, which must not notice them.

`pair` has two children of an attacked node in the test's own process, for attacks by count. `stand` has an attacked
node and two Workers in processes of their own, for attacks by cost: it measures latency and memory.
"""
