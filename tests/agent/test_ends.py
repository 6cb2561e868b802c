"""The decisions of an Agent that a signal ends."""

from __future__ import annotations

from taskd_net.job.agent import messages
from taskd_net.job.agent.supervision import AgentTimes
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


MET = f"""{OF_JOB}
    1    305 1                       | StartAll 2 {messages.Meeting(1, "10.0.0.7:7001", (2, 2))}
    1    done                        |
"""
TIMES = AgentTimes(join=180.0, go=900.0, repeat=3000.0, grace=600.0)


def test_a_manager_that_is_gone_for_good_is_waited_for_once() -> None:
    """The round has given it 100 s. They count from its loss, or from 10 s before it is needed."""
    played(
        MET
        + """
        10   tick away               | KEEP_ALIVE, Look
        10   seen                    |
        500  seen 3 ended            | 202 3 at 500
        501  tick away               | KEEP_ALIVE, waits for the Mgr, 89 s, Look
        501  seen 3 ended            |
        502  tick away               | KEEP_ALIVE, Look
        502  seen 3 ended            |
        590  tick away               | KEEP_ALIVE, KillAll
        590  done                    | leave 143: the Manager has been away for 100 s
        """,
        PyTorchPlans(),
        TIMES,
    )
    played(
        OF_JOB
        + """
        99   tick away               | KEEP_ALIVE, waits for the Mgr, 100 s
        198  tick away               | KEEP_ALIVE, waits for the Mgr, 1 s
        """,
        PyTorchPlans(),
        TIMES,
    )
    played(
        OF_JOB
        + """
        9    tick away               | KEEP_ALIVE
        50   tick                    | KEEP_ALIVE
        60   tick away               | KEEP_ALIVE, waits for the Mgr, 100 s
        130  tick away               | KEEP_ALIVE, waits for the Mgr, 30 s
        160  tick away               | KEEP_ALIVE, KillAll
        """,
        PyTorchPlans(),
        TIMES,
    )


def test_work_that_is_done_counts_without_a_manager() -> None:
    played(
        MET
        + """
        2    tick away               | KEEP_ALIVE, Look
        2    seen finished ended     | 306 1, waits for release
        102  tick away               | KEEP_ALIVE, waits for release, return result
        """,
        PyTorchPlans(),
        TIMES,
    )


def test_ranks_that_have_waited_for_their_manager_are_not_waited_for_again() -> None:
    lost = MET + "2 tick away | KEEP_ALIVE, Look\n2 seen | \n99 ended | Look\n"
    gone = lost + "99 seen 3 alone | KillAll\n99 done | leave 143: the Manager has been away for 100 s"
    played(gone, PyTorchPlans(), TIMES)
    back = lost + "99 tick | KEEP_ALIVE\n99 seen 3 alone | 202 3 at 99"
    played(back, PyTorchPlans(), TIMES)


def test_nodes_that_have_no_go_yet_wait_as_long_for_their_manager() -> None:
    played(
        """
        0    joined                  | REGISTER, 201 2
        1    305 1 waits 99          | waits for 1, 99 s
        2    tick away               |
        31   tick away               | waits for 1, 99 s, waits for the Mgr, 70 s
        101  tick away               | waits for 1, 99 s, KillAll
        101  done                    | leave 143: the Manager has been away for 99 s
        """,
        PyTorchPlans(),
        TIMES,
    )


def test_others_hear_nothing_of_a_signal() -> None:
    """An original Manager does not know the message, and a platform sees the end of the process."""
    played("0 joined | REGISTER, 201 2\n1 SIGINT |", PyTorchPlans())
    played("0 joined | REGISTER, 201 2\n0 210 2 ours | StartAll 2\n1 SIGINT |", PyTorchPlans())
