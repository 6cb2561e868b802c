"""Users' plugins: from a folder, and from the entry points of installed packages.

Each is imported, and made, in the thread that its calls have later, so that one that hangs holds no link.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.job.decide.plugins import AnyPlugin, Plugin, built_in
from taskd_net.job.manager.config import ManagerConfig
from taskd_net.job.manager.guarded import Guarded, Loaded, Report, plain, plugin_thread
from taskd_net.job.manager.threads import described

LOAD_S: Final = 60.0
"""Seconds to import a user's plugin and make its first object: large libraries on a slow file system take some 30."""

GROUP: Final = "taskd_net.plugins"
"""The entry-point group; each entry names a class."""

NAME_CHARS: Final = 100
"""Characters of the name of a plugin, or of a stream."""

_NAME: Final = f"a printable text of {NAME_CHARS} characters at most"

Find = Callable[[], type[AnyPlugin]]
Refuse = Callable[[str, str], None]
"""Takes the place of a plugin that cannot be used, and the reason."""


async def load(
    config: ManagerConfig,
    made: list[Guarded],
    changed: Callable[[], None],
    report: Report,
    log: Any,
    seconds: float = LOAD_S,
) -> None:
    """Load the users' plugins of a Manager. One that cannot be used is refused, and costs the others nothing.

    Args:
        config: the Manager's settings.
        made: takes each plugin as it is loaded.
        changed, report: as for `Guarded`.
        log: takes a line for each.
        seconds: for each of them.
    """

    def refuse(place: str, reason: str) -> None:
        log.error("plugin_refused", place=place, reason=reason)

    places = {plugin.name: "built in" for plugin in built_in()}
    for place, find in _found(config.plugins, refuse):
        thread = plugin_thread(place)
        try:
            loaded = await thread.call(partial(_loaded, find), seconds)
            if (other := places.get(loaded.name)) is not None:
                raise ConfigError(f"there is a plugin {loaded.name} already ({other}); expected another name")
        except BaseException as error:
            hangs, stack = thread.busy, thread.stack()
            thread.abandon()
            if not isinstance(error, Exception):  # the Manager is closed
                raise
            within = f"it has not been loaded within {seconds:g} s: {stack}"
            refuse(place, within if hangs else described(error))
            continue
        places[loaded.name] = place
        made.append(Guarded(loaded, thread, config.plugin_timeout, changed, report))
        log.info("plugin_loaded", plugin=loaded.name, streams=",".join(loaded.streams))


def _found(folder: str | None, refuse: Refuse) -> list[tuple[str, Find]]:
    return [*_in_folder(folder, refuse), *_installed()]


def _in_folder(folder: str | None, refuse: Refuse) -> Iterator[tuple[str, Find]]:
    if folder is None:
        return
    try:
        paths = sorted(path for path in Path(folder).iterdir() if path.suffix == ".py" and path.name[0] not in "._")
    except OSError as error:
        refuse(folder, str(error))
        return
    for path in paths:
        yield str(path), lambda path=path: _only_class(_module(path), path)  # type: ignore[misc]


def _installed() -> Iterator[tuple[str, Find]]:
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


def _loaded(find: Find) -> Loaded:
    """Import a plugin, check its class, and make the first one.

    Raises:
        ConfigError: says what is not as it should be; or an exception of the plugin's.
    """
    kind: Any = find()
    if not (inspect.isclass(kind) and issubclass(kind, Plugin)):
        raise ConfigError(f"it is {shown(kind)}; expected a class of taskd_net.job.decide.plugins.Plugin")
    name: Any = getattr(kind, "name", None)
    streams: Any = getattr(kind, "streams", None)
    if not _is_name(name):
        raise ConfigError(f"name is {shown(name)}; expected {_NAME}")
    if not isinstance(streams, dict) or not streams:
        raise ConfigError(f"streams is {shown(streams)}; expected a dict of priorities by stream")
    for stream, priority in streams.items():
        number = isinstance(priority, int | float) and not isinstance(priority, bool) and not math.isnan(priority)
        if not (priority is None or number):
            raise ConfigError(f"the priority of {shown(stream)} is {shown(priority)}; expected a number or None")
        if not _is_name(stream):
            raise ConfigError(
                f"a stream is {shown(stream)}; expected a printable text of {NAME_CHARS} characters at most"
            )
    make: Any = kind
    plugin = make()  # as the Manager makes it
    state = type(plugin.state)
    goes_on = kind.lost is not Plugin.lost
    return Loaded(kind, plugin, name, dict(streams), state, plain(plugin.state, state), goes_on)


def _is_name(value: object) -> bool:
    return type(value) is str and 0 < len(value) <= NAME_CHARS and value.isprintable()
