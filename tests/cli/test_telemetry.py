"""Tracing of commands: the spans of several processes make one trace, and go where OpenTelemetry's variables say."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from tests.cli.processes import Daemon, run

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]

CONSOLE = {"OTEL_TRACES_EXPORTER": "console", "TASKD_NET_TRACING": "true"}


def spans(output: str) -> dict[str, tuple[str, str | None, str]]:
    """The spans among what the SDK's exporter to the console has written: by node, trace, parent and own id."""
    found: dict[str, tuple[str, str | None, str]] = {}
    for text in re.findall(r"^\{\n.*?^\}", output, re.DOTALL | re.MULTILINE):
        span = json.loads(text)
        above = span["parent_id"]
        found[span["attributes"]["taskd_net.node"]] = span["context"]["trace_id"], above, span["context"]["span_id"]
    return found


async def test_spans_of_three_processes_are_one_trace(tmp_path: Path) -> None:
    async with (
        Daemon("mgr", logs=tmp_path, env=CONSOLE) as mgr,
        Daemon("proxy", "--upstream", mgr.address, "--server-rank", 3, logs=tmp_path, env=CONSOLE) as proxy,
    ):
        code, output, _ = await run(
            "send", "Proxy/3", "x", "--as", "Worker/0/0", "--upstream", mgr.address, "--timeout", 20, env=CONSOLE
        )
        assert code == 0, output
        seen = spans(output)
        for daemon in (proxy, mgr):
            daemon.signal(signal.SIGTERM)
            seen |= spans(await daemon.rest())
            assert await daemon.exit_code() == 0
    trace, above, first = seen["Worker/0/0"]
    assert above is None
    assert seen["Mgr/0"][:2] == (trace, first)
    assert seen["Proxy/3"][:2] == (trace, seen["Mgr/0"][2])


async def test_exporter_that_is_not_there(tmp_path: Path) -> None:
    for arguments in (("mgr", "--listen", "127.0.0.1:0", "--log-path", tmp_path), ("send", "Mgr", "x")):
        env = {"OTEL_TRACES_EXPORTER": "nowhere", "TASKD_NET_TRACING": "true"}
        code, output, errors = await run(*arguments, env=env)
        assert (code, output) == (2 if arguments[0] == "send" else 1, "")
        assert "OTEL_TRACES_EXPORTER is 'nowhere'; expected one that is installed: console" in errors


async def test_spans_that_go_nowhere_are_not_made_in_silence(tmp_path: Path) -> None:
    async with Daemon("mgr", "--tracing", logs=tmp_path) as mgr:
        await mgr.said("spans_discarded")
    async with Daemon("mgr", logs=tmp_path) as mgr:
        await mgr.said("listening")
        assert "spans_discarded" not in mgr.errors
