"""The training of the demo that recovers in place, compared with an undisturbed one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from taskd_net_lab.demos.training.evidence import CLOSE, STEPS, Step
from taskd_net_lab.demos.training.scenarios import FIRST, SCENARIOS, play
from taskd_net_lab.demos.training.stage import LOCAL, NODES, PATIENCE_S, Stage

pytestmark = pytest.mark.timeout(600)

IN_PLACE = next(each for each in SCENARIOS if each.name == "worker-killed-in-place")


LOST = next(each for each in SCENARIOS if each.name == "node-lost-in-place")


async def test_node_that_is_back_before_anybody_misses_it() -> None:
    """The Manager has heard of no silence: the next Agent registers within seconds."""

    async def played(stage: Stage) -> None:
        await stage.start_job()
        await stage.until_step(FIRST)
        await stage.kill_daemon("Agent/1")
        await stage.launch(1)
        await stage.until_step(STEPS - 1, lives=2)
        for node in range(NODES):
            await stage.ended(node)

    result = await play(replace(LOST, play=played), patience=PATIENCE_S / 2)
    assert result.ok, "\n".join(result.problems)


def undisturbed() -> list[float]:
    """The losses of all ranks, in one process."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        total = torch.zeros(())
        for rank in range(NODES * LOCAL):
            inputs = torch.randn(16, 8, generator=torch.Generator().manual_seed(1000 * step + rank))
            total = total + torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        optimizer.zero_grad()
        (total / (NODES * LOCAL)).backward()
        optimizer.step()
        losses.append(float(total.detach()) / (NODES * LOCAL))
    return losses


async def test_losses_are_those_of_an_undisturbed_training() -> None:
    steps: list[Step] = []

    async def seen(stage: Stage) -> None:
        await IN_PLACE.play(stage)
        steps.extend(stage.evidence.steps)

    result = await play(replace(IN_PLACE, play=seen))
    assert result.ok, "\n".join(result.problems)
    losses = undisturbed()
    assert {each.step for each in steps} == set(range(STEPS))
    for each in steps:
        assert each.loss == pytest.approx(losses[each.step], rel=CLOSE), each
