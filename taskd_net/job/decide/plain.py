"""Dataclasses as JSON texts, and back by their type hints."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown

T = TypeVar("T")

UNSTORED: Final = {"stored": False}
"""Metadata of a field that is no part of the JSON value; it needs a default."""


def to_text(value: object) -> str:
    """A JSON text of plain data: dataclasses become objects, and sets sorted lists.

    Raises:
        TypeError, ValueError: the value holds something else, or a number that JSON does not have.
    """
    return _encode(value)


def _plain(value: object) -> object:
    """The next level of a value that JSON does not have."""
    if isinstance(value, set):
        return sorted(value)
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _stored(kind)}


_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain).encode


@lru_cache(maxsize=128)
def _stored(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.metadata.get("stored", True))


def from_plain(kind: type[T], value: object, name: str) -> T:
    """A value of a type whose text `to_text` has written.

    Args:
        kind: a dataclass whose fields all have defaults. Missing fields take them; unknown ones are ignored, so that
            another schema can be read.
        value: the JSON value.
        name: for the error's text.

    Raises:
        ConfigError: the value is of another type; names the place.
    """
    return cast(T, _read(kind, value, name))


def _read(kind: object, value: object, name: str) -> object:
    if is_dataclass(kind):
        known = _mapping(value, name)
        hints = _hints(cast(type, kind))
        given = {field: _read(hints[field], known[field], f"{name}.{field}") for field in hints if field in known}
        return cast(type, kind)(**given)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:  # with None, the only union in use
        return None if value is None else _read(args[0], value, name)
    if origin is dict:
        items = _mapping(value, name).items()
        return {_key(args[0], key, name): _read(args[1], item, f"{name}.{key}") for key, item in items}
    if origin in (list, tuple, set):
        if not isinstance(value, list):
            raise _wrong(name, value, "a list")
        return cast(type, origin)(_read(args[0], item, name) for item in value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise _wrong(name, value, cast(type, kind).__name__)
    return value


@lru_cache(maxsize=128)
def _hints(kind: type) -> dict[str, object]:
    return typing.get_type_hints(kind)


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _wrong(name, value, "an object")
    return value


def _key(kind: object, key: str, name: str) -> object:
    if kind is str:
        return key
    try:
        return int(key)
    except ValueError:
        raise _wrong(name, key, "a number as key") from None


def _wrong(name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"{name} is {shown(value)}; expected {expected}")
