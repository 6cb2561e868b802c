"""Options of click made from settings: what shells complete, and one line of help."""

from __future__ import annotations

import pytest
from click.shell_completion import CompletionItem, ShellComplete

from taskd_net.cli.group import group
from taskd_net.cli.settings import COMMANDS


def completed(*arguments: str, incomplete: str = "") -> list[CompletionItem]:
    """The answer of `taskd-net` to a shell that completes a word."""
    return ShellComplete(group, {}, "taskd-net", "_TASKD_NET_COMPLETE").get_completions(list(arguments), incomplete)


def test_shells_complete_flags_words_files_and_folders() -> None:
    assert [item.value for item in completed("mgr", incomplete="--ack")] == ["--ack-timeout"]
    assert [item.value for item in completed("send", "--links")] == ["direct", "batched", "tasknet"]
    assert [item.value for item in completed("config", "mgr", "--identity", incomplete="c")] == ["certificate"]
    assert [(item.value, item.type) for item in completed("proxy", "--ca", incomplete="/e")] == [("/e", "file")]
    assert [(item.value, item.type) for item in completed("proxy", "--log-path", incomplete="/v")] == [("/v", "dir")]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_the_first_sentence_without_links(command: str) -> None:
    for option in COMMANDS[command]:
        assert option.help is not None
        assert option.setting.about.startswith(option.help.removesuffix("."))
        assert "](" not in option.help and len(option.help) <= 110, option.help


def test_a_switch_has_two_flags_and_a_value_has_one() -> None:
    flags = {option.name: (*option.opts, *option.secondary_opts) for option in COMMANDS["mgr"]}
    assert flags["log_stdout"] == ("--log-stdout", "--no-log-stdout")
    assert flags["ack_timeout"] == ("--ack-timeout",)
