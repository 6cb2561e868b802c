"""A launcher without a Manager: the thread that feeds a `Machine`, and carries out what it decides."""

from __future__ import annotations

import threading
import time
from typing import Final

from taskd_net.base.logger import late_logger
from taskd_net.job.agent import plans
from taskd_net.job.agent.agent import GRACE_EXIT_S
from taskd_net.job.agent.plans import Call, Leave, Look
from taskd_net.job.agent.supervision import WorkerStatus
from taskd_net.job.agent.workers import FailedCalls, LocalWorkers, carry_out
from taskd_net.job.arguments import seconds_of_environment
from taskd_net.job.clusterd.launcher import LauncherClient
from taskd_net.job.frameworks.mindspore.settings import FINISH_PAUSE, FINISH_PAUSE_S, restart_pause
from taskd_net.job.member import by_signal
from taskd_net.mindspore.files import FilesReader, Paths
from taskd_net.mindspore.machine import Action, Machine, Note, Observation, StartController, Times

log: Final = late_logger()

LOOK_S: Final = 1.0
"""Seconds between two looks of a launcher without a Manager at its workers and the platform's files, as TaskD's."""

RESET_LOOK_AGAIN_S: Final = 5.0
"""Seconds between two looks of such a launcher that must not start its workers yet, as with TaskD's."""

RESET_START_S: Final = 900.0
"""Seconds that such a launcher waits to start its workers, as TaskD's: the reset of a node's devices. Then it leaves
with 1."""

REPLACE_S: Final = 120.0
"""Seconds after a worker's failure for the platform's order to restart it alone, as with TaskD's launcher."""

FAILURE_PAUSE_S: Final = 10.0
"""Seconds between a worker's failure and the end of the others where none is restarted alone, as with TaskD's launcher:
the platform's files may say more meanwhile."""

START_WAIT: Final = "TASKD_NET_START_WAIT"
REPLACE_WAIT: Final = "TASKD_NET_REPLACE_WAIT"
FAILURE_PAUSE: Final = "TASKD_NET_FAILURE_PAUSE"
EXIT_WAIT: Final = "TASKD_NET_EXIT_WAIT"


class Launcher:
    """Runs the workers of one node as the platform's files say.

    Args:
        workers: the workers, as their framework runs them.
        paths: of the platform's files.
        times: waiting times.
        ranks: global ranks of this node; where they are not known, MONITOR is asked for them before the start.
        replaces: faulty ranks may be restarted alone.
        clusterd: the client of ClusterD; None on other nodes than the first.
    """

    def __init__(
        self,
        workers: LocalWorkers,
        paths: Paths,
        times: Times,
        ranks: frozenset[int],
        *,
        replaces: bool,
        clusterd: LauncherClient | None,
    ) -> None:
        self.result: WorkerStatus | None = None
        """The last answer of MONITOR."""
        self._workers = workers
        self._paths = paths
        self._clusterd = clusterd
        self._machine = Machine(times, ranks, replaces=replaces, controls=clusterd is not None, now=time.monotonic())
        self._failures = FailedCalls()
        self._looks = not ranks
        # Set when ClusterD has sent killMaster.
        self._killed = threading.Event()

    def run(self) -> Leave:
        """Run the workers to their end, in the thread that calls.

        Returns:
            The way in which the launcher leaves.

        Raises:
            The exception of a signal handler.
        """
        try:
            with FilesReader(self._paths) as reader:
                while True:
                    began = time.monotonic()
                    seen = Observation(reader.read(), self._look(), self._killed.is_set())
                    outcome = self._carry_out(self._machine.look(seen, time.monotonic()))
                    if outcome is not None:
                        log.info("launcher_leaves", code=outcome.status, reason=outcome.reason)
                        return outcome
                    pause = max(0.0, began + self._machine.pause - time.monotonic())
                    if self._killed.is_set():
                        time.sleep(pause)  # seen already, and of no effect in this state
                    else:
                        self._killed.wait(pause)
        finally:
            if self._clusterd is not None:
                self._clusterd.close()

    def _look(self) -> WorkerStatus | None:
        if not self._looks:
            return None
        try:
            self.result = self._workers.look()
        except Exception as error:
            if by_signal(error):
                raise
            self._failures.report(Look(), error)
            return None
        return self.result

    def _carry_out(self, actions: list[Action]) -> Leave | None:
        for action in actions:
            match action:
                case Leave():
                    return action
                case Note(_, reason, warns=True):
                    log.warning("reset_file_unusable", reason=reason)
                case Note(step, reason):
                    log.info("launcher_step", step=step, reason=reason)
                case StartController():
                    if self._clusterd is not None:
                        self._clusterd.start(self._killed.set)
                case _:
                    self._looks = True
                    if not self._call(action) and isinstance(action, plans.StartAll):
                        return self._carry_out(self._machine.start_failed())
        return None

    def _call(self, call: Call) -> bool:
        """Make a call; False where it has failed."""
        try:
            carry_out(self._workers, call)
        except Exception as error:
            if by_signal(error):
                raise
            self._failures.report(call, error)
            return False
        return True


def times_of_environment() -> Times:
    """The times in the environment, or their defaults.

    Raises:
        ConfigError: a variable is no number of seconds.
    """
    return Times(
        look=LOOK_S,
        gate_look=RESET_LOOK_AGAIN_S,
        gate=seconds_of_environment(START_WAIT, RESET_START_S),
        restart=restart_pause(),
        replace=seconds_of_environment(REPLACE_WAIT, REPLACE_S),
        failed=seconds_of_environment(FAILURE_PAUSE, FAILURE_PAUSE_S),
        finish=seconds_of_environment(FINISH_PAUSE, FINISH_PAUSE_S),
        grace=seconds_of_environment(EXIT_WAIT, GRACE_EXIT_S),
    )
