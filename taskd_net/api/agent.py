"""The Agent: the launcher of one node's workers (contract, section 7; TaskD API reference, "TaskD Agent").

It carries out the Mgr's commands with the functions that the training framework has registered. Faults are judged
elsewhere.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from taskd_net import limits
from taskd_net.api import arguments
from taskd_net.api import body as bodies
from taskd_net.api.body import Body
from taskd_net.api.member import Once, Refused, Slot, documented, leave, log
from taskd_net.api.operators import MONITOR, Operators
from taskd_net.api.receiver import read_body
from taskd_net.api.reporting import report_until_taken, stay_registered
from taskd_net.blocking import BlockingNode
from taskd_net.codes import ConfigError
from taskd_net.config import NodeConfig
from taskd_net.node import Node
from taskd_net.reading import Reading
from taskd_net.untrusted import json_value, shown

MTYPE: Final = "DEFAULT"
RANK_VARIABLE: Final = {"PyTorch": "RANK", "MindSpore": "MS_NODE_RANK"}

# Registered functions belong to the framework, so they outlive an Agent.
_operators: Final = Operators()


class Agent:
    """The Agent of this process, from init to destroy.

    Args:
        config: the node.
        framework_agent: PyTorch's SimpleElasticAgent, if there is one.
    """

    def __init__(self, config: NodeConfig, framework_agent: object) -> None:
        self.node = BlockingNode(config).start()
        self.framework_agent = framework_agent
        self._start = Once()
        self._closed = threading.Event()

    def begin(self) -> None:
        """Register with the Mgr, in the background, and ask for the go."""
        self._start.take()
        self.node.beside(self._report)

    def serve(self) -> bool:
        """Carry out commands until closed or told to leave. Returns False for an exit status of 1."""
        with Reading(self.node) as reading:
            for message in self.node.messages():
                leaves: bool | None = None
                with reading.survive(message):
                    try:
                        body = read_body(message)
                        said = {"code": body.code, "msg_type": body.msg_type, "message": body.message}
                        log.info("command", **said, src=str(message.src))
                        leaves = _leaves(body)
                        self._obey(body)
                    except Exception as error:
                        # Errors of the framework's functions too: the Mgr sees the state of the workers in the reports.
                        expected = isinstance(error, Refused | ValueError)
                        log.error(
                            "command_failed",
                            src=str(message.src),
                            uuid=message.uuid,
                            reason=str(error),
                            exc_info=None if expected else error,
                        )
                if leaves is not None:
                    return leaves
        return True

    def close(self) -> None:
        """Leave the mesh; `serve` returns after the current command."""
        self._closed.set()
        leave(self.node)

    async def _report(self, node: Node) -> None:
        await report_until_taken(node, Body(bodies.REGISTER, bodies.AGENT_REGISTERS), MTYPE)
        restarts = getattr(self.framework_agent, "_remaining_restarts", 0)
        await report_until_taken(node, Body(bodies.STATUS, bodies.MAY_I_START, str(restarts)), MTYPE)
        await asyncio.sleep(limits.REGISTER_EVERY_S)
        await stay_registered(node, Body(bodies.REGISTER, bodies.AGENT_REGISTERS), MTYPE)

    def _obey(self, body: Body) -> None:
        """Carry out one command."""
        if body.msg_type == bodies.GRACE_EXIT:
            self._end_gracefully()
        elif body.code == bodies.START:
            _operators.start_all()
        elif _leaves(body) is not None:
            _operators.kill_all()
        elif body.code == bodies.RESTART_ALL:
            _operators.restart_all()
        elif body.code == bodies.RESTART_RANKS:
            _operators.restart(_ranks(body.message))
        elif body.code == bodies.STOP_RANKS:
            _operators.kill(_ranks(body.message))
        else:
            raise Refused(f"an Agent does nothing for code {shown(body.code)}, msg_type {shown(body.msg_type)}")

    def _end_gracefully(self) -> None:
        """Send SIGTERM to the workers, and kill the ones that do not end in time."""
        if _operators.has(MONITOR):
            _operators.ask_to_end()
            give_up_at = time.monotonic() + limits.GRACE_EXIT_S
            while not _operators.all_ended() and time.monotonic() < give_up_at:
                if self._closed.wait(1.0):
                    return
        _operators.kill_all()


def _leaves(body: Body) -> bool | None:
    """Whether the Agent is to leave after this command: True in peace, False with exit status 1, None not at all."""
    if body.msg_type == bodies.GRACE_EXIT:
        return True
    if body.code == bodies.EXIT or (body.code == bodies.RESTART_ALL and int(body.message) < 0):
        return False
    return None


def _ranks(message: str) -> frozenset[int]:
    """Global ranks: a JSON list of ints, or of texts as the original's Mgr sends."""
    ranks = json_value(message)
    if not isinstance(ranks, list):
        raise ValueError(f"message is {shown(message)}; expected a JSON list of ranks")
    return frozenset(arguments.rank(rank, "rank") for rank in ranks)


slot: Final[Slot[Agent]] = Slot("agent")


@documented
def init_taskd_agent(config: Mapping[str, object] = {}, cls: object = None) -> bool:
    """Make this process the Agent of its node. It joins in the background, whenever its Proxy is there.

    Args:
        config: `Framework` (`PyTorch`, the default, or `MindSpore`), `UpstreamAddr` (127.0.0.1), `UpstreamPort` (9602),
            `ServerRank` (the variable `RANK` for PyTorch, `MS_NODE_RANK` for MindSpore, else 0). `enable_tls` and
            `tls_conf`: as in `init_taskd_proxy`.
        cls: the SimpleElasticAgent, under PyTorch.

    Returns:
        True, or False with one line in the log: a value is not usable, there is an Agent already, or this process is a
        forked child.

    Source: TaskD API reference; contract, section 7.
    """
    wanted = arguments.checked(config)
    framework = wanted.get("Framework", "PyTorch")
    if not isinstance(framework, str) or framework not in RANK_VARIABLE:
        raise ConfigError(f"Framework is {framework!r}; expected 'PyTorch' or 'MindSpore'")
    server_rank = arguments.server_rank(wanted, RANK_VARIABLE[framework])
    upstream = arguments.address(wanted, "Upstream", arguments.PROXY_PORT)
    secured = arguments.secured(wanted, listens=False, connects=True)
    node = NodeConfig.agent(server_rank=server_rank, upstream=upstream, tls=secured)
    slot.fill(lambda: Agent(node, cls), f"agent-{server_rank}.log")
    return True


@documented
def start_taskd_agent() -> bool:
    """Register with the Mgr, and carry out its commands with the registered functions, in the thread that calls.

    Returns:
        True: the Agent was destroyed, or has ended its workers gracefully. False: the Mgr wants it to leave with exit
            status 1 (commands 203, and 208 without restarts left). False with one line in the log: no Agent was
            initialised, or it has been started. The Agent is gone when this returns; `init_taskd_agent` may be called
            again.

    Source: TaskD API reference; contract, section 7.
    """
    agent = slot.member
    agent.begin()
    try:
        return agent.serve()
    finally:
        slot.clear(agent)


@documented
def destroy_taskd_agent() -> bool:
    """Leave the mesh, and so end `start_taskd_agent`, from any thread.

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
        func: the function; see `taskd_net.api.operators.Operators` for what it is called with. It replaces the one
            before.

    Returns:
        True, or False with one line in the log: an operator of another name, or nothing that can be called.

    Source: TaskD API reference; contract, section 7.
    """
    _operators.register(operator, func)
    return True
