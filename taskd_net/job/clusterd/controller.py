"""A training framework's controller: what it does on ClusterD's orders, and the four reports that it gives back.

```
   ClusterD                          Controller                     its report back
   stop_train, pause_train     ───▶  stop_train, pause_train   ───▶ stop_complete
   on_global_rank              ───▶  on_global_rank            ───▶ strategies
   hot switch                  ───▶  prepare                   ───▶ strategies
   change_strategy             ───▶  change_strategy           ───▶ result
   save_and_exit               ───▶  save_and_exit             ───▶ result
                                     a fault seen by itself    ───▶ fault_ranks
```

ClusterD waits for each report for 15 minutes. So an order that nobody carries out is answered by `give_up`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from taskd_net.base.codes import ArgumentError, ArgumentTypeError, TaskdNetError
from taskd_net.base.untrusted import shown
from taskd_net.job.clusterd.codes import Code
from taskd_net.job.decide.events import CONTINUE_AGENTS, KILL_MASTER, PAUSE_AGENTS, Signal
from taskd_net.job.decide.orders import EXIT
from taskd_net.job.decide.traffic import Call

Ranks = Mapping[int, int]
"""Type of fault by global rank: 0 memory, 1 other, 2 network."""

MIGRATION: Final = "migration"
PAUSE: Final = "pause"
STOP_SWITCH: Final = "stop switch"

FOR_AGENTS: Final = ("fault_nodes_exit", "fault_nodes_restart", "pre exit process")
"""Actions that are commands to Agents, and none of a controller's business."""

_CALLS: Final[Mapping[str, Callable[[Signal], Call]]] = {
    "stop_train": lambda each: Call("stop_train", each.fault_ranks, "stop", timeout=each.timeout),
    "pause_train": lambda each: Call("stop_train", each.fault_ranks, PAUSE, timeout=each.timeout),
    "on_global_rank": lambda each: Call("on_global_rank", each.fault_ranks, timeout=each.timeout),
    "change_strategy": lambda each: Call("change_strategy", text=each.change_strategy, params=each.extra_params),
    "save_and_exit": lambda _: Call("dump"),
    "hot switch": lambda each: Call("prepare_action", each.fault_ranks, "hot switch"),
    STOP_SWITCH: lambda each: Call("prepare_action", each.fault_ranks, STOP_SWITCH),
}

ACTIONS: Final = tuple(_CALLS)
"""The actions of ClusterD's signals that a controller carries out."""


_OF_ITSELF: Final = ("destroy", "restart", "start")
"""Calls for the controller itself, of which ClusterD hears nothing."""

_NEWS: Final = ("new pod running",)
_SWITCHES: Final = (KILL_MASTER, PAUSE_AGENTS, CONTINUE_AGENTS)
"""Signals whose type says all; their actions say it again."""


class NoHandler(TaskdNetError):
    """Nobody carries out this action; the text says which."""


class Reports(Protocol):
    """The reports of a controller. Each blocks for a bounded time, and returns ClusterD's code.

    Raises:
        ArgumentError: an argument is of no use; nothing is sent.
        ClusterdError: ClusterD has not answered.
    """

    def stop_complete(self, code: int, msg: str, ranks: Ranks) -> int:
        """The training has stopped: 0; or not: 404 (never started), 499."""

    def strategies(self, ranks: Ranks, strategies: Iterable[str]) -> int:
        """The strategies that can be carried out."""

    def result(self, code: int, msg: str, ranks: Ranks, strategy: str) -> int:
        """The end of a strategy: 0; 201 with the ranks to isolate; 405, 406, 407, 499."""

    def fault_ranks(self, ranks: Ranks, codes: object = None) -> int:
        """A fault that the framework has seen first. The codes stay here: ClusterD's wire has no place for them."""


class Controller(ABC):
    """A training framework's controller. Its methods may block; one thread calls them, one after another.

    A method that raises has not carried out its order, which is reported as failed (499; 406 for a migration; strategy
    `exit`).
    """

    @abstractmethod
    def start(self, reports: Reports) -> None:
        """Begin; also after a `close`."""

    @abstractmethod
    def stop_train(self, ranks: Ranks, timeout: int) -> None:
        """Stop the training. The timeout is in seconds, 0 for the default."""

    @abstractmethod
    def pause_train(self, ranks: Ranks, timeout: int) -> None:
        """Pause the training for a switch of cards or a stress test."""

    @abstractmethod
    def on_global_rank(self, ranks: Ranks, timeout: int) -> None:
        """Take the faulty ranks of the whole job, and choose strategies."""

    @abstractmethod
    def change_strategy(self, strategy: str, params: str) -> None:
        """Carry out a strategy. The parameters are a JSON text, or empty."""

    @abstractmethod
    def save_and_exit(self) -> None:
        """Write a checkpoint, and end the training."""

    @abstractmethod
    def prepare(self, action: str, ranks: Ranks) -> None:
        """Prepare a switch to spare nodes (`hot switch`), or call it off (`stop switch`)."""

    @abstractmethod
    def close(self) -> None:
        """End."""

    def restart(self, reports: Reports) -> None:
        """End and begin again, with all training processes."""
        self.close()
        self.start(reports)

    def kill(self) -> None:  # noqa: B027 - only a controller with a process of its own can
        """End at once, called by another thread: a call or `close` may not have returned. By default: nothing."""


Handler = Callable[[Call, Reports], None]
"""Carries out one action."""


class HandlerController(Controller):
    """A controller made of functions of the application, by action name.

    Args:
        handlers: by action (`ACTIONS`).

    Raises:
        ArgumentError: an action is unknown.
    """

    def __init__(self, handlers: Mapping[str, Handler] | None = None) -> None:
        self._handlers: dict[str, Handler] = {}
        self._reports: Reports | None = None
        for action, handler in (handlers or {}).items():
            self.register(action, handler)

    def register(self, action: str, handler: Handler) -> None:
        """Have an action carried out by a function; a later one replaces it.

        Raises:
            ArgumentError: the action is unknown.
            ArgumentTypeError: the handler cannot be called.
        """
        if action not in ACTIONS:
            raise ArgumentError(f"action is {shown(action)}; expected one of {', '.join(ACTIONS)}")
        if not callable(handler):
            raise ArgumentTypeError(f"the handler of {action} is {shown(handler)}; expected a function")
        self._handlers[action] = handler

    def start(self, reports: Reports) -> None:
        """Hand the reports to each handler from now on."""
        self._reports = reports

    def stop_train(self, ranks: Ranks, timeout: int) -> None:
        """Call the handler of `stop_train`."""
        self._call("stop_train", Call("stop_train", dict(ranks), "stop", timeout=timeout))

    def pause_train(self, ranks: Ranks, timeout: int) -> None:
        """Call the handler of `pause_train`."""
        self._call("pause_train", Call("stop_train", dict(ranks), PAUSE, timeout=timeout))

    def on_global_rank(self, ranks: Ranks, timeout: int) -> None:
        """Call the handler of `on_global_rank`."""
        self._call("on_global_rank", Call("on_global_rank", dict(ranks), timeout=timeout))

    def change_strategy(self, strategy: str, params: str) -> None:
        """Call the handler of `change_strategy`."""
        self._call("change_strategy", Call("change_strategy", text=strategy, params=params))

    def save_and_exit(self) -> None:
        """Call the handler of `save_and_exit`."""
        self._call("save_and_exit", Call("dump"))

    def prepare(self, action: str, ranks: Ranks) -> None:
        """Call the handler of `hot switch` or `stop switch`."""
        self._call(action, Call("prepare_action", dict(ranks), action))

    def close(self) -> None:
        """Do nothing; the handlers are the application's."""

    def _call(self, action: str, call: Call) -> None:
        handler = self._handlers.get(action)
        if handler is None or self._reports is None:
            raise NoHandler(f"no handler of {action}")
        handler(call, self._reports)


def call_of(action: str, signal: Signal) -> Call | None:
    """The call of the controller that an action of a signal stands for; None for an action that is none of its."""
    make = _CALLS.get(action)
    return None if make is None else make(signal)


def unknown_actions(signal: Signal) -> list[str]:
    """The actions of a signal that this release does not know."""
    if signal.signal_type in _SWITCHES:
        return []
    return [action for action in signal.actions if action not in (*ACTIONS, *FOR_AGENTS, *_NEWS)]


def carry_out(controller: Controller | None, call: Call, reports: Reports) -> None:
    """Make a call.

    Raises:
        NoHandler: nobody carries it out.
    """
    if controller is None:
        if call.name in _OF_ITSELF:
            return  # there is nothing to end
        raise NoHandler("there is no controller of a training framework")
    match call.name:
        case "stop_train" if call.text == PAUSE:
            controller.pause_train(call.ranks, call.timeout)
        case "stop_train":
            controller.stop_train(call.ranks, call.timeout)
        case "on_global_rank":
            controller.on_global_rank(call.ranks, call.timeout)
        case "change_strategy":
            controller.change_strategy(call.text, call.params)
        case "dump":
            controller.save_and_exit()
        case "prepare_action":
            controller.prepare(call.text, call.ranks)
        case "destroy":
            controller.close()
        case "restart":
            controller.restart(reports)
        case "start":
            controller.start(reports)
        case _:
            raise NoHandler(f"no controller knows {call.name}")


def give_up(call: Call, reason: str, reports: Reports, *, nobody: bool = False) -> None:
    """Give the report that ends ClusterD's wait for a call that has failed.

    Args:
        call: it.
        reason: in words.
        reports: where to.
        nobody: nobody carries such calls out: a stop is answered with 404, so that ClusterD ends the job.
    """
    match call.name:
        case "stop_train":
            # After 404 ClusterD ends the job; for a pause it would go on, and test devices that still train.
            not_ready = nobody and call.text != PAUSE
            reports.stop_complete(Code.PROCESS_NOT_READY if not_ready else Code.CLIENT_ERROR, reason, call.ranks)
        case "on_global_rank":
            reports.strategies(call.ranks, [EXIT])
        case "prepare_action" if call.text != STOP_SWITCH:
            reports.strategies(call.ranks, [EXIT])
        case "change_strategy" if call.text == MIGRATION:
            # Any other code but 0 leaves ClusterD waiting.
            reports.result(Code.UN_RECOVERABLE_RETRY_ERROR, reason, {}, call.text)
        case "change_strategy" if call.text != EXIT:
            reports.result(Code.CLIENT_ERROR, reason, {}, call.text)
        case "dump":
            reports.result(Code.CLIENT_ERROR, reason, {}, "dump")
        case _:
            pass  # ClusterD waits for nothing
