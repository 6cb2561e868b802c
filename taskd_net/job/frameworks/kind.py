"""A training framework, as the rest of the package knows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskd_net.job.agent.plans import Plans
    from taskd_net.job.agent.workers import LocalWorkers, Operators


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFramework:
    """A training framework: an entry of `registry`.

    A training process loads the entry alone. What only an Agent needs is imported by `supervised`.

    Args:
        name: `Framework` in the config of `init_taskd_agent`.
        short: `framework` of `init_taskd_worker`.
        rank_variable: variable in which a launcher finds the rank of its node.
        mgr_variable: variable in which a launcher finds the Mgr's host.
        node_of_worker: gives the rank of a training process's node, or raises ConfigError.
        switch_nic: function that switches the network cards of ranks, as `module:function`.
        stress_test: function that tests a device, in the same form.
        set_device: function that gives a new thread the rank's own device; None where threads have it anyway.
        supervised: makes the workers and plans of an Agent from the registered functions and the `cls` of
            `init_taskd_agent`, or raises ConfigError.
        no_agent: gives the reason for which the launcher goes on without an Agent; empty where it has one.
    """

    name: str
    short: str
    rank_variable: str
    mgr_variable: str
    node_of_worker: Callable[[], int]
    switch_nic: str
    stress_test: str
    set_device: str | None = None
    supervised: Callable[[Operators, object], tuple[LocalWorkers, Plans]]
    no_agent: Callable[[], str] = str
