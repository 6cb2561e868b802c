"""Fixtures: one Slurm for all tests, and a play for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, lacking
from tests.slurm.play import Play


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Slurm with two nodes, until the end of the tests."""
    if reason := lacking():
        pytest.skip(reason)
    with Cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.fixture
def play(cluster: Cluster, tmp_path: Path) -> Iterator[Play]:
    """A play that leaves no process behind."""
    made = Play(cluster, tmp_path)
    try:
        yield made
    finally:
        made.close()
