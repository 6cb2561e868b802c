"""The chapters of a new user's first hour. Their lines come from the documents.

Lines that no document has are listed in `OWN`: a checkout begins somewhere, and an earlier version is built.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Mapping
from typing import Any, Final

import yaml

from taskd_net import __version__
from tests.documents.pages import ROOT
from tests.install.new_user import Running
from tests.install.newcomer import Newcomer
from tests.mixed.conftest import EARLIER

README: Final = "README.md"
TUTORIAL: Final = "docs/tutorial.md"
DEPLOY: Final = "deploy/README.md"
UPGRADE: Final = "docs/upgrade.md"

CLONE: Final = "git clone -q taskd_net.bundle taskd_net"
MESH_SCRIPT: Final = "python mesh.py"
TRAINING_SCRIPT: Final = "RANK=0 LOCAL_WORLD_SIZE=1 python training.py"
CLONE_BEFORE: Final = f"git clone -q taskd_net.bundle before && git -C before checkout -q {EARLIER}"
BUILD_BEFORE: Final = "pip wheel --no-deps -w before/dist ./before"
MGR: Final = "/opt/taskd-net/bin/taskd-net mgr --expect 1x1"
PROXY: Final = "/opt/taskd-net/bin/taskd-net proxy --server-rank 0"
TRAINING: Final = "RANK=0 LOCAL_WORLD_SIZE=1 /opt/taskd-net/bin/python before/examples/train.py --steps 100000"
VERSIONS: Final = "taskd-net tree --json"
OWN: Final = (CLONE, MESH_SCRIPT, TRAINING_SCRIPT, CLONE_BEFORE, BUILD_BEFORE, MGR, PROXY, TRAINING, VERSIONS)
"""Lines that stand in no document."""


def section(page: str, heading: str = "") -> str:
    """The text of a document below a heading; all of it without one."""
    text = (ROOT / page).read_text()
    return re.split(r"(?m)^## ", text.partition(f"\n## {heading}\n")[2])[0] if heading else text


def blocks(text: str, *languages: str) -> list[str]:
    """The code blocks in one of these languages."""
    return [code for named, code in re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", text) if named in languages]


def lines(page: str, heading: str = "", *languages: str) -> list[str]:
    """The lines to type below a heading, without their comments."""
    found = [line for code in blocks(section(page, heading), *(languages or ("sh",))) for line in code.splitlines()]
    return [bare for line in found if (bare := re.sub(r"(^|\s+)# .*", "", line))]


def line(page: str, heading: str, has: str) -> str:
    """The one line below a heading that has a text."""
    (found,) = (one for one in lines(page, heading, "sh", "") if has in one)
    return found


def clone(user: Newcomer) -> None:
    """A checkout, out of a bundle of this one's history."""
    bundle = user.home / "taskd_net.bundle"
    subprocess.run(["git", "bundle", "create", "-q", bundle, "HEAD"], cwd=ROOT, check=True)
    user.runs(CLONE)
    user.enters("taskd_net")


def demo(user: Newcomer) -> None:
    """`make demo`, which sets up an environment."""
    (shown,) = (one for one in lines(README) if one == "make demo")
    said = user.runs(shown, cut=(8, 1))
    assert "13 of 13 nodes have joined" in said and "Everything as it had to be" in said


def first_minutes(user: Newcomer) -> None:
    """README.md's own mesh."""
    heading = "The first five minutes"
    venv, activate, install, mgr, proxy, zero, one, tree, send, tree_again, refused = lines(README, heading)
    whole, nobody_missing, answer, missing, why = "".join(blocks(section(README, heading), "text")).splitlines()
    user.runs(venv)
    user.activates(activate)
    user.runs(install)
    root = user.starts(mgr, " ready, ")
    hop = user.starts(proxy, " ready, ")
    first, second = user.starts(zero), user.starts(one)
    assert whole in user.runs(tree, until=nobody_missing)
    assert answer in user.runs(send, until=answer)
    user.reads(first, "rank 0", "^checkpoint, asked for by Agent/")
    user.reads(root, "the Mgr", "SAVED")
    user.interrupts(second)
    user.says("[Ctrl-C in the terminal of rank 1]")
    user.runs(tree_again, until=missing, code=1)
    user.runs(refused, until=why, code=1)
    user.interrupts(first, hop, root)


def tutorial(user: Newcomer) -> None:
    """A Manager, a training under it, and a killed process."""
    install, mgr, run, tree, job, seen, again, job_again = lines(TUTORIAL)
    (kill,) = lines(TUTORIAL, "5. Kill a training process", "")
    user.runs(install)
    root = user.starts(mgr, " ready, ")
    training = user.starts(run)
    user.runs(tree, until="missing of 1x2: none")
    user.runs(job)
    killed = _last(user.runs(seen, until='"step"'))
    kept = _last((user.folder / "steps-0").read_text().rpartition("\n")[0])
    user.runs(kill.replace("PID", str(killed["pid"])))

    def epochs() -> list[Mapping[str, Any]]:
        return [json.loads(found) for found in re.findall(r"(?m)^\{.*\}$", user.runs(again, until='"step"'))]

    user.waits(lambda: _is_back(user, killed))
    zero, one = epochs()
    assert zero["pid"] == kept["pid"] and one["pid"] != killed["pid"]
    assert zero["epoch"] == one["epoch"] > killed["epoch"] and one["step"] >= killed["step"]
    user.runs(job_again, until="209")
    user.interrupts(training, root)


def _is_back(user: Newcomer, killed: Mapping[str, Any]) -> bool:
    """True once both ranks are in one epoch, the killed one in another process."""
    files = [(user.folder / f"steps-{rank}").read_text() for rank in range(2)]
    zero, one = (_last(text.rpartition("\n")[0]) for text in files)
    return bool(one["pid"] != killed["pid"] and zero["epoch"] == one["epoch"])


def _last(text: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(text.splitlines()[-1])
    return found


def own_scripts(user: Newcomer) -> None:
    """README.md's Python, as scripts of the user's own, on the mesh of the first five minutes."""
    (mesh,) = blocks(section(README, "In Python"), "python")
    (training,) = blocks(section(README, "From a training script"), "python")
    user.writes("mesh.py", mesh)
    user.writes("training.py", training)
    _, _, _, mgr, proxy, *_ = lines(README, "The first five minutes")
    send = line(README, "Daemons and tools", "taskd-net send ").replace("Worker/3/24", "Worker/0/3")
    root = user.starts(mgr, " ready, ")
    hop = user.starts(proxy, " ready, ")
    script = user.starts(MESH_SCRIPT, "^arrived$")
    user.reads(root, "the Mgr", "step 100")
    user.runs(send, until="0 OK from Worker/0/3")
    user.reads(script, "mesh.py", "step 100")
    user.runs(TRAINING_SCRIPT)
    user.reads(root, "the Mgr", "profiling on")
    user.interrupts(script, hop, root)


def deploy(user: Newcomer) -> None:
    """The files of a deployment: manifests, certificates for its Secret, and the folder of a service's settings."""
    manifests = user.runs(line(DEPLOY, "Kubernetes", "kubectl kustomize"), cut=(3, 3))
    kinds = {resource["kind"] for resource in yaml.safe_load_all(manifests)}
    assert kinds == {"JobSet", "NetworkPolicy", "PodMonitor"}
    for certificates in (one for one in lines(DEPLOY, "Kubernetes", "") if one.startswith("taskd-net certs ")):
        user.runs(certificates)
    for file in ("ca.crt", "node.crt", "node.key"):  # as in the Secret's line
        assert f"certs/{file}" in section(DEPLOY, "Kubernetes") and (user.folder / "certs" / file).exists()
    folder, files, *_ = (one for one in lines(DEPLOY, "systemd", "") if one.startswith("install "))
    user.runs(folder)
    user.runs(files)


def upgrade(user: Newcomer) -> None:
    """The version before in a service's environment, with a mesh and a training; then this version, node by node."""
    user.enters("..")
    user.runs(CLONE_BEFORE)
    user.runs(BUILD_BEFORE)
    (before,) = (user.folder / "before" / "dist").glob("*.whl")
    earlier = before.name.split("-")[1]
    assert earlier != __version__, f"{before.name} is no other version than this one"
    venv, install = lines(DEPLOY, "systemd", "")[:2]
    wheel = re.search(r"taskd_net-\S+\.whl", install)
    assert wheel is not None
    user.runs(venv)
    user.runs(install.replace(wheel[0], f"before/dist/{before.name}"))
    root, hop = user.starts(MGR, " ready, "), user.starts(PROXY, " ready, ")
    training = user.starts(TRAINING)
    _versions(user, {"Mgr/0": earlier, "Proxy/0": earlier, "Worker/0/0": earlier})

    user.enters("taskd_net")
    (check,) = re.findall(r"`(taskd-net config proxy[^`]*)`", section(UPGRADE))
    user.places("deploy/systemd/proxy.toml", check.rpartition(" ")[2])
    user.runs(check)
    (build,) = re.findall(r"`(pip wheel [^`]*)`", section(DEPLOY, "systemd"))
    user.runs(build)
    user.runs(install)
    root = _restarted(user, root, MGR)
    _versions(user, {"Mgr/0": __version__, "Proxy/0": earlier, "Worker/0/0": earlier})
    hop = _restarted(user, hop, PROXY)
    _versions(user, {"Mgr/0": __version__, "Proxy/0": __version__, "Worker/0/0": earlier})
    user.reads(root, "the Mgr", "STEP")
    user.interrupts(training, hop, root)


def _restarted(user: Newcomer, daemon: Running, command: str) -> Running:
    """A daemon that drains at SIGTERM and starts again, as systemd does it."""
    daemon.ends(signal.SIGTERM)
    user.says("[SIGTERM in the terminal of the next line]")
    return user.starts(command, " ready, ")


def _versions(user: Newcomer, expected: Mapping[str, str]) -> None:
    """Wait until these nodes have joined in these versions, and keep that."""

    def found() -> Mapping[str, str]:
        said = user.asks(VERSIONS)
        nodes = json.loads(said)["nodes"] if said.startswith("{") else []  # else the Mgr does not answer yet
        return {node["position"]: node["version"] for node in nodes if node["state"] == "joined"}

    user.waits(lambda: found() == expected)
    user.says(f"$ {VERSIONS}", "[" + ", ".join(f"{place}: {version}" for place, version in expected.items()) + "]")


CHAPTERS: Final = (clone, demo, first_minutes, tutorial, own_scripts, deploy, upgrade)
"""The hour, in its order."""


def play(user: Newcomer) -> dict[str, str]:
    """Play the hour. Returns the transcript of each chapter, by its name."""
    for chapter in CHAPTERS:
        with user.chapter(chapter.__name__.replace("_", "-")):
            chapter(user)
    return {name: "\n".join(kept) + "\n" for name, kept in user.shown.items()}
