"""The client of ClusterD in Elastic-Agent's form (Elastic-Agent API reference)."""

from __future__ import annotations

from taskd_net.job.clusterd.blocking import DLRecoverManager, Info


class ElasticRecoverManager(DLRecoverManager):
    """A `DLRecoverManager` over TLS, unless it is told otherwise.

    Args:
        info: `pb.ClientInfo` with `ip`, `port`, `taskId` and `role`; today's form is taken too.
        server_addr, secure_conn, cert_path: as of `DLRecoverManager`.

    Raises:
        ArgumentError, ArgumentTypeError: the job or the role is of no use.
        ConfigError: the address or the file is of no use.

    Source: Elastic-Agent API reference.
    """

    def __init__(self, info: Info, server_addr: str, secure_conn: bool = True, cert_path: str = "") -> None:
        super().__init__(info, server_addr, secure_conn, cert_path)
