"""torchrun under the platform's reset files. The import patches torch, as a line in torch's run.py expects."""

from mindx_elastic.reset_agent import patch_torch_methods

__all__ = ["patch_torch_methods"]

patch_torch_methods()
