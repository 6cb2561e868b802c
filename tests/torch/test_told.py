"""A launcher that was told otherwise about restarts than its Manager."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torch.cluster import PLAIN, Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Nodes, and a Mgr that the test speaks for."""
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(("arguments", "lines"), [(["--max-restarts=3"], 1), (["--max-restarts=0"], 1), ([], 0)])
def test_launcher_says_in_one_line_that_its_manager_leaves_restarts_to_a_platform(
    cluster: Cluster, arguments: list[str], lines: int
) -> None:
    node = cluster.run(*arguments, str(PLAIN))
    asked = cluster.report(201)
    assert asked.extension.get("MaxRestarts") == (arguments[0].partition("=")[2] if arguments else None)
    assert asked.message == ("3" if "--max-restarts=3" in arguments else "32767")
    cluster.command(210, asked.message)
    node.pid(0)
    assert node.log().count("manager_decides_restarts") == lines
