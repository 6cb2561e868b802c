"""msrun's training processes, and those of torch's elastic agent, under the platform's reset files, without a Manager.

`MSRunPlugin` is for msrun, `invoke_run` takes the place of `SimpleElasticAgent._invoke_run`. With a Manager the same
msrun uses the calls of `taskd_net.job.api`.

Read first: `machine.py`, which decides (pure), and `launcher.py`, the thread around it. `reset.py` has the form of the
files, `files.py` reads them. The client of ClusterD on the first node is `job/clusterd/launcher.py`. It imports `job`,
`node` and what is below them.
"""

from taskd_net.mindspore.files import Paths
from taskd_net.mindspore.invoke_run import invoke_run
from taskd_net.mindspore.machine import Times
from taskd_net.mindspore.plugin import MSRunPlugin

__all__ = ["MSRunPlugin", "Paths", "Times", "invoke_run"]
