"""The training frameworks. Another one is its own package and one line here."""

from __future__ import annotations

from typing import Final

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.job.frameworks.kind import TrainingFramework
from taskd_net.job.frameworks.mindspore import MINDSPORE
from taskd_net.job.frameworks.pytorch import PYTORCH

FRAMEWORKS: Final = (PYTORCH, MINDSPORE)
"""The default comes first."""


def of_agent(name: object) -> TrainingFramework:
    """The framework that `init_taskd_agent` calls `name`.

    Raises:
        ConfigError: there is none.
    """
    return _found("Framework", name, {each.name: each for each in FRAMEWORKS})


def of_worker(short: object) -> TrainingFramework:
    """The framework that `init_taskd_worker` calls `short`.

    Raises:
        ConfigError: there is none.
    """
    return _found("framework", short, {each.short: each for each in FRAMEWORKS})


def _found(argument: str, name: object, frameworks: dict[str, TrainingFramework]) -> TrainingFramework:
    if not isinstance(name, str) or name not in frameworks:
        raise ConfigError(f"{argument} is {shown(name)}; expected {' or '.join(map(repr, frameworks))}")
    return frameworks[name]
