"""torchrun's launcher, with the Agent of this package in its place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from torch.distributed.launcher import api as launcher
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from taskd_net.torch import ElasticAgent, NoCommand, UnsupportedTorch, patch, seam, unpatch

ORIGINALS = (launcher.launch_agent, launcher.LocalElasticAgent)


@pytest.fixture(autouse=True)
def unpatched() -> Iterator[None]:
    """torch is as it was afterwards."""
    yield
    unpatch()
    assert (launcher.launch_agent, launcher.LocalElasticAgent) == ORIGINALS


def config(max_restarts: int = 0) -> LaunchConfig:
    """A job whose rendezvous opens nothing before it begins."""
    rendezvous = {"rdzv_backend": "static", "rdzv_endpoint": "127.0.0.1:29500", "rdzv_configs": {"rank": 0}}
    return LaunchConfig(1, 1, 1, run_id="run", max_restarts=max_restarts, **rendezvous)


def test_twice_is_once() -> None:
    patch(node_rank=1)
    patch(node_rank=2)
    agent = launcher.LocalElasticAgent
    assert isinstance(agent, partial) and agent.func is ElasticAgent
    assert agent.keywords == {"node_rank": 2}
    unpatch()
    assert (launcher.launch_agent, launcher.LocalElasticAgent) == ORIGINALS
    unpatch()


@pytest.mark.parametrize(("given", "offered"), [(0, 32767), (3, 3)])
def test_restarts_that_are_offered(given: int, offered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    class Agent:
        def __init__(self, *, spec: Any, **_: object) -> None:
            seen.append(spec.max_restarts)
            raise ZeroDivisionError

    patch()
    monkeypatch.setattr(launcher, "LocalElasticAgent", Agent)
    with pytest.raises(ZeroDivisionError):
        elastic_launch(config(given), "true")()
    monkeypatch.undo()
    assert seen == [offered]


def test_function_is_refused_before_anything_starts() -> None:
    patch()
    with pytest.raises(NoCommand, match="the Python function test_twice_is_once; expected a command"):
        elastic_launch(config(), test_twice_is_once)()


def test_other_torch_is_refused_and_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise UnsupportedTorch("torch is 1.0")

    monkeypatch.setattr(seam, "check", refuse)
    with pytest.raises(UnsupportedTorch):
        patch()
    assert (launcher.launch_agent, launcher.LocalElasticAgent) == ORIGINALS
