"""The meeting of the nodes by way of the Manager, as torch's elastic agent sees it.

The Manager knows which nodes are ready, and gives each Agent the ranks and the address of the workers' store. So no
Agent calls a store: a call of one blocks signals, and has no end where its server is stopped. The store stands at the
Agent of node 0, since scripts serve at MASTER_ADDR. Each start of all has a fresh one on a new port, without addresses
of ended processes.
"""

from __future__ import annotations

import errno
import socket

from torch.distributed import HashStore, TCPStore
from torch.distributed.elastic.rendezvous.api import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo

from taskd_net.base.logger import late_logger
from taskd_net.job.agent.messages import Meeting
from taskd_net.job.arguments import LOOPBACK
from taskd_net.job.manager_place import listen_host
from taskd_net.job.own_host import own_name

log = late_logger()


def serve_store(host: str) -> tuple[TCPStore, int]:
    """Serve a store for the workers, at this address alone. Returns it, and its port.

    A host whose address is none of this machine's, such as that of a service, is served at all addresses. So is one
    whose name leads others to another address than this machine.
    """
    try:
        listener = _listen(listen_host(host, own_name(), is_placed=False))
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        log.warning("store_listens_everywhere", host=host, reason=str(error))
        listener = socket.create_server(("", 0))
        host = LOOPBACK  # for the client that torch makes of its server
    port: int = listener.getsockname()[1]
    store = TCPStore(
        host_name=host,
        port=port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    return store, port


def _listen(host: str) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family)


class MeetingHandler(RendezvousHandler):
    """A rendezvous that has taken place.

    Args:
        meeting: its outcome.
        rank: of this node.
        run_id: of torch's run.

    Attributes:
        host, port: of the workers' store.
    """

    def __init__(self, meeting: Meeting, rank: int, run_id: str) -> None:
        host, _, port = meeting.store.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)
        self._nodes = len(meeting.local_worlds)
        self._rank = rank
        self._run_id = run_id

    def get_backend(self) -> str:
        """See torch's class, here and below."""
        return "taskd_net"

    @property
    def use_agent_store(self) -> bool:
        """The workers use the store that stands already."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """The Agent's own store holds nothing."""
        return RendezvousInfo(HashStore(), self._rank, self._nodes, RendezvousStoreInfo(self.host, self.port))

    def is_closed(self) -> bool:
        """The Manager ends a job."""
        return False

    def set_closed(self) -> None:
        """Do nothing: the Manager ends a job."""

    def num_nodes_waiting(self) -> int:
        """The Manager knows of nodes that wait."""
        return 0

    def get_run_id(self) -> str:
        """The id of torch's run."""
        return self._run_id

    def shutdown(self) -> bool:
        """Nothing is left."""
        return True
