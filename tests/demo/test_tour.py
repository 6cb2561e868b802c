"""The places of the Workers."""

import pytest

from taskd_net.demo.tour import workers_by_node


@pytest.mark.parametrize(
    ("nodes", "workers", "sizes"), [(2, 8, [4, 4]), (3, 8, [3, 3, 2]), (1, 1, [1]), (4, 4, [1, 1, 1, 1])]
)
def test_workers_are_spread_evenly_and_ranks_are_global(nodes: int, workers: int, sizes: list[int]) -> None:
    spread = workers_by_node(nodes, workers)
    assert [len(node) for node in spread] == sizes
    assert [worker.process_rank for node in spread for worker in node] == list(map(str, range(workers)))
    assert [{worker.server_rank for worker in node} for node in spread] == [{str(node)} for node in range(nodes)]
