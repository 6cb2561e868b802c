"""The import paths of Elastic-Agent. The import sets TaskD's variables by those of Elastic-Agent."""

import os
from typing import Final

from taskd_net.base import logs
from taskd_net.base.distributions import require_alone
from taskd_net.version import __version__

__all__ = ["__version__"]

LOG_PATH: Final = "ELASTIC_LOG_PATH"
RECOVER: Final = "ELASTIC_PROCESS_RECOVER_ENABLE"
PROCESS_RECOVER: Final = "PROCESS_RECOVER"


def adopt_variables() -> None:
    """Set TaskD's variables by those of Elastic-Agent, for this process and its workers. Variables that are set stay.

    `ELASTIC_LOG_PATH` is `TASKD_LOG_PATH`. `ELASTIC_PROCESS_RECOVER_ENABLE=1` is `PROCESS_RECOVER=on`.
    """
    if folder := os.environ.get(LOG_PATH):
        os.environ.setdefault(logs.PATH, folder)
    if os.environ.get(RECOVER, "").strip() == "1":
        os.environ.setdefault(PROCESS_RECOVER, "on")


require_alone(__name__)
adopt_variables()
