"""Nodes of an earlier version among those of this one, each a process (`make mixed`)."""
