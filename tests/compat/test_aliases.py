"""Each name is an alias of the object in `taskd_net`, or code of this distribution, with the documented signature."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import tomllib
from collections.abc import Iterator
from typing import Final

import pytest

import mindx_elastic
import taskd
from taskd_net import __version__
from taskd_net.net.wire import recover_pb2
from tests.compat.environment import COMPAT

pytestmark = pytest.mark.oldest

CALLS: Final = {
    "worker": ["init_taskd_worker", "start_taskd_worker", "destroy_taskd_worker"],
    "agent": ["init_taskd_agent", "start_taskd_agent", "register_func"],
    "proxy": ["init_taskd_proxy", "destroy_taskd_proxy"],
    "manager": ["init_taskd_manager", "start_taskd_manager"],
}
RECOVER: Final = "taskd.python.toolkit.recover_module"
REPORTS: Final = [f"report_{what}" for what in ("stop_complete", "recover_strategy", "recover_status", "process_fault")]
VALIDATORS: Final = [
    f"{kind}Validator" for kind in ("", "Class", "String", "Int", "Map", "RankSize", "Directory", "File")
]

ALIASES: Final = {
    "taskd.api": {name: "taskd_net.job.api" for names in CALLS.values() for name in names},
    **{f"taskd.api.taskd_{role}_api": dict.fromkeys(names, "taskd_net.job.api") for role, names in CALLS.items()},
    RECOVER: {"DLRecoverManager": "taskd_net.job.clusterd"},
    f"{RECOVER}.recover_manager": {
        **dict.fromkeys(["DLRecoverManager", *REPORTS], "taskd_net.job.clusterd"),
        "init_grpc_client": "taskd_net.job.clusterd.launcher",
        "pb": "taskd_net.net.wire:recover_pb2",
    },
    f"{RECOVER}.pb.recover_pb2": dict.fromkeys(
        recover_pb2.DESCRIPTOR.message_types_by_name, "taskd_net.net.wire.recover_pb2"
    ),
    "taskd.python.framework.agent.ms_mgr.msrun_plugin": {"MSRunPlugin": "taskd_net.mindspore"},
    "taskd.python.framework.common.type": {
        "CONFIG_UPSTREAMIP_KEY": "taskd_net.job.arguments:UPSTREAM_ADDR",
        "LOCAL_HOST": "taskd_net.job.arguments:LOOPBACK",
    },
    "mindx_elastic.recover_manager": {
        **dict.fromkeys(REPORTS, "taskd_net.job.clusterd"),
        "pb": "taskd_net.job.clusterd:pb",
    },
}
"""For each module the module of its names, with the name there if it is another one."""

OWN: Final = {
    "taskd.python.adaptor.pytorch.group_info": ["dump_group_info"],
    f"{RECOVER}.pb.recover_pb2_grpc": ["RecoverStub", "RecoverServicer", "add_RecoverServicer_to_server"],
    "taskd.python.utils.log": ["run_log"],
    "taskd.python.utils.validator": VALIDATORS,
    "mindx_elastic": ["__version__"],
    "mindx_elastic.recover_manager": ["DLRecoverManager"],
    "mindx_elastic.reset_agent": ["ResetAgent", "patch_torch_methods"],
}
"""Modules with code of their own, which `taskd_net` has no use for, and the names of each."""

WITH_EFFECT: Final = {
    "taskd.python.adaptor.patch": "patches torch: tests/torch/test_documented_start.py",
    "mindx_elastic.api": "patches torch: tests/torch/test_elastic.py",
    "taskd.python.utils.log": "makes a file: tests/compat/test_imports.py",
}
"""Modules whose import does something, each with the place of its test."""

NEED_TORCH: Final = {"mindx_elastic.reset_agent"}
"""Modules that cannot be imported without torch: tests/torch/test_elastic.py."""

SIGNATURES: Final = {
    "taskd.api:init_taskd_worker": "(rank_id, upper_limit_of_disk_in_mb=5000, framework='pt')",
    "taskd.api:start_taskd_worker": "()",
    "taskd.api:destroy_taskd_worker": "()",
    "taskd.api:init_taskd_agent": "(config={}, cls=None)",
    "taskd.api:start_taskd_agent": "()",
    "taskd.api:register_func": "(operator, func)",
    "taskd.api:init_taskd_proxy": "(config)",
    "taskd.api:destroy_taskd_proxy": "()",
    "taskd.api:init_taskd_manager": "(config)",
    "taskd.api:start_taskd_manager": "()",
    f"{RECOVER}.recover_manager:DLRecoverManager": "(info, server_addr)",
    f"{RECOVER}.recover_manager:DLRecoverManager.register": "(self, request)",
    f"{RECOVER}.recover_manager:DLRecoverManager.start_subscribe": "(self, frame='pytorch')",
    f"{RECOVER}.recover_manager:DLRecoverManager.init_clusterd": "(self)",
    "taskd.python.adaptor.pytorch.group_info:dump_group_info": "()",
    "taskd.python.utils.validator:Validator": "(value, msg='')",
    "taskd.python.framework.agent.ms_mgr.msrun_plugin:MSRunPlugin": "()",
    "taskd.python.framework.agent.ms_mgr.msrun_plugin:MSRunPlugin.register_callbacks": "(self, operator, func)",
    "taskd.python.framework.agent.ms_mgr.msrun_plugin:MSRunPlugin.start": "(self)",
    "mindx_elastic.recover_manager:DLRecoverManager": "(info, server_addr, secure_conn=True, cert_path='')",
    "mindx_elastic.recover_manager:DLRecoverManager.register": "(self, request)",
    "mindx_elastic.recover_manager:DLRecoverManager.start_subscribe": "(self)",
    "mindx_elastic.recover_manager:DLRecoverManager.init_clusterd": "(self)",
    **{
        f"{module}.recover_manager:{name}": parameters
        for module in (RECOVER, "mindx_elastic")
        for name, parameters in {
            "report_stop_complete": "(code, msg, fault_ranks)",
            "report_recover_strategy": "(fault_ranks, strategy_list)",
            "report_recover_status": "(code, msg, fault_ranks, strategy)",
            "report_process_fault": "(fault_ranks)",
        }.items()
    },
}
"""The documented signatures, without types."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """The modules of `compat/` with their trees."""
    for path in sorted(COMPAT.glob("*/**/*.py")):
        name = path.relative_to(COMPAT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        yield name, ast.parse(path.read_text())


@pytest.mark.parametrize("module", ALIASES)
def test_alias_is_the_same_object(module: str) -> None:
    alias = importlib.import_module(module)
    for name, target in ALIASES[module].items():
        of, _, other = target.partition(":")
        assert getattr(alias, name) is getattr(importlib.import_module(of), other or name), name
    assert set(getattr(alias, "__all__", ALIASES[module])) == {*ALIASES[module], *OWN.get(module, ())}


@pytest.mark.parametrize("module", sorted(OWN.keys() - ALIASES.keys() - WITH_EFFECT.keys() - NEED_TORCH))
def test_own_module_has_its_names(module: str) -> None:
    found = importlib.import_module(module)
    assert set(found.__all__) == set(OWN[module])
    assert all(hasattr(found, name) for name in OWN[module])


@pytest.mark.parametrize("path", SIGNATURES)
def test_signature_takes_what_is_documented(path: str) -> None:
    """Further parameters have defaults."""
    module, _, names = path.partition(":")
    found = functools.reduce(getattr, names.split("."), importlib.import_module(module))
    assert callable(found)
    parameters = [(each.name, each.default) for each in inspect.signature(found).parameters.values()]
    documented = eval(f"lambda {SIGNATURES[path][1:-1]}: None", {})  # noqa: S307 - written above
    wanted = [(each.name, each.default) for each in inspect.signature(documented).parameters.values()]
    assert parameters[: len(wanted)] == wanted
    assert all(default is not inspect.Parameter.empty for _, default in parameters[len(wanted) :])


def test_version_is_ours() -> None:
    assert taskd.__version__ == mindx_elastic.__version__ == __version__
    project = tomllib.loads((COMPAT / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == [f"taskd-net=={__version__}"]
    assert project["tool"]["hatch"]["version"]["path"] == "../taskd_net/version.py"


def test_every_module_is_in_one_of_these_tables() -> None:
    packages = {name for name, tree in modules() if len(tree.body) == 1}
    assert packages | {"taskd", *ALIASES, *OWN, *WITH_EFFECT} == {name for name, _ in modules()}
    assert not packages & {*ALIASES, *OWN}


def test_other_modules_are_aliases_alone() -> None:
    """Imports from this distribution or `taskd_net`, `__all__`, and at most calls of what is imported."""
    for name, tree in modules():
        if name in OWN:
            continue
        for node in tree.body[1:]:
            match node:
                case ast.ImportFrom(module=str(module)):
                    assert module == "typing" or module.startswith(("taskd_net.", "mindx_elastic.")), name
                case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.Expr(value=ast.Call(func=ast.Name())):
                    pass
                case ast.If():
                    assert "TYPE_CHECKING" in ast.unparse(node.test), name
                case _:
                    raise AssertionError(f"{name}: {ast.unparse(node)}")
