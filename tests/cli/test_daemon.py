"""The daemons as processes: ready, logging, SIGHUP, how they end, and what systemd hears of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from taskd_net import Code
from taskd_net.cli.daemon import in_thread
from tests.cli.processes import Command, Daemon, heard, run, service_manager
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, soon
from tests.peers.slow import SlowChild
from tests.ports import free_address

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]

TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process, beside those in others."""
    async with Mesh() as mesh:
        yield mesh


def files_in(folder: Path) -> list[str]:
    """The names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())


def events_in(log: Path) -> list[str]:
    """The events in a log file."""
    return [json.loads(line)["event"] for line in log.read_text().splitlines()]


async def test_a_mgr_of_several_nodes_that_only_its_machine_reaches_says_so(tmp_path: Path) -> None:
    async with Daemon("mgr", "--expect", "2x2", logs=tmp_path) as mgr:
        await mgr.said(r"listens_on_loopback .*2x2 are expected, and only nodes on this machine reach it")
    async with Daemon("mgr", "--expect", "1x2", logs=tmp_path / "one") as mgr:
        mgr.signal(TERM)
        assert await mgr.exit_code() == 0 and "listens_on_loopback" not in await mgr.rest()


async def test_ready_lines_joining_logs_and_a_clean_end(tmp_path: Path) -> None:
    async with Daemon("mgr", logs=tmp_path) as mgr:
        assert re.fullmatch(r"taskd-net mgr Mgr/0 ready, listening on 127\.0\.0\.1:\d+", mgr.ready)
        settings = {"RANK": "3", "TASKD_NET_UPSTREAM": mgr.address}
        async with Daemon("proxy", "--links", "tasknet", logs=tmp_path, env=settings) as proxy:
            ready = r"taskd-net proxy Proxy/3 ready, listening on 127\.0\.0\.1:\d+, upstream " + re.escape(mgr.address)
            assert re.fullmatch(ready, proxy.ready)
            await proxy.said(r" joined .*link=tasknet node=Proxy/3")
            proxy.signal(TERM)
            assert (await proxy.rest(), await proxy.exit_code()) == ("", 0)
        mgr.signal(INT)
        assert (await mgr.rest(), await mgr.exit_code()) == ("", 0)
    for name in ("manager.log", "taskd-proxy-3.log"):
        events = events_in(tmp_path / name)
        assert (events[0], events[-2:]) == ("listening", ["draining", "closed"])


async def test_proxy_is_ready_before_its_upstream_is_there(tmp_path: Path) -> None:
    nowhere = free_address()
    async with Daemon("proxy", "--upstream", nowhere, logs=tmp_path) as proxy:
        await proxy.said("join_failed")
        async with Daemon("mgr", "--listen", nowhere, logs=tmp_path):
            await proxy.said(" joined ")
            proxy.signal(TERM)
            assert await proxy.exit_code() == 0


async def test_what_is_sent_to_a_daemon_is_printed(mesh: Mesh, tmp_path: Path) -> None:
    mgr = await mesh.mgr()
    async with Daemon("proxy", "--upstream", mgr.address, logs=tmp_path) as proxy:
        await mesh.logged("child_joined")
        assert (await mgr.send("two\nlines, é", to="Proxy/0", mtype="STATUS")).ok
        message = json.loads(await proxy.line())
        assert (message["src"], message["dst"], message["mtype"]) == ("Mgr/0", "Proxy/0", "STATUS")
        assert (message["body"], message["sync"]) == ("two\nlines, é", True)


async def test_daemon_whose_output_nobody_reads_goes_on_and_acknowledges_nothing(mesh: Mesh, tmp_path: Path) -> None:
    """`taskd-net proxy | head -1`, as scripts do that wait for the line."""
    mgr = await mesh.mgr()
    reading, writing = os.pipe()
    arguments = ("proxy", "--listen", "127.0.0.1:0", "--log-path", tmp_path, "--upstream", mgr.address)
    async with Command(*arguments, stdout=writing) as proxy:
        os.close(writing)
        await mesh.logged("child_joined")
        os.close(reading)
        await proxy.said("output_closed")
        ack = await mgr.send("x", to="Proxy/0")
        assert (ack.code, str(ack.src)) == (Code.RECV_BUF_NIL, "Proxy/0")
        proxy.signal(TERM)
        assert await proxy.exit_code() == 0
        assert "Traceback" not in proxy.errors


async def test_address_in_use(mesh: Mesh, tmp_path: Path) -> None:
    mgr = await mesh.mgr(job_id="a")
    code, output, errors = await run("mgr", "--listen", mgr.address, "--log-path", tmp_path)
    text = f"Error: cannot listen on {mgr.address}: in use, or not an address of this machine"
    assert (code, output) == (1, "")
    assert errors.endswith(f"{text}. Found there: Mgr/0 of job 'a'\n")
    assert "Traceback" not in errors


async def test_address_in_use_by_a_process_that_is_no_node(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, errors = await run("mgr", "--listen", address, "--log-path", tmp_path)
    assert code == 1 and errors.endswith(f"cannot listen on {address}: in use, or not an address of this machine\n")


@pytest.mark.parametrize("setting", ["http_port", "metrics_port"])
async def test_side_port_in_use_is_said_before_it_listens(tmp_path: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flag = f"--{setting.replace('_', '-')}"
        code, output, errors = await run("mgr", "--listen", "127.0.0.1:0", "--log-path", tmp_path, flag, port)
    text = f"Error: {setting} is 127.0.0.1:{port}; cannot listen there: Address already in use (from {flag})\n"
    assert (code, output) == (1, "")
    assert errors.endswith(text)
    assert "listening" not in errors


@pytest.mark.parametrize("quiet", [(), ("--no-log-stdout",)])
async def test_log_folder_that_cannot_be_written_is_a_warning(tmp_path: Path, quiet: tuple[str, ...]) -> None:
    file = tmp_path / "file"
    file.touch()
    async with Daemon("proxy", "--upstream", "127.0.0.1:1", *quiet, logs=file) as proxy:
        reason = f"log_path is '{file}'; expected a folder in which taskd-proxy-0.log can be written: File exists"
        await proxy.said(rf"no_log_file .*{re.escape(reason)} \(from --log-path\)")
        await proxy.said("listening ")
        proxy.signal(signal.SIGTERM)
        assert await proxy.exit_code() == 0


async def test_log_file_may_be_named_and_may_be_none(tmp_path: Path) -> None:
    for name, files in (("none", []), ("own.log", ["own.log"])):
        async with Daemon("mgr", "--log-file", name, logs=tmp_path) as mgr:
            await mgr.said("listening ")
            mgr.signal(signal.SIGTERM)
            assert await mgr.exit_code() == 0
        assert files_in(tmp_path) == files
    assert "listening" in events_in(tmp_path / "own.log")


async def test_wrong_setting_of_a_process_is_one_line(tmp_path: Path) -> None:
    text = "Error: grace is 'x'; expected a number of seconds (from the environment variable TASKD_NET_GRACE)\n"
    assert await run("proxy", env={"TASKD_NET_GRACE": "x"}) == (2, "", text)


@pytest.mark.parametrize(
    "wrong",
    [
        "log_path = 'a%sb'",
        "ca = 'a%sb'\nserver_key = 'x'\nserver_crt = 'y'",
        "http_port = '%s:1'",
        "metrics_port = 'a%sb:1'",
        "plain_listen = '%s:1'",
        "expect = '%s'",
    ],
)
async def test_nul_in_a_setting_is_one_line(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "taskd-net.toml"
    file.write_text((wrong % "\\u0000").replace("'", '"'))
    name = wrong.partition(" ")[0]
    env = {} if name == "log_path" else {"TASKD_LOG_PATH": str(tmp_path)}  # which counts before the file
    code, output, errors = await run("mgr", "--listen", "127.0.0.1:0", "--config", file, env=env)
    assert code in (1, 2) and "ready" not in output
    assert re.search(rf"^Error: {name} is .*\\x00.*\n\Z", errors, re.MULTILINE), errors


async def test_message_under_way_is_answered_before_the_end(mesh: Mesh, tmp_path: Path) -> None:
    mgr = await mesh.mgr(ack_timeout=30.0)
    proxy = Daemon("proxy", "--upstream", mgr.address, "--drain", 30, "--ack-timeout", 30, logs=tmp_path)
    async with proxy, SlowChild("Worker/0/0") as slow:
        await proxy.said(" joined ")
        await slow.join(proxy.address)
        sending = asyncio.create_task(mgr.send("slow", to="Worker/0/0", timeout=30.0))
        await soon(slow.asked.wait())
        proxy.signal(TERM)
        await proxy.said("draining")
        ack = await mgr.send("late", to="Worker/0/0")
        assert (ack.code, str(ack.src)) == (Code.RECV_BUF_BUSY, "Proxy/0")
        assert not sending.done()
        slow.answers.set()
        assert (await soon(sending)).ok
        assert await proxy.exit_code() == 0


async def test_end_under_load_keeps_every_promise(mesh: Mesh, tmp_path: Path) -> None:
    """A message answered with 0 has arrived once, and no other has: all received ones were answered."""
    mgr = await mesh.mgr(inbox=100_000)
    async with Daemon("proxy", "--upstream", mgr.address, logs=tmp_path) as proxy:
        await proxy.said(" joined ")
        worker = await mesh.worker(0, 0, proxy.address)
        codes: dict[str, int] = {}

        async def send(sender: int) -> None:
            while not mesh.count("upstream_lost", node=worker.position):
                body = f"{len(codes)} of {sender}"
                codes[body] = (await worker.send(body, to="Mgr", timeout=1.0)).code

        sending = [asyncio.create_task(send(sender)) for sender in range(50)]
        await mesh.until(lambda: mgr.statistics.delivered >= 500)
        proxy.signal(TERM)
        assert await proxy.exit_code() == 0
        await asyncio.gather(*sending)
    arrived = await mgr.take_all(mgr.waiting())
    assert sorted(arrived) == sorted(body for body, code in codes.items() if code == Code.OK)


@pytest.mark.parametrize("name", ["mgr", "proxy"])
async def test_calls_that_had_arrived_are_answered_before_the_end(name: str, mesh: Mesh, tmp_path: Path) -> None:
    """Over the four calls nobody is left without an answer: what gRPC had not handed over is taken in, too."""
    mgr = await mesh.mgr(inbox=10_000)
    settings = ("--inbox", 10_000) if name == "mgr" else ("--upstream", mgr.address)
    async with Daemon(name, *settings, logs=tmp_path) as daemon, RawChild("Worker/0/0") as child:
        if name == "proxy":
            await daemon.said(" joined ")
        await child.join(daemon.address)
        sending = [asyncio.ensure_future(child.send("Mgr/0", str(number))) for number in range(500)]
        await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
        daemon.signal(TERM)
        # An answer for each, or this raises: those that were sent after the signal may be refused.
        codes = [ack.code for ack in await soon(asyncio.gather(*sending))]
        assert set(codes) <= {Code.OK, Code.RECV_BUF_NIL, Code.RECV_BUF_BUSY}
        assert await daemon.exit_code() == 0
        printed = [json.loads(line)["body"] for line in (await daemon.rest()).splitlines()]
    taken = [str(number) for number, code in enumerate(codes) if code == Code.OK]
    assert len(taken) > 1
    arrived = printed if name == "mgr" else await mgr.take_all(len(taken))
    assert sorted(arrived) == sorted(taken)


async def test_child_that_goes_on_calling_is_no_backlog(tmp_path: Path) -> None:
    """It hears of the end after some calls, and its node leaves after some further ones."""
    async with Daemon("mgr", logs=tmp_path) as mgr, RawChild("Proxy/3") as child:
        await child.join(mgr.address)
        mgr.signal(TERM)
        codes = []
        with contextlib.suppress(grpc.aio.AioRpcError):  # until the Mgr has left
            while True:
                codes.append((await child.send("Mgr/0", sync=False)).code)
                await asyncio.sleep(0.005)
        assert codes == sorted(codes) and set(codes) == {Code.OK, Code.RECV_BUF_NIL}
        # 200 ms and 50 ms of looks. Pauses between calls alone ended the wait after 500 calls, twice.
        assert len(codes) < 400
        assert await mgr.exit_code() == 0


async def test_end_is_bounded_when_the_receiver_never_answers(mesh: Mesh, tmp_path: Path) -> None:
    mgr = await mesh.mgr(ack_timeout=60.0)
    proxy = Daemon("proxy", "--upstream", mgr.address, "--drain", 0.3, "--ack-timeout", 60, logs=tmp_path)
    async with proxy, SlowChild("Worker/0/0") as mute:
        await proxy.said(" joined ")
        await mute.join(proxy.address)
        sending = asyncio.create_task(mgr.send("x", to="Worker/0/0", timeout=60.0))
        await soon(mute.asked.wait())
        began = time.monotonic()
        proxy.signal(TERM)
        assert await proxy.exit_code() == 0
        assert 0.3 <= time.monotonic() - began < 5.0
        await proxy.said("drain_incomplete")
        assert (await soon(sending)).code == Code.NETWORK_ACK_LOST


@pytest.mark.parametrize(("second", "code"), [(TERM, 143), (INT, 130)])
async def test_second_signal_ends_it_at_once(mesh: Mesh, tmp_path: Path, second: signal.Signals, code: int) -> None:
    mgr = await mesh.mgr(ack_timeout=60.0)
    proxy = Daemon("proxy", "--upstream", mgr.address, "--drain", 60, "--ack-timeout", 60, logs=tmp_path)
    async with proxy, SlowChild("Worker/0/0") as mute:
        await proxy.said(" joined ")
        await mute.join(proxy.address)
        sending = asyncio.create_task(mgr.send("x", to="Worker/0/0", timeout=60.0))
        await soon(mute.asked.wait())
        proxy.signal(TERM)
        await proxy.said("draining")
        proxy.signal(second)
        assert await proxy.exit_code() == code
        assert (await soon(sending)).code == Code.NETWORK_ACK_LOST


async def test_daemon_whose_log_disk_is_full_goes_on_and_ends_well(mesh: Mesh, tmp_path: Path) -> None:
    (tmp_path / "manager.log").symlink_to("/dev/full")
    async with Daemon("mgr", logs=tmp_path) as mgr:
        worker = await mesh.worker(0, 0, mgr.address)
        await mgr.said("child_joined")
        assert (await worker.send("x", to="Mgr")).ok
        assert json.loads(await mgr.line())["body"] == "x"
        mgr.signal(HUP)
        await mgr.said(" reloaded ")
        mgr.signal(TERM)
        assert await mgr.exit_code() == 0
        # Once for the log of the start, and once for the one that SIGHUP opened anew.
        assert mgr.errors.count("log_file_failed") == 2
        assert "No space left on device" in mgr.errors and "Traceback" not in mgr.errors


async def test_daemon_whose_output_has_no_room_keeps_what_it_got(mesh: Mesh, tmp_path: Path) -> None:
    mgr = await mesh.mgr()
    arguments = ("proxy", "--inbox", 2, "--listen", "127.0.0.1:0", "--log-path", tmp_path, "--upstream", mgr.address)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        async with Command(*arguments, stdout=full) as proxy:
            await proxy.said("output_full")
            await mesh.logged("child_joined")
            for _ in range(2):
                assert (await mgr.send("x", to="Proxy/0")).ok
            assert (await mgr.send("x", to="Proxy/0")).code == Code.RECV_BUF_BUSY
            proxy.signal(TERM)
            assert await proxy.exit_code() == 0
            assert proxy.errors.count("output_full") == 1
            assert "output_incomplete" in proxy.errors and "Traceback" not in proxy.errors
    finally:
        os.close(full)


async def test_sighup_changes_what_can_be_changed_and_names_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "taskd-net.toml"
    file.write_text("log_std_level = 'WARNING'\n[mgr]\ngrace = 20\ninbox = 5")
    log = tmp_path / "log" / "manager.log"
    async with Daemon("mgr", "--inbox", 7, logs=log.parent, env={"TASKD_NET_CONFIG": str(file)}) as mgr:
        file.write_text("log_std_level = 'INFO'\ndrain = 2\n[mgr]\ngrace = 21\ninbox = 6")
        mgr.signal(HUP)
        # Before, nothing below WARNING was to be seen; --inbox counts before the file, so it has not changed.
        await mgr.said(r"reloaded .*changed=drain,log_std_level")
        await mgr.said(r"restart_needed .*settings=grace\n")
        assert "listening" not in mgr.errors
        file.write_text("grace = 'long'")
        mgr.signal(HUP)
        await mgr.said(r"reload_failed .*grace is 'long'; expected a number of seconds \(from the file .*\)")
        log.rename(log.with_suffix(".moved"))
        file.write_text("log_std_level = 'INFO'\ndrain = 2")
        mgr.signal(HUP)
        await mgr.said(r"(?s)reload_failed.*reloaded")
        mgr.signal(TERM)
        await mgr.said(r"draining .*seconds=2\.0")
        assert await mgr.exit_code() == 0
    assert events_in(log)[-2:] == ["draining", "closed"]


DEEP = "a = " + "[" * 100_000


@pytest.mark.parametrize("wrong", [DEEP, "drain = 0x" + "f" * 9000, "x" * 2_000_000, "drain = '\\u0000'"])
async def test_sighup_over_a_file_that_cannot_be_read_ends_like_any_other(tmp_path: Path, wrong: str) -> None:
    address, file = str(tmp_path / "notify"), tmp_path / "taskd-net.toml"
    file.touch()
    with service_manager(address) as manager:
        env = {"NOTIFY_SOCKET": address, "TASKD_NET_CONFIG": str(file)}
        async with Daemon("mgr", logs=tmp_path, env=env) as mgr:
            assert (await heard(manager))[0] == "READY=1"
            file.write_text(wrong)
            mgr.signal(HUP)
            assert (await heard(manager))[0] == "RELOADING=1"
            assert await heard(manager) == ["READY=1"]
            await mgr.said("reload_failed .*(TOML file|drain is)")
            mgr.signal(TERM)
            assert await mgr.exit_code() == 0


async def test_sighup_over_a_fifo_holds_up_nobody(mesh: Mesh, tmp_path: Path) -> None:
    address, file = str(tmp_path / "notify"), tmp_path / "taskd-net.toml"
    file.touch()
    with service_manager(address) as manager:
        env = {"NOTIFY_SOCKET": address, "TASKD_NET_CONFIG": str(file)}
        async with Daemon("mgr", logs=tmp_path, env=env) as mgr:
            assert (await heard(manager))[0] == "READY=1"
            worker = await mesh.worker(0, 0, mgr.address)
            file.unlink()
            os.mkfifo(file)
            mgr.signal(HUP)
            assert (await heard(manager))[0] == "RELOADING=1"
            # Meanwhile it serves; that its file is still being read, the missing READY=1 says.
            assert (await worker.send("x", to="Mgr")).ok
            assert (await worker.send("y", to="Mgr")).ok
            assert await heard(manager) == ["READY=1"]
            await mgr.said(r"reload_failed .*could not be read to its end within 5 s")
            file.unlink()
            file.write_text("drain = 3")
            mgr.signal(HUP)
            await mgr.said("reloaded .*changed=drain")
            assert [(await heard(manager))[0] for _ in range(2)] == ["RELOADING=1", "READY=1"]
            mgr.signal(TERM)
            assert await mgr.exit_code() == 0


async def test_reload_begins_as_soon_as_the_one_before_has_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the one before may still be about to end."""
    may_end = threading.Event()

    class Lingering(threading.Thread):
        def run(self) -> None:
            super().run()
            may_end.wait(60.0)

    monkeypatch.setattr(threading, "Thread", Lingering)
    try:
        assert [await in_thread(lambda: 5, 60.0, "reads") for _ in range(2)] == [5, 5]
    finally:
        may_end.set()
    for thread in threading.enumerate():
        if isinstance(thread, Lingering):
            thread.join()


async def test_signal_ends_a_daemon_that_is_reading_its_file(tmp_path: Path) -> None:
    file = tmp_path / "taskd-net.toml"
    file.touch()
    async with Daemon("mgr", logs=tmp_path, env={"TASKD_NET_CONFIG": str(file)}) as mgr:
        file.unlink()
        os.mkfifo(file)
        mgr.signal(HUP)
        mgr.signal(TERM)
        assert await mgr.exit_code() == 0
        assert "reload_failed" not in mgr.errors


@pytest.mark.parametrize("kind", ["path", "abstract"])
async def test_systemd_is_told(tmp_path: Path, kind: str) -> None:
    address = str(tmp_path / "notify") if kind == "path" else f"@taskd-net-test-{os.getpid()}"
    with service_manager(address) as manager:
        async with Daemon("mgr", logs=tmp_path, env={"NOTIFY_SOCKET": address}) as mgr:
            assert await heard(manager) == ["READY=1", f"STATUS={mgr.ready}"]
            mgr.signal(HUP)
            reloading, since = await heard(manager)
            assert reloading == "RELOADING=1"
            assert re.fullmatch(r"MONOTONIC_USEC=\d+", since)
            assert 0 <= time.monotonic_ns() // 1000 - int(since.partition("=")[2]) < 60_000_000
            assert await heard(manager) == ["READY=1"]
            mgr.signal(TERM)
            assert await heard(manager) == ["STOPPING=1"]
            assert await mgr.exit_code() == 0


async def test_watchdog_is_fed_by_the_loop(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    env = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "100000"}
    with service_manager(address) as manager:
        async with Daemon("mgr", logs=tmp_path, env=env):
            lines = [line for _ in range(5) for line in await heard(manager)]
    assert lines.count("WATCHDOG=1") == 4


async def test_service_manager_that_is_gone_costs_nothing_but_a_line(tmp_path: Path) -> None:
    async with Daemon("mgr", logs=tmp_path, env={"NOTIFY_SOCKET": str(tmp_path / "nobody")}) as mgr:
        await mgr.said("notify_failed .*No such file or directory")
        mgr.signal(TERM)
        assert await mgr.exit_code() == 0
