"""The base class, by the plugin in docs/manager.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from taskd_net.base.position import Position
from taskd_net.job.decide.events import Reported, Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.plugins import AnyPlugin, built_in
from taskd_net.job.decide.snapshot import JobConfig

PAGE = Path(__file__).parents[3] / "docs" / "manager.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documents are part of a checkout")
def test_the_documented_plugin_greets() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {"__name__": __name__}
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), names)  # noqa: S102 - our own document
    job, greeter = names["job"], cast(Callable[[], AnyPlugin], names["Greeter"])
    assert isinstance(job, Job)
    job.step(1.0, Reported(Position.worker(0, 3), "REGISTER", 101))
    (command,) = job.step(1.0, Tick()).commands
    assert (command.to, command.code, command.message) == ("Worker/All/All", 9001, "1 of us")
    resumed = Job.from_json(job.to_json(), JobConfig(), [*built_in(), greeter()])
    assert resumed.step(2.0, Tick()).commands == [], "its state is stored"


def test_every_built_in_plugin_is_in_the_document() -> None:
    text = PAGE.read_text("utf-8")
    for plugin in built_in():
        assert f"`{plugin.name}`" in text
        assert all(f"`{stream}`" in text for stream in plugin.streams)
