"""The import paths of Elastic-Agent: each module here is an alias of one in `taskd_net`."""

from taskd_net.base.distributions import require_alone
from taskd_net.job.api.elastic import adopt_variables
from taskd_net.version import __version__

__all__ = ["__version__"]

require_alone(__name__)
adopt_variables()
