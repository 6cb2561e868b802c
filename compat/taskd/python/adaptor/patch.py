"""torchrun under TaskD's Manager. The import patches torch, as a line in torch/distributed/run.py expects."""

from taskd_net.torch.patching import patch

patch()
