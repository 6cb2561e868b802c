"""How a command ends when it is told to."""

from __future__ import annotations

import asyncio
import os
import signal


def stop_signal() -> asyncio.Future[signal.Signals]:
    """From now on SIGTERM and SIGINT do not end the process: the first settles this future, the second ends it at once.

    That it ends at once does not hang on its good will: no handler, no `finally` and no buffer is in the way.
    """
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[signal.Signals] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if asked.done():
            os._exit(128 + number)
        asked.set_result(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return asked
