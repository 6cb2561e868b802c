"""torchrun under the platform's reset files, without a Manager, as Elastic-Agent ran it."""

from __future__ import annotations

from torch.distributed.elastic.agent.server import RunResult

from taskd_net.mindspore import invoke_run
from taskd_net.torch.agent import ElasticAgent
from taskd_net.torch.patching import patch

__all__ = ["ResetAgent", "patch_torch_methods"]


class ResetAgent(ElasticAgent):
    """An `ElasticAgent` that follows the platform's reset files in place of a Manager.

    Node 0 is a client of ClusterD where `ELASTIC_PROCESS_RECOVER_ENABLE` is 1.

    Args:
        arguments, named: those of `ElasticAgent`.

    Source: Elastic-Agent API reference.
    """

    def _invoke_run(self, role: str = "default") -> RunResult:
        result: RunResult = invoke_run(self, role)
        return result


def patch_torch_methods() -> None:
    """Have torchrun, and everything else that calls torch's `launch_agent`, run its workers by a `ResetAgent`.

    Idempotent; the last of this and `taskd_net.torch.patch` counts.

    Raises:
        UnsupportedTorch: the installed torch has not been checked; nothing is changed.

    Source: Elastic-Agent API reference.
    """
    patch(agent=ResetAgent)
