"""The meeting of all nodes before workers start, in which the workers' store is emptied.

torch's static rendezvous keeps one TCPStore for the life of a job. Workers of a restart would read the addresses that
their predecessors have left there. So node 0 waits until every node is about to start its workers, which means that
all earlier workers have ended, deletes the keys of workers, and lets the others go on.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from torch.distributed import TCPStore

ASKS: Final = "taskd_net/asks"
ANSWERS: Final = "taskd_net/answers"


def meet(worker_group: Any) -> None:
    """Wait for the other nodes, and leave no key of earlier workers. Called on every node, before each start.

    A node that ends while it waits asks again in its next life, and its last question counts.

    Args:
        worker_group: torch's group, after its rendezvous.

    Raises:
        torch.distributed.DistError: another node has not come within the timeout of the rendezvous.
    """
    store, rank = worker_group.store, worker_group.group_rank
    if rank == 0:
        questions = [f"{ASKS}/{other}" for other in range(1, worker_group.group_world_size)]
        tokens = [_taken(store, question) for question in questions]
        _delete_keys_of_workers(worker_group)
        for token in tokens:
            store.set(f"{ANSWERS}/{token}", "go")
    else:
        token = str(uuid4())
        store.set(f"{ASKS}/{rank}", token)
        store.get(f"{ANSWERS}/{token}")
        store.delete_key(f"{ANSWERS}/{token}")


def _taken(store: Any, key: str) -> str:
    value: bytes = store.get(key)
    store.delete_key(key)
    return value.decode()


def _delete_keys_of_workers(worker_group: Any) -> None:
    """Delete everything but the keys of the agents, which torch puts below the id of the run."""
    handler = worker_group.spec.rdzv_handler
    if not handler.use_agent_store:
        return  # the first worker makes a store of its own
    store = TCPStore(worker_group.master_addr, worker_group.master_port, is_master=False, wait_for_workers=False)
    agents = f"{handler.get_run_id()}/"
    for key in store.list_keys():
        if not key.startswith(agents):
            store.delete_key(key)
