"""Users' plugins: from a folder, and from the entry points of installed packages."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from taskd_net.codes import ConfigError
from taskd_net.jobs.plugins import AnyPlugin, Plugin, built_in
from taskd_net.manager.config import ManagerConfig
from taskd_net.manager.guarded import Guarded, Report
from taskd_net.manager.threads import described
from taskd_net.untrusted import shown

GROUP: Final = "taskd_net.plugins"
"""The entry-point group; each entry names a class."""

Make = Callable[[], AnyPlugin]
Refuse = Callable[[str, str], None]
"""Takes the place of a plugin that cannot be used, and the reason."""


def users_plugins(config: ManagerConfig, changed: Callable[[], None], report: Report, log: Any) -> list[Guarded]:
    """Load the users' plugins of a Manager, each with a thread of its own.

    Args:
        config: the Manager's settings.
        changed, report: as for `Guarded`.
        log: takes a line for each.
    """

    def refuse(place: str, reason: str) -> None:
        log.error("plugin_refused", place=place, reason=reason)

    makes = load(config.plugins, {plugin.name for plugin in built_in()}, refuse)
    made = list[Guarded]()
    for make in makes:
        try:
            made.append(Guarded(make, config.plugin_timeout, changed, report))
        except BaseException as error:  # noqa: BLE001 - made once already, and not again
            refuse(shown(make), described(error))
    for each in made:
        log.info("plugin_loaded", plugin=each.name, streams=",".join(each.streams))
    return made


def load(folder: str | None, taken: set[str], refuse: Refuse) -> list[Make]:
    """Find the plugins. One that cannot be used is refused, and costs the others nothing.

    Args:
        folder: with `*.py`, one class each; None for none.
        taken: names of plugins that are there already.
        refuse: is called for each that cannot be used.

    Returns:
        For each plugin, what makes one.
    """
    places, made = dict.fromkeys(taken, "built in"), list[Make]()
    for place, find in (*_in_folder(folder, refuse), *_installed()):
        try:
            kind = find()
            name = _checked(kind)
            if name in places:
                raise ConfigError(f"there is a plugin {name} already ({places[name]}); expected another name")
        except BaseException as error:  # noqa: BLE001 - an import that ends a script must not end the Manager
            refuse(place, described(error))
            continue
        places[name] = place
        made.append(kind)
    return made


def _in_folder(folder: str | None, refuse: Refuse) -> Iterator[tuple[str, Callable[[], type[AnyPlugin]]]]:
    if folder is None:
        return
    try:
        paths = sorted(path for path in Path(folder).iterdir() if path.suffix == ".py" and path.name[0] not in "._")
    except OSError as error:
        refuse(folder, str(error))
        return
    for path in paths:
        yield str(path), lambda path=path: _only_class(_module(path), path)  # type: ignore[misc]


def _installed() -> Iterator[tuple[str, Callable[[], type[AnyPlugin]]]]:
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        yield f"{GROUP}: {entry.name}", entry.load


def _module(path: Path) -> ModuleType:
    """Import a file, under a name that no other file has."""
    name = f"taskd_net_plugin_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there for the module of a class
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _only_class(module: ModuleType, path: Path) -> type[AnyPlugin]:
    kinds = [
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Plugin) and kind.__module__ == module.__name__
    ]
    # An abstract class that is alone is refused with the names of the methods that it lacks.
    kinds = [kind for kind in kinds if not inspect.isabstract(kind)] or kinds
    if len(kinds) != 1:
        raise ConfigError(f"it has {len(kinds)} classes of plugins; expected one")
    return kinds[0]


def _checked(kind: Any) -> str:
    """The name of a plugin's class, if all is as it should be.

    Raises:
        ConfigError: says what is not.
    """
    if not (inspect.isclass(kind) and issubclass(kind, Plugin)):
        raise ConfigError(f"it is {shown(kind)}; expected a class of taskd_net.jobs.plugins.Plugin")
    name, streams = getattr(kind, "name", None), getattr(kind, "streams", None)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"name is {shown(name)}; expected a text")
    if not isinstance(streams, dict) or not streams:
        raise ConfigError(f"streams is {shown(streams)}; expected a dict of priorities by stream")
    for stream, priority in streams.items():
        number = isinstance(priority, int | float) and not isinstance(priority, bool)
        if not isinstance(stream, str) or not (priority is None or number):
            raise ConfigError(f"the priority of {shown(stream)} is {shown(priority)}; expected a number or None")
    make: Any = kind
    make()  # as the Manager makes it
    return name
