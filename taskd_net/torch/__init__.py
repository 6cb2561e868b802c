"""PyTorch's training processes under TaskD's Manager. Importing it imports torch; nothing else of the package does.
An import raises `UnsupportedTorch` where the installed torch lacks a name that is needed.

`ElasticAgent` is for launchers of their own, `patch` for those that call torchrun, and `taskd-net run` is torchrun.
`rejoin` is for training scripts: their processes stay when a rank is replaced. They load it alone.

Read first: `agent.py` (torch's agent around an Agent of `job.agent`), `context.py` (its processes, rank by rank),
`rejoin.py` and `epoch_group.py` (a training process), `seam.py` (the names of torch in use). It imports `job` and what
is below it.
"""

from typing import TYPE_CHECKING

from taskd_net.job.frameworks.pytorch import PYTORCH
from taskd_net.job.worker.worker import join_early

join_early(PYTORCH, "RANK")  # while torch is imported

from taskd_net.base.exports import late
from taskd_net.torch.seam import UnsupportedTorch, refuse_import

try:
    from taskd_net.torch.rejoin import CannotRejoin, rejoin
except ImportError as error:
    refuse_import(error)
    raise

if TYPE_CHECKING:
    from taskd_net.torch.agent import ElasticAgent, NotSupervised
    from taskd_net.torch.context import NoCommand
    from taskd_net.torch.patching import patch, unpatch

__all__ = [
    "CannotRejoin",
    "ElasticAgent",
    "NoCommand",
    "NotSupervised",
    "UnsupportedTorch",
    "patch",
    "rejoin",
    "unpatch",
]


def __dir__() -> list[str]:
    return __all__


_find = late(
    globals(),
    {
        "taskd_net.torch.agent": ("ElasticAgent", "NotSupervised"),
        "taskd_net.torch.context": ("NoCommand",),
        "taskd_net.torch.patching": ("patch", "unpatch"),
    },
    modules={"launch": "taskd_net.torch.launch"},
)

if not TYPE_CHECKING:  # a type checker would take any name for one that is here

    def __getattr__(name: str) -> object:
        try:
            return _find(name)
        except ImportError as error:
            refuse_import(error)
            raise
