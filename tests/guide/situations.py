"""The situations of docs/operators-guide.md, each with the commands that diagnose it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from taskd_net import Node, NodeConfig
from taskd_net.cli.authority import Authority, write
from taskd_net.core.certificate_name import SCHEME
from tests.guide.stage import Stage
from tests.ports import free_address

Situation: TypeAlias = Callable[[Stage], Awaitable[None]]


def described(rank: int) -> str:
    """A pattern for the line of a Proxy in a tree, with its address. The address arrives after the Proxy has joined."""
    return rf"(?s:.*)Proxy/{rank}  joined.*listens on"


async def never_joined(stage: Stage) -> None:
    """Worker 3 of a job of 2 nodes with 2 processes has the wrong address in its environment."""
    mgr = await stage.mgr("--expect", "2x2")
    first, second = await stage.proxy(0, mgr), await stage.proxy(1, mgr)
    await asyncio.gather(
        stage.workers(first.address, "Worker/0/0", "Worker/0/1"), stage.workers(second.address, "Worker/1/2")
    )
    await stage.show("never-joined/tree", "tree", "--at", mgr, until=r"missing of 2x2: 1: Worker 3\n" + described(1))
    await stage.show("never-joined/trace", "trace", "Worker/1/3", "--at", mgr)
    nowhere = free_address()
    stage.called(nowhere, "127.0.0.1:9620")
    await stage.show("never-joined/doctor", "doctor", "listen", "--as", "Worker/1/3", "--upstream", nowhere)
    await stage.workers(second.address, "Worker/1/3")
    await stage.show("never-joined/after", "tree", "--at", mgr, until="missing of 2x2: none" + described(1))


async def frozen_worker(stage: Stage) -> None:
    """Worker 1 is stopped, as by a debugger or a dead disk: its connection stands, without answers."""
    mgr = await stage.mgr("--expect", "1x2")
    proxy = await stage.proxy(0, mgr)
    _, frozen = await stage.workers(proxy.address, "Worker/0/0", "Worker/0/1")
    await stage.show("", "tree", "--at", mgr, until="missing of 1x2: none")
    frozen.signal(signal.SIGSTOP)
    try:
        # On a slow machine its parent may give it up before the command runs.
        while "6001" not in (said := (await stage.say("ping", "Worker/0/1", "--count", 1, "--at", mgr))[1]):
            frozen.signal(signal.SIGCONT)
            await stage.show("", "tree", "--at", mgr, until="missing of 1x2: none")
            frozen.signal(signal.SIGSTOP)
        stage.keep("frozen/ping", said)
        await stage.show("frozen/tree", "tree", "--at", mgr, until="NOT ANSWERING")
        await stage.show("frozen/trace", "trace", "Worker/0/1", "--at", mgr)
        await stage.show("frozen/others", "ping", "Worker/0/0", "--count", 2, "--interval", 0.1, "--at", mgr)
    finally:
        frozen.signal(signal.SIGCONT)
    after = ("ping", "Worker/0/1", "--count", 2, "--interval", 0.1, "--at", mgr)
    await stage.show("frozen/after", *after, until="2 answered")


async def wrong_upstream(stage: Stage) -> None:
    """Proxy 1 has an upstream port without a listener."""
    mgr = await stage.mgr("--expect", "2x1")
    proxy = await stage.proxy(0, mgr)
    await stage.workers(proxy.address, "Worker/0/0")
    nowhere = free_address()
    stage.called(nowhere, "127.0.0.1:9610")
    wrong = await stage.proxy(1, nowhere)
    await stage.show("upstream/tree", "tree", "--at", mgr, until="Worker 1" + described(0))
    await stage.show("upstream/health", "health", "--at", wrong.address)
    await stage.keep_log("upstream/log", wrong, ["join_failed"])
    doctor = ("doctor", "proxy", "--server-rank", 1, "--listen", wrong.address, "--upstream")
    await stage.show("upstream/doctor", *doctor, nowhere)
    await stage.show("upstream/doctor-right", *doctor, mgr)


async def expired_certificate(stage: Stage) -> None:
    """The certificate of Proxy 1 has expired, and is replaced while the Proxy runs."""
    certs, settings_file = stage.folder / "certs", stage.folder / "taskd-net.toml"
    await stage.show("", "certs", "init", "--folder", certs)
    _, settings = await stage.show("", "certs", "issue", "--folder", certs)
    settings_file.write_text(settings)
    plain = free_address()
    stage.called(plain, "127.0.0.1:9600")
    mgr = await stage.mgr("--config", settings_file, "--plain-listen", plain, "--expect", "2x0")
    await stage.proxy(0, mgr, "--config", settings_file)

    of_proxy = stage.folder / "proxy-1.toml"
    of_proxy.write_text(settings.replace("node.", "proxy-1."))
    uri = f"{SCHEME}*/Proxy/1"
    eight_days_ago = datetime.now(UTC) - timedelta(days=8)
    key, crt = Authority.load(certs).issue([uri], ["127.0.0.1"], timedelta(days=7), eight_days_ago)
    write(certs / "proxy-1.key", key, 0o600)
    write(certs / "proxy-1.crt", crt, 0o644)
    listen = free_address()
    stage.called(listen, "127.0.0.1:9603")
    proxy = ("proxy", "--config", of_proxy, "--server-rank", 1, "--listen", listen, "--upstream", mgr)
    await stage.show("certificate/tree", "tree", "--at", plain, until=described(0))
    await stage.show("certificate/start", *proxy, until="has expired")
    await stage.show("certificate/doctor", "doctor", *proxy, until="expired")
    await stage.show("certificate/issue", "certs", "issue", "Proxy/1", "--folder", certs)
    await stage.proxy(1, mgr, "--config", of_proxy, "--listen", listen)
    await stage.show("certificate/after", "tree", "--at", plain, until="missing of 2x0: none" + described(1))


async def full_inbox(stage: Stage) -> None:
    """Worker 1 has room for four messages, and has stopped taking any out."""
    mgr = await stage.mgr("--expect", "1x2")
    proxy = await stage.proxy(0, mgr)
    await stage.workers(proxy.address, "Worker/0/0")
    output = await stage.unread(proxy.address, "Worker/0/1", inbox=4)
    async with Node(NodeConfig.agent(server_rank=9, upstream=proxy.address)) as sender:
        await sender.joined(20.0)
        while (await sender.send("x" * 10_000, to="Worker/0/1")).ok:
            pass
        await sender.withdraw(5.0)
    await stage.show("inbox/send", "send", "Worker/0/1", "step 100", "--upstream", proxy.address, until="5001")
    await stage.show("inbox/tree", "tree", "--at", mgr, until="INBOX FULL")
    await stage.show("inbox/ping", "ping", "Worker/0/1", "--count", 2, "--interval", 0.1, "--at", mgr)
    await stage.show("inbox/top", "top", "--by", "inbox", "--role", "worker", "--count", 1, "--at", mgr)

    loop = asyncio.get_running_loop()
    loop.add_reader(output, os.read, output, 65536)
    await stage.show("inbox/after", "send", "Worker/0/1", "step 101", "--upstream", proxy.address, until="0 OK")
    loop.remove_reader(output)


SITUATIONS: Final[Mapping[str, Situation]] = {
    "never-joined": never_joined,
    "frozen": frozen_worker,
    "upstream": wrong_upstream,
    "certificate": expired_certificate,
    "inbox": full_inbox,
}
