"""The names of torch that this package uses, compared with the installed torch."""

from __future__ import annotations

import ast
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import HashStore, PrefixStore, distributed_c10d
from torch.distributed.elastic.agent.server import local_elastic_agent

import taskd_net.torch
from taskd_net.torch import seam
from taskd_net.torch.epoch_group import EpochGroup

pytestmark = pytest.mark.torch_range

OTHERS: dict[str, Any] = {"create_healthcheck_server": lambda: None, "watchdog": lambda: None}
FOLDER = Path(taskd_net.torch.__file__).parent
LAUNCH = "torch.distributed.launcher.api:launch_agent"
OLD, NEW = "config entrypoint args", "config entrypoint args health_check_server"


def test_installed_torch_is_checked() -> None:
    seam.check(torchrun=True)
    assert ".".join(torch.__version__.split(".")[:2]) in seam.CHECKED


@pytest.mark.parametrize("version", ["1.13.0", "2.11.0", "2.16.0a0", "later"])
def test_other_versions_with_the_same_names_are_logged_once(version: str, caplog: pytest.LogCaptureFixture) -> None:
    seam._warn.cache_clear()
    seam.check(version)
    seam.check(version)
    assert [record.getMessage() for record in caplog.records] == [
        f'event=torch_unchecked version={version} checked="2.12, 2.13, 2.14, 2.15" level=warning'
    ]


def test_checked_versions_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    seam.check()
    assert not caplog.records


@pytest.mark.parametrize(
    ("version", "form", "fits"),
    [
        ("2.12.1", OLD, True),
        ("2.12.1", NEW, False),
        ("2.13.0", OLD, False),
        ("2.15.0", NEW, True),
        ("2.14.1", NEW, True),
        ("2.16.0", OLD, True),
        ("2.16.0", NEW, True),
        ("2.16.0", "config", False),
    ],
)
def test_form_has_to_be_that_of_the_version(
    version: str, form: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a version that was not checked, any known form will do."""
    release = ".".join(version.split(".")[:2])
    known = {name.path: name.parameters.get(release, name.parameters["2.13"]) for name in seam.NAMES}
    monkeypatch.setattr(seam, "_parameters", {**known, LAUNCH: form}.__getitem__)
    if fits:
        seam.check(version)
    else:
        with pytest.raises(seam.UnsupportedTorch, match=rf"launch_agent of torch {version} has .*\({form}\); expected"):
            seam.check(version)


def test_function_of_another_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_elastic_agent, "start_processes", lambda name, command: None)
    with pytest.raises(
        seam.UnsupportedTorch, match=r"start_processes .* has the parameters \(name command\); expected"
    ):
        seam.check()


def test_function_that_is_gone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(local_elastic_agent.LocalElasticAgent, "_monitor_workers")
    monkeypatch.delattr(local_elastic_agent.SimpleElasticAgent, "_monitor_workers")
    with pytest.raises(seam.UnsupportedTorch, match=r"_monitor_workers .*no such name"):
        seam.check()


def test_attribute_that_is_gone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_elastic_agent.LocalElasticAgent, "__init__", lambda self: None)
    with pytest.raises(seam.UnsupportedTorch, match=r"LocalElasticAgent .* has no _pcontext, _logs_specs"):
        seam.check()


def test_member_that_is_gone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(distributed_c10d.ProcessGroupGloo, "create_default_device")
    with pytest.raises(seam.UnsupportedTorch, match=r"ProcessGroupGloo of torch .* has no create_default_device"):
        seam.check()


@pytest.mark.parametrize(
    ("declared", "parameters"),
    [
        ("timeout: datetime.timedelta = datetime.timedelta(seconds=1800)", "self store rank size timeout"),
        ("timeout: datetime.timedelta, more: bool = False", "self store rank size timeout more"),
    ],
)
def test_constructor_that_is_not_in_python_has_its_parameters_in_its_text(
    declared: str, parameters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Descriptor:
        __doc__ = f"""__init__(*args, **kwargs)
Overloaded function.

1. __init__(self: Gloo, store: Store, rank: typing.SupportsInt, size: typing.SupportsInt, options: Options) -> None

2. __init__(self: Gloo, store: Store, rank: typing.SupportsInt, size: typing.SupportsInt, {declared}) -> None
"""

        def __get__(self, instance: object, owner: type) -> Descriptor:
            return self

        def __call__(self) -> None:
            """As a function that is not in Python."""

    monkeypatch.setattr(distributed_c10d.ProcessGroupGloo, "__init__", Descriptor())
    assert seam._parameters(f"{seam.GROUPS}:ProcessGroupGloo.__init__") == parameters


def test_constructor_with_other_parameters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(self: object, store: object, rank: int, size: int, options: object) -> None:
        """A form of a later torch, perhaps."""

    monkeypatch.setattr(distributed_c10d.ProcessGroupGloo, "__init__", make)
    with pytest.raises(seam.UnsupportedTorch, match=r"ProcessGroupGloo.__init__ .*\(self store rank size options\)"):
        seam.check()


def test_names_are_found_also_while_an_epoch_replaces_the_constructor() -> None:
    with EpochGroup().joined(PrefixStore("epoch", HashStore()), 0, 1, backend="gloo"):
        seam.check()


def test_every_name_has_a_reason() -> None:
    for name in seam.NAMES:
        assert name.reason and name.parameters.keys() == set(seam.CHECKED), name.path
    assert all(each.reason and each.names for each in (*seam.ATTRIBUTES, *seam.MEMBERS))
    paths = [name.path for name in seam.NAMES]
    assert len(paths) == len(set(paths))


def test_private_names_are_in_the_list() -> None:
    """Each `_name` that a module takes from torch's classes. The start program knows no torch."""
    known = {part for name in seam.NAMES for part in name.path.replace(":", ".").split(".")}
    known |= {name for each in (*seam.ATTRIBUTES, *seam.MEMBERS) for name in each.names}
    for path in FOLDER.glob("*.py"):
        if path.name == "start.py":
            continue
        tree = ast.parse(path.read_text())
        own = {
            node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }
        own |= {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_")}
        dunder = {name for name in used if name.startswith("__")}
        assert used - own - dunder <= known, path.name


def test_name_is_replaced_in_one_thread_and_one_block() -> None:
    original = local_elastic_agent.start_processes
    seen: list[object] = []
    with seam.replaced(start_processes=lambda **named: named, **OTHERS):
        assert local_elastic_agent.start_processes(name="ours") == {"name": "ours"}

        def other() -> None:
            try:
                local_elastic_agent.start_processes()
            except TypeError as error:  # torch's own misses its arguments
                seen.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "required positional argument" in str(seen[0])
    assert local_elastic_agent.start_processes is original
    with pytest.raises(ZeroDivisionError), seam.replaced(start_processes=lambda: None, **OTHERS):
        raise ZeroDivisionError
    assert local_elastic_agent.start_processes is original
