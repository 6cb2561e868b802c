"""msrun's training processes, and those of torch's elastic agent, under the platform's reset files, without a Manager.

`MSRunPlugin` is for msrun, `invoke_run` takes the place of `SimpleElasticAgent._invoke_run`. With a Manager the same
msrun uses the calls of `taskd_net.job.api`.

- `machine` decides, `reset` reads the bytes of the files; both are pure.
- `launcher` is the thread around them, `files` the reading, `clusterd` the client of ClusterD on the first node.
"""

from taskd_net.mindspore.files import Paths
from taskd_net.mindspore.invoke_run import invoke_run
from taskd_net.mindspore.machine import Times
from taskd_net.mindspore.plugin import MSRunPlugin

__all__ = ["MSRunPlugin", "Paths", "Times", "invoke_run"]
