"""The decisions of an Agent that a signal ends."""

from __future__ import annotations

from taskd_net.job.frameworks.pytorch.plans import PyTorchPlans
from tests.agent.transcripts import played

OF_JOB = """
    0    joined                      | REGISTER, 201 2
    0    210 2 ours job round 1      | Offer
    0    offered                     | 304 1 2
"""
"""An Agent whose Manager restarts what fails."""


def test_a_manager_that_restarts_hears_of_a_signal_and_then_nothing_more() -> None:
    played(OF_JOB + "1 SIGTERM | 309  SIGTERM\n2 tick |\n3 203 |\n4 SIGINT |", PyTorchPlans())
    played(OF_JOB + "1 SIGINT | 309 job SIGINT", PyTorchPlans())


def test_a_manager_that_says_whom_it_waits_for_hears_of_a_signal() -> None:
    played(
        "0 joined | REGISTER, 201 2\n1 305 1 waits 99 | waits for 1, 99 s\n2 SIGINT | 309 job SIGINT", PyTorchPlans()
    )


def test_others_hear_nothing_of_a_signal() -> None:
    """An original Manager does not know the message, and a platform sees the end of the process."""
    played("0 joined | REGISTER, 201 2\n1 SIGINT |", PyTorchPlans())
    played("0 joined | REGISTER, 201 2\n0 210 2 ours | StartAll 2\n1 SIGINT |", PyTorchPlans())
