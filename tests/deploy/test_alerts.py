"""The alert rules: every expression reads an exported metric, and every alert has its unit tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.artefacts import DEPLOY
from tests.deploy.queries import NAMES, unknown
from tests.metrics import exported

UNIT_TESTS = Path(__file__).with_name("alerts.test.yml")


def alerts() -> dict[str, dict[str, Any]]:
    """The alerts, by name."""
    groups = yaml.safe_load((DEPLOY / "prometheus" / "taskd-net.rules.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    found = {rule["alert"]: rule for rule in rules}
    assert len(found) == len(rules)
    return found


async def test_every_expression_asks_for_what_is_exported() -> None:
    known = await exported()
    for name, rule in alerts().items():
        assert not unknown(rule["expr"], known), name
        assert re.findall(NAMES + r"|\bup\b", rule["expr"]), name


def test_every_alert_has_a_severity_and_says_what_to_do() -> None:
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        assert set(rule["annotations"]) == {"summary", "description"}, name


def test_every_alert_fires_once_in_its_unit_tests_and_stays_silent_once() -> None:
    cases = [case for test in yaml.safe_load(UNIT_TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == set(alerts())
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == set(alerts())


def test_every_alert_is_in_the_table_of_the_instructions() -> None:
    named = re.findall(r"`(TaskdNet\w+)`", (DEPLOY / "README.md").read_text())
    assert sorted(named) == sorted(alerts())


def test_scrape_example_names_the_rules_and_the_job_that_they_look_for() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert all((DEPLOY / "prometheus" / name).exists() for name in config["rule_files"])
    (scraped,) = config["scrape_configs"]
    (pattern,) = re.findall(r'up\{job=~"([^"]+)"\}', alerts()["TaskdNetScrapeFails"]["expr"])
    assert re.fullmatch(pattern, scraped["job_name"])
