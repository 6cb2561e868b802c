"""Names that a launcher passes to `init_taskd_proxy`."""

from taskd_net.job.arguments import LOOPBACK as LOCAL_HOST
from taskd_net.job.arguments import UPSTREAM_ADDR as CONFIG_UPSTREAMIP_KEY

__all__ = ["CONFIG_UPSTREAMIP_KEY", "LOCAL_HOST"]
