"""The program of a simulated training process: a Worker that obeys, and says which commands it got."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Final

from taskd_net.base import vocabulary
from taskd_net.job import api
from taskd_net.job.decide import epochs
from taskd_net_lab.demos.job.terms import BEGAN, COMMAND, FAILS, FAULTY, LOCAL, NODES, REGISTERED, RESTARTS, SILENT
from taskd_net_lab.demos.job.witness import Witness

BEAT_S: Final = 1.0


class Registration(logging.Handler):
    """Tells the controller once that the Mgr has stored this process's registration, as the Worker logs it.

    Args:
        witness: the connection to the controller.
    """

    def __init__(self, witness: Witness) -> None:
        super().__init__(logging.DEBUG)
        self._witness = witness
        self._told = False

    def emit(self, record: logging.LogRecord) -> None:
        """Handle a log line."""
        event = record.msg
        if self._told or not isinstance(event, dict) or event.get("event") != "report_taken":
            return
        if event["code"] == vocabulary.WORKER_REGISTERS:
            self._told = True
            self._witness.say(REGISTERED)


class Trainee:
    """A training process.

    Args:
        rank: its global rank.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._epoch = 0
        self._witness = Witness(f"Worker/{rank}")

    def run(self) -> None:
        """Train, that is wait for commands, until the launcher kills this process."""
        self._witness.say(BEGAN, text=os.environ[RESTARTS])
        logger = logging.getLogger("taskd_net")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(Registration(self._witness))
        obeys: dict[int | str, Callable[[api.Command], None]] = {vocabulary.DEVICE_FAULT: self._repeat}
        obeys |= dict.fromkeys(vocabulary.PROFILING_COMMANDS, self._profile)
        obeys[vocabulary.SWITCH_NIC] = self._switch
        obeys[vocabulary.STRESS_TEST] = self._test
        rejoins = os.environ.get("TASKD_NET_IN_PLACE") == "on"
        if rejoins:
            obeys |= {vocabulary.EPOCH_BEGIN: self._join, vocabulary.EPOCH_END: self._leave}
        for code, obey in obeys.items():
            api.register_handler(code, obey)
        if not (api.init_taskd_worker(self._rank) and api.start_taskd_worker()):
            sys.exit("the Worker could not be started")
        if rejoins:
            self._report(epochs.NEW)
        threading.Event().wait()

    def _join(self, command: api.Command) -> None:
        self._say(command)
        self._epoch = int(command.message)
        self._report(epochs.RUNNING)

    def _leave(self, command: api.Command) -> None:
        """The others leave the epoch; one of them may have failed at this very moment."""
        if int(command.message) == self._epoch:
            self._say(command)
            self._report(epochs.LEFT)

    def _report(self, phase: str) -> None:
        body = epochs.Part(phase, self._epoch, NODES * LOCAL, LOCAL).report()
        api.send_to_manager(body.code, body.msg_type, body.message, body.extension)

    def _profile(self, command: api.Command) -> None:
        self._say(command)
        state = command.code - vocabulary.PROFILING_COMMANDS.start
        api.send_to_manager(vocabulary.PROFILING_STATES.start + state, vocabulary.STATUS)

    def _repeat(self, command: api.Command) -> None:
        """A device of this process had a fault: its request runs again."""
        wanted = command.extension[vocabulary.ACTION_WANTED]
        self._witness.say(COMMAND, command.code, f"{command.message} {wanted}")

    def _switch(self, command: api.Command) -> None:
        self._say(command)
        self._answer(command, "switchNicUUID", "switchFail" if self._is(FAILS) else "switchOK")

    def _test(self, command: api.Command) -> None:
        self._say(command)
        if not self._is(SILENT):
            ops = json.loads(command.extension["StressTestRankOPStr"])[str(self._rank)]["ops"]
            code, words = ("2", "fault") if self._is(FAULTY) else ("0", "OK")
            result = {str(op): {"code": code, "result": words} for op in ops}
            done = threading.Event()
            threading.Thread(target=self._beat, args=(done,), daemon=True).start()
            self._answer(command, "stressTestUUID", json.dumps({"rankResult": result}))
            done.set()

    def _beat(self, done: threading.Event) -> None:
        """Give signs of life while a stress test runs; the Manager takes a silent Worker for a hung one."""
        while not done.wait(BEAT_S):
            api.send_to_manager(0, vocabulary.KEEP_ALIVE)

    def _is(self, variable: str) -> bool:
        return os.environ.get(variable) == str(self._rank)

    def _say(self, command: api.Command) -> None:
        self._witness.say(COMMAND, command.code, command.message)

    def _answer(self, command: api.Command, uuid: str, message: str) -> None:
        self._witness.ask(str(command.code))
        extension = {uuid: command.extension[uuid]}
        api.send_to_manager(command.code, vocabulary.ACTION, message, extension)


if __name__ == "__main__":
    Trainee(int(sys.argv[1])).run()
