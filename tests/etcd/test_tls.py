"""A real etcd with TLS and users: the Manager that may, and one clear line for each that may not."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.cli.authority import Authority
from tests.cli.processes import Daemon, run
from tests.etcd.certificates import Pems
from tests.etcd.server import ETCD, WHY_NOT, Member, etcd_server
from tests.manager.cluster import Leaf
from tests.peers.certificates import Folder
from tests.polling import until
from tests.ports import free_port

pytestmark = pytest.mark.skipif(ETCD is None, reason=WHY_NOT)

USER, NOBODY = "manager-of-j", "somebody"

JOINED = re.compile(r"\] joined .*upstream=(\S+)")


class Guarded(NamedTuple):
    """An etcd that asks for certificates, and the authority that it trusts."""

    member: Member
    authority: Authority
    folder: Path

    def files(self, holder: str) -> Pems:
        """The files of a user of etcd."""
        return Pems(self.folder / holder, self.authority, holder)

    def manager(self, files: Pems) -> tuple[str, ...]:
        """The arguments of a Mgr."""
        tls = ("--state-ca", files.ca, "--state-key", files.key, "--state-crt", files.crt)
        return ("mgr", "--job-id", "J", "--state", f"etcd://{self.member.address}/taskd/J", *tls)

    async def refusal(self, files: Pems, *more: str) -> str:
        """The line with which a Mgr ends at its start."""
        log = ("--log-path", str(self.folder / "log"), "--listen", "127.0.0.1:0")
        code, output, errors = await run(*self.manager(files), *log, *more)
        assert (code, output) == (1, "")
        (line,) = (line for line in errors.splitlines() if "state" in line)
        return line


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    """One member with users, started again with TLS."""
    authority = Authority.new("etcd's CA", timedelta(days=1))
    async with etcd_server(tmp_path / "etcd") as member:
        await member.require_users("taskd/J", entitled=USER, others=(NOBODY,))
        await member.kill()
        files = Pems(tmp_path / "server", authority, "etcd")
        member.tls = {"cert-file": files.crt, "key-file": files.key, "trusted-ca-file": files.ca}
        member.tls["client-cert-auth"] = "true"
        await member.again()
        await member.ready()
        yield Guarded(member, authority, tmp_path)


async def test_manager_with_the_certificate_of_an_entitled_user_leads(guarded: Guarded, tmp_path: Path) -> None:
    async with Daemon(*guarded.manager(guarded.files(USER)), logs=tmp_path / "log") as mgr:
        code, output, _ = await run("job", "--at", mgr.address, "--json")
        assert code == 0 and json.loads(output)["leader"]["name"] == mgr.address


@pytest.mark.timeout(150)
async def test_all_links_have_tls_through_fail_overs(guarded: Guarded, tmp_path: Path) -> None:
    """Each Mgr has a certificate of its own, which names its own address: the Proxy checks it at each of them."""
    authority, hosts, port = Authority.new("the job's CA", timedelta(days=1)), ("127.0.0.1", "127.0.0.3"), free_port()
    addresses = [f"{host}:{port}" for host in hosts]
    folders = {host: Folder(tmp_path / f"of {host}", authority) for host in hosts}
    node, state = Folder(tmp_path / "node", authority), guarded.files(USER)

    def mgr(host: str) -> Daemon:
        files = folders[host]
        tls = ("--ca", files.ca, "--server-key", files.key, "--server-crt", files.crt)
        return Daemon(*guarded.manager(state), "--listen", f"{host}:{port}", *tls, logs=tmp_path / host)

    for host in hosts:
        folders[host].issue(hosts=(host,))
    client = ("--client-key", node.key, "--client-crt", node.crt)
    tls = ("--ca", node.ca, "--server-key", node.key, "--server-crt", node.crt, *client)
    async with AsyncExitStack() as stack:
        running = [await stack.enter_async_context(mgr(host)) for host in hosts]
        upstream = ("--upstream", ",".join(reversed(addresses)))
        proxy = await stack.enter_async_context(Daemon("proxy", *upstream, *tls, logs=tmp_path / "proxy"))
        config = NodeConfig.agent(server_rank=0, upstream=proxy.address, tls=node.connecting())
        agent = Leaf(await stack.enter_async_context(Node(config)))
        terms = []
        for leads, number in ((0, signal.SIGKILL), (1, signal.SIGTERM), (0, None)):
            await agent.register()
            command = await agent.command()
            terms.append(int(command.extension["Term"]))
            assert command.code == 210
            await until(lambda at=addresses[leads]: JOINED.findall(proxy.errors)[-1:] == [at])  # type: ignore[misc]
            code, output, errors = await run("job", "--at", addresses[leads], "--ca", node.ca, *client, "--json")
            assert code == 0 and json.loads(output)["leader"]["name"] == addresses[leads], errors
            code, _, errors = await run("job", "--at", addresses[leads])
            assert code != 0 and "plain text" in errors, errors
            if number is not None:
                running[leads].signal(number)
                await running[leads].exit_code()
                await running[1 - leads].said(r"\] leads ")
                running[leads] = await stack.enter_async_context(mgr(hosts[leads]))
        assert terms == sorted(set(terms))


async def test_each_other_one_is_refused_with_one_line(guarded: Guarded) -> None:
    stranger = Authority.new("another CA", timedelta(days=1))
    place = f"state is 'etcd://{guarded.member.address}/taskd/J'"
    for holder in (NOBODY, "unknown"):
        line = await guarded.refusal(guarded.files(holder))
        assert line.startswith(f"Error: {place}; expected an etcd user with rights below the prefix, but "), line
    # Everything is of another authority: etcd's certificate is not of the CA.
    line = await guarded.refusal(Pems(guarded.folder / "stranger", stranger, USER))
    assert place in line and "etcd's certificate is refused: " in line, line
    # The certificate alone is of another one, which etcd does not trust.
    line = await guarded.refusal(Pems(guarded.folder / "half", stranger, USER, (stranger, guarded.authority)))
    assert place in line and "etcd hung up: it may not accept the certificate of this node" in line, line
    # The CA and the certificate have nothing to do with each other.
    line = await guarded.refusal(Pems(guarded.folder / "torn", guarded.authority, USER, (stranger,)))
    assert line.startswith("Error: state_crt is ") and "has signed" in line, line


async def test_certificate_that_is_not_given_is_said(guarded: Guarded) -> None:
    files = guarded.files(USER)
    state = ("--job-id", "J", "--state", f"etcd://{guarded.member.address}/taskd/J")
    code, _, errors = await run("mgr", "--listen", "127.0.0.1:0", *state, "--state-ca", files.ca)
    assert code == 1 and "state_key is missing; expected state_ca, state_key and state_crt together" in errors
    log = ("--log-path", str(guarded.folder / "log"))
    code, _, errors = await run("mgr", "--listen", "127.0.0.1:0", *log, *state)
    assert code == 1 and "etcd speaks TLS and this node plain text" in errors
