"""The calls of an Agent: the launcher of one node's workers (TaskD API reference, "TaskD Agent")."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from taskd_net.base.codes import ArgumentError, ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.job import arguments
from taskd_net.job.agent.agent import Agent
from taskd_net.job.agent.plans import Leave, Return
from taskd_net.job.agent.workers import Operators
from taskd_net.job.faults.events import device_name
from taskd_net.job.frameworks import registry
from taskd_net.job.member import Singleton, documented, log
from taskd_net.job.node_proxy import AgentsProxy
from taskd_net.node.config import NodeConfig

DEVICE_NAMES: Final = "TASKD_NET_DEVICES"

# Registered functions belong to the framework, so they outlive an Agent.
_operators: Final = Operators()

slot: Final[Singleton[Agent]] = Singleton("agent")


def initialise(
    config: Mapping[str, object] = {},
    cls: object = None,
    operators: Operators = _operators,
    proxy: Callable[[int, str, str, arguments.Settings], AgentsProxy] = AgentsProxy,
    **more: Any,
) -> Agent | None:
    """Carry out `init_taskd_agent`, whose arguments are TaskD's, for an Agent with other functions and times.

    Args:
        config, cls: as in that call.
        operators: the framework's functions. Default: those of `register_func`.
        proxy: makes the Proxy of the node.
        more: further arguments of the `Agent`.

    Returns:
        The Agent; None where the framework goes on without one.

    Raises:
        ConfigError, Refused: as that call says in the log.
    """
    wanted = arguments.checked(config)
    framework = registry.of_agent(wanted.get("Framework", registry.FRAMEWORKS[0].name))
    if reason := framework.no_agent():
        log.info("no_agent", reason=reason)
        return None
    server_rank = arguments.server_rank(wanted, framework.rank_variable)
    upstream = arguments.upstream(wanted)
    secured = arguments.secured(wanted, listens=False, connects=True)
    node = NodeConfig.agent(server_rank=server_rank, job_id=arguments.job_id(), upstream=upstream, tls=secured)
    own_proxy = proxy(server_rank, upstream, framework.mgr_variable, wanted)
    workers, plans = framework.supervised(operators, cls)
    devices = device_names(wanted)
    return slot.fill(lambda: Agent(node, workers, plans, own_proxy, devices, **more), f"agent-{server_rank}.log")


def run(agent: Agent) -> object:
    """Carry out `start_taskd_agent` for an Agent of `initialise`.

    Raises:
        ConfigError, Refused: as that call says in the log.
    """
    try:
        agent.begin()
    except ConfigError as error:
        if not agent.workers.ignores_results:
            raise
        log.error("call_failed", call="start_taskd_agent", reason=str(error))
        slot.clear(agent)
        agent.workers.leave()
        raise SystemExit(1) from error
    try:
        outcome = agent.serve()
    finally:
        slot.clear(agent)
    match outcome:
        case Leave(status, _):
            agent.workers.leave()
            raise SystemExit(status)
        case Return(result):
            return result
        case None:
            return True


def device_names(config: arguments.Settings) -> Sequence[str]:
    """`Devices`, names as a list or with commas between, or those of `TASKD_NET_DEVICES`, or none."""
    value = config.get("Devices", os.environ.get(DEVICE_NAMES, ""))
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, Sequence):
        raise ConfigError(f"Devices is {shown(value)}; expected names of devices, with commas between")
    try:
        return [device_name(name, "a name in Devices") for name in names if name != ""]
    except ArgumentError as error:
        raise ConfigError(str(error)) from None


@documented
def init_taskd_agent(config: Mapping[str, object] = {}, cls: object = None) -> bool:
    """Make this process the Agent of its node. It joins in the background, whenever its Proxy is there.

    Where the platform names the Mgr's host and nobody listens at the upstream, the Proxy of the node runs in this
    process too, until the Agent's end; see `taskd_net.job.node_proxy`.

    Args:
        config: `Framework` (`PyTorch`, the default, or `MindSpore`), `UpstreamAddr` (127.0.0.1) and `UpstreamPort`
            (9602), without both `TASKD_NET_UPSTREAM`; `ServerRank` (the variable `RANK` for PyTorch, `MS_NODE_RANK` for
            MindSpore, else 0); `Devices` (names of the node's devices by local rank, as its device watcher says them;
            `TASKD_NET_DEVICES`, else none). `enable_tls` and `tls_conf`: as in `init_taskd_proxy`.
        cls: the SimpleElasticAgent; needed for PyTorch, and for nothing else.

    Returns:
        True, or False with one line in the log: a value is not usable or missing, there is an Agent already, this
        process is a forked child, or `TASKD_NET_MSRUN` is `plugin` (MindSpore), so that msrun takes MSRunPlugin.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    return initialise(config, cls) is not None


@documented
def start_taskd_agent() -> object:
    """Register with the Mgr, ask for the go, and run the workers as it commands, in the thread that calls.

    Returns:
        The RunResult of PyTorch's MONITOR when all workers have succeeded. True: the Agent was destroyed. False with
            one line in the log: no Agent was initialised, it has been started, or a function is not registered. The
            Agent has left the mesh when this ends; `init_taskd_agent` may be called again.

    Raises:
        SystemExit: the process has to leave. Status 1: the Mgr has sent 203, or 208 or 210 without restarts left
            (PyTorch); no join or go came in time; the workers could not be started; or the Mgr's host is of no use
            (MindSpore, which ignores a result). With MindSpore its scheduler is ended. Status 143: a graceful exit has
            been carried out, or no answer to a fault came in time. Status 0: all workers have finished (MindSpore).
        An exception with a `sigval`, as a signal handler of PyTorch's elastic agent raises it.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    return run(slot.member)


@documented
def destroy_taskd_agent() -> bool:
    """Leave the mesh, and so end `start_taskd_agent`, from any thread. The workers are left alone.

    Returns:
        True, or False with one line in the log: no Agent was initialised.
    """
    slot.clear()
    return True


@documented
def register_func(operator: str, func: Callable[..., object]) -> bool:
    """Register what the Agent calls to carry out a command, before or after `init_taskd_agent`.

    Args:
        operator: `KILL_WORKER`, `START_ALL_WORKER`, `START_WORKER_LIST`, `MONITOR` or `RESTART`.
        func: the function; see the `workers` of each package in `taskd_net.job.frameworks` for what it is called
            with. It replaces the one before.

    Returns:
        True, or False with one line in the log: an operator of another name, or nothing that can be called.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    _operators.register(operator, func)
    return True
