"""The registry of training frameworks: each is found by the names that the documented calls give it."""

from __future__ import annotations

import pytest

from taskd_net import ConfigError
from taskd_net.job.frameworks.kind import TrainingFramework
from taskd_net.job.frameworks.registry import FRAMEWORKS, of_agent, of_worker

pytestmark = pytest.mark.oldest


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda each: each.name)
def test_framework_is_found_by_both_names(framework: TrainingFramework) -> None:
    assert of_agent(framework.name) is of_worker(framework.short) is framework


@pytest.mark.parametrize("name", ["pytorch", "", None, ["PyTorch"], 7])
def test_name_of_none_is_refused_with_those_that_there_are(name: object) -> None:
    with pytest.raises(ConfigError, match=r"^Framework is .*; expected 'PyTorch' or 'MindSpore'$"):
        of_agent(name)
    with pytest.raises(ConfigError, match=r"^framework is .*; expected 'pt' or 'ms'$"):
        of_worker(name)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda each: each.name)
def test_node_of_a_worker_comes_from_the_variables_of_its_launcher(
    framework: TrainingFramework, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "13", "LOCAL_WORLD_SIZE": "4", "MS_NODE_RANK": "2"}.items():
        monkeypatch.setenv(name, value)
    assert framework.node_of_worker() == {"pt": 3, "ms": 2}[framework.short]
