"""The alerts and the dashboard under Prometheus itself, which `make alerts` unpacks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.processes import Daemon
from tests.deploy.artefacts import DEPLOY
from tests.deploy.test_alerts import UNIT_TESTS, alerts
from tests.deploy.test_grafana import queries
from tests.peers.mesh import soon
from tests.polling import asked_until
from tests.ports import free_port

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(180)]

RULES = DEPLOY / "prometheus" / "taskd-net.rules.yml"
PATIENCE_S = 60.0
"""Seconds until Prometheus has scraped and evaluated, once a second each, on a busy machine."""


def promtool(*arguments: object) -> tuple[int, str]:
    """The exit code of `promtool`, and all that it prints."""
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_rules_and_scrape_example_are_valid() -> None:
    assert promtool("check", "rules", RULES)[0] == 0
    assert promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")[0] == 0


def test_unit_tests_of_the_alerts_pass() -> None:
    code, printed = promtool("test", "rules", UNIT_TESTS)
    assert code == 0, printed


@pytest.mark.parametrize("expression", ["vector(1) == 0", "vector(1)"], ids=["silent", "firing"])
def test_unit_tests_find_each_alert_that_never_or_always_fires(expression: str, tmp_path: Path) -> None:
    broken = [{"alert": name, "expr": expression} for name in alerts()]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "broken", "rules": broken}]}))
    tests = yaml.safe_load(UNIT_TESTS.read_text()) | {"rule_files": ["rules.yml"]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(tests))
    code, printed = promtool("test", "rules", tmp_path / "test.yml")
    assert code == 1
    assert set(re.findall(r"alertname: ?(\w+)", printed)) == set(alerts())


class Prometheus:
    """One Prometheus with the rules of `deploy/`, without their waits, and the scrape example for these targets."""

    def __init__(self, folder: Path, targets: list[str]) -> None:
        self._folder = folder
        self._url = f"http://127.0.0.1:{free_port()}"
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"}
        config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
        rules = yaml.safe_load(RULES.read_text())
        for group in rules["groups"]:
            for rule in group["rules"]:
                rule.pop("for", None)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        (folder / RULES.name).write_text(yaml.safe_dump(rules))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it meanwhile."""
        process = await asyncio.create_subprocess_exec(
            "prometheus",
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={self._url.removeprefix('http://')}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            yield
            assert process.returncode is None
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await soon(process.wait(), PATIENCE_S)

    async def ask(self, path: str, **parameters: str) -> Any:
        """The answer of its API; None while it does not listen."""
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"

        def read() -> Any:
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - its own address
                    return json.load(answer)["data"]
            except urllib.error.HTTPError as error:
                if error.code == 503:
                    return None
                raise AssertionError(error.read().decode()) from error
            except urllib.error.URLError:
                return None

        return await asyncio.to_thread(read)

    async def up(self, targets: int) -> bool:
        """True once as many targets answer their scrapes."""
        found = await self.ask("targets")
        return bool(found) and [target["health"] for target in found["activeTargets"]] == ["up"] * targets

    async def firing(self) -> set[str]:
        """The alerts that fire."""
        found = await self.ask("alerts")
        return {alert["labels"]["alertname"] for alert in found["alerts"] if alert["state"] == "firing"}


async def test_alerts_of_a_mesh_that_loses_a_node(tmp_path: Path) -> None:
    logged = ("--metrics-port", "127.0.0.1:0", "--log-std-level", "INFO")
    async with contextlib.AsyncExitStack() as stack:

        async def daemon(name: str, *arguments: str) -> tuple[Daemon, str]:
            started = await stack.enter_async_context(Daemon(name, *logged, *arguments, logs=tmp_path / name))
            return started, (await started.said(r"metrics_listening.*?address=(\S+)"))[1]

        mgr, mgr_metrics = await daemon("mgr", "--expect", "1x0")
        proxy, proxy_metrics = await daemon("proxy", "--server-rank", "0", "--upstream", mgr.address)
        prometheus = Prometheus(tmp_path, [mgr_metrics, proxy_metrics])
        await stack.enter_async_context(prometheus.running())
        assert await asked_until(lambda: prometheus.up(2), PATIENCE_S)

        async def evaluated() -> bool:
            groups = (await prometheus.ask("rules"))["groups"]
            return all(rule["health"] == "ok" for group in groups for rule in group["rules"])

        assert await asked_until(evaluated, PATIENCE_S)
        assert await prometheus.firing() == set()

        # Prometheus takes each query of the dashboard.
        for title, query in queries():
            if not query.startswith("label_values"):
                given = query.replace("$__rate_interval", "1m").replace("$job", ".*")
                assert (await prometheus.ask("query", query=given))["resultType"] == "vector", title
        nodes = (await prometheus.ask("query", query="taskd_net_node"))["result"]
        assert {node["metric"]["position"] for node in nodes} == {"Mgr/0", "Proxy/0"}

        proxy.signal(signal.SIGKILL)

        async def noticed() -> bool:
            return await prometheus.firing() >= {"TaskdNetScrapeFails", "TaskdNetNodesAway"}

        assert await asked_until(noticed, PATIENCE_S)
