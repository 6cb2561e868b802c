"""Positions of tools."""

from __future__ import annotations

import click
import pytest

from taskd_net import ConfigError, Position, Role
from taskd_net.cli.settings import COMMANDS
from taskd_net.cli.tool import leaf
from taskd_net.net.free_position import free_position


def context(position: str | None) -> click.Context:
    """The context of `send` with this `--as`."""
    made = click.Context(click.Command("send", params=list(COMMANDS["send"])))
    made.params = {"as": position}
    return made


@pytest.mark.parametrize(
    ("text", "position"), [(None, None), ("AGENT/3", Position.agent(3)), ("worker/0/7", Position.worker(0, 7))]
)
def test_a_leaf_may_be_named(text: str | None, position: Position | None) -> None:
    assert leaf(context(text)) == position


@pytest.mark.parametrize("text", ["Mgr", "Proxy/0", "Worker/All/All", "Agent/0,1", "Boss/0", ""])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^as is .* expected the position of an Agent or a Worker"):
        leaf(context(text))


def test_free_positions_are_agents_of_ranks_that_no_job_has() -> None:
    found = {free_position() for _ in range(50)}
    assert {position.role for position in found} == {Role.AGENT} and len(found) > 45
    assert all(10**9 <= int(position.server_rank) < 2**31 for position in found)
