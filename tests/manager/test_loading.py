"""Users' plugins as they are found: each that cannot be used costs one line."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from taskd_net.job.manager import ManagerConfig, loading
from taskd_net.job.manager.guarded import Guarded

GOOD = """
from taskd_net.job.decide.plugins import Plugin, Progress

class {name}(Plugin[None]):
    name = "{name}"
    streams = {streams}

    def __init__(self):
        super().__init__(None)

    def wants(self, snapshot):
        return ()

    def step(self, stream, snapshot):
        return Progress.FINAL
"""


def good(name: str, streams: str = "{'s': 3}") -> str:
    """The source of a plugin."""
    return GOOD.replace("{name}", name).replace("{streams}", streams)


class Log:
    """Takes the lines."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}

    def error(self, event: str, *, place: str, reason: str) -> None:
        assert event == "plugin_refused"
        self.refused[Path(place).name] = reason

    def info(self, event: str, **_: str) -> None:
        assert event == "plugin_loaded"


async def found(folder: Path | None) -> tuple[list[str], dict[str, str]]:
    """The names of the plugins, and the refusals by file."""
    log, made = Log(), list[Guarded]()
    config = ManagerConfig(job_id="J", plugins=None if folder is None else str(folder))
    await loading.load(config, made, lambda: None, lambda *_: None, log)
    for each in made:
        await each.close()
    return [each.name for each in made], log.refused


async def test_each_that_cannot_be_used_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    files = {
        "a": good("One"),
        "b": good("One"),
        "c": "import nothing_of_that_name",
        "d": "raise SystemExit(3)",
        "e": good("Two", "{'s': 'high'}"),
        "f": good("Three") + good("Four"),
        "g": "x = 1",
        "h": good("StopTrainPlugin"),
        "i": good("Five", "{'s': 1.5, 't': None}"),
        "j": good("Six").replace('name = "Six"', "name = 6"),
        "k": good("Seven", "{}"),
        "l": good("Eight").replace("super().__init__(None)", "raise OSError('no disk')"),
        "m": "syntax error",
        "n": good("Nine").replace("def step", "def no_step"),
        "o": "raise KeyboardInterrupt",
        "_n": "raise ValueError",
    }
    for name, text in files.items():
        tmp_path.joinpath(f"{name}.py").write_text(text)
    tmp_path.joinpath("readme.txt").write_text("")
    names, refused = await found(tmp_path)
    assert names == ["One", "Five"]
    reasons = {
        "b.py": f"a plugin One already ({tmp_path / 'a.py'})",
        "c.py": "No module named",
        "d.py": "SystemExit: 3",
        "e.py": "priority of 's' is 'high'; expected a number",
        "f.py": "2 classes",
        "g.py": "0 classes",
        "h.py": "StopTrainPlugin already (built in)",
        "j.py": "name is 6",
        "k.py": "streams is {}",
        "l.py": "no disk",
        "m.py": "SyntaxError",
        "o.py": "KeyboardInterrupt: ",
        "n.py": "Can't instantiate abstract class Nine",
    }
    assert refused.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert reason in refused[name], (name, refused[name])


async def test_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    names, refused = await found(tmp_path / "missing")
    assert names == [] and "No such file" in refused["missing"]
    assert await found(None) == ([], {})


async def test_installed_plugins_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        importlib.metadata.EntryPoint("good", "tests.manager.test_loading:Installed", loading.GROUP),
        importlib.metadata.EntryPoint("bad", "tests.manager.test_loading:GOOD", loading.GROUP),
    ]
    monkeypatch.setattr(loading, "entry_points", lambda group: entries if group == loading.GROUP else [])
    names, refused = await found(None)
    assert names == ["Installed"]
    assert "expected a class of" in refused["taskd_net.plugins: bad"]


def __getattr__(name: str) -> Any:
    if name != "Installed":
        raise AttributeError(name)
    space: dict[str, Any] = {"__name__": __name__}
    exec(good("Installed"), space)  # noqa: S102 - the text above
    return space["Installed"]
