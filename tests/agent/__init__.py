"""Tests of the Agent: its decisions, its messages, and calls of the functions of a framework."""
