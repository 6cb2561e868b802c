"""MindIO's controller, where `mindio_ttp` is installed."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any, Final

from taskd_net.logger import late_logger
from taskd_net.recover.controller import Controller, NoHandler, Ranks, Reports
from taskd_net.untrusted import natural

MODULE: Final = "mindio_ttp.controller_ttp"
TIMEOUT_S: Final = 600
TIMEOUT_MOST_S: Final = 7200
PORT_MOST: Final = 65_535
SIZE_MOST: Final = 2**31 - 1

_log = late_logger()


class MindIO(Controller):
    """The controller of MindIO's training fault tolerance.

    Args:
        module: `mindio_ttp.controller_ttp`.
    """

    def __init__(self, module: ModuleType | Any) -> None:
        self._module = module
        self._started = False

    @classmethod
    def find(cls) -> MindIO | None:
        """The controller, if its package can be imported; otherwise None, with one line where it is broken."""
        try:
            return cls(importlib.import_module(MODULE))
        except ModuleNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - a package of others, with C in it; reported
            _log.warning("mindio_unusable", module=MODULE, reason=repr(error))
            return None

    def start(self, reports: Reports) -> None:
        """Start it with the environment's `WORLD_SIZE` or `MS_WORKER_NUM`, `POD_IP` and `TTP_PORT`.

        Raises:
            NoHandler: one of them is missing or no number.
        """
        size = _number("WORLD_SIZE", SIZE_MOST) or _number("MS_WORKER_NUM", SIZE_MOST)
        port, host = _number("TTP_PORT", PORT_MOST), os.environ.get("POD_IP")
        if not size or not port or not host:
            raise NoHandler("MindIO's controller needs WORLD_SIZE or MS_WORKER_NUM, POD_IP and TTP_PORT")
        module = self._module
        if not hasattr(module, "tft_notify_controller_prepare_action"):
            _log.warning("mindio_without_hot_switch", reason="this version has no tft_notify_controller_prepare_action")
        # First, as a controller that runs may report at once.
        for name, report in (
            ("report_fault_ranks", reports.fault_ranks),
            ("report_stop_complete", reports.stop_complete),
            ("report_strategies", reports.strategies),
            ("report_result", reports.result),
        ):
            module.tft_register_mindx_callback(name, report)
        elastic = "elastic-training" in os.environ.get("HIGH_AVAILABILITY", "")
        module.tft_init_controller(-1, size, False, os.environ.get("PROCESS_RECOVER") == "on", elastic)
        module.tft_start_controller(host, port, False, "")
        self._started = True

    def stop_train(self, ranks: Ranks, timeout: int) -> None:
        """Stop the training."""
        self._module.tft_notify_controller_stop_train(dict(ranks), "stop", timeout or _timeout())

    def pause_train(self, ranks: Ranks, timeout: int) -> None:
        """Pause the training."""
        self._module.tft_notify_controller_stop_train(dict(ranks), "pause", timeout or _timeout())

    def on_global_rank(self, ranks: Ranks, timeout: int) -> None:
        """Give it the faulty ranks."""
        self._module.tft_notify_controller_on_global_rank(dict(ranks), timeout or _timeout())

    def change_strategy(self, strategy: str, params: str) -> None:
        """Have it carry out a strategy."""
        self._module.tft_notify_controller_change_strategy(strategy, params)

    def save_and_exit(self) -> None:
        """Have it write a checkpoint."""
        self._module.tft_notify_controller_dump()

    def prepare(self, action: str, ranks: Ranks) -> None:
        """Have it prepare a switch.

        Raises:
            NoHandler: this version cannot.
        """
        prepare = getattr(self._module, "tft_notify_controller_prepare_action", None)
        if prepare is None:
            raise NoHandler("this version of MindIO has no tft_notify_controller_prepare_action")
        prepare(action, dict(ranks))

    def close(self) -> None:
        """End it, if it was started."""
        started, self._started = self._started, False
        if started:
            self._module.tft_destroy_controller()


def _number(variable: str, most: int) -> int | None:
    return natural(os.environ.get(variable, ""), most)


def _timeout() -> int:
    """Seconds for a call without a timeout of its own: two and a half times those of a connect, as in TaskD."""
    connect = _number("HCCL_CONNECT_TIMEOUT", SIZE_MOST)
    return min(int(connect * 2.5), TIMEOUT_MOST_S) if connect else TIMEOUT_S
