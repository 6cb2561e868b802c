"""Validators of values from outside, chained (TaskD API reference, "Validator" and its kinds).

    validator = StringValidator(text, max_len=64).check_string_length().check_not_contain_black_element("..").check()
    name = validator.get_value("unnamed")  # validator.msg has the reason

Each call adds a check; a kind of value brings its type along. `check` runs them in their order until one fails. A check
that raises has failed. Nothing here raises, logs or keeps a file open, and a file may change after the look at it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

from taskd_net.base.untrusted import natural, shown

__all__ = [
    "ClassValidator",
    "DirectoryValidator",
    "FileValidator",
    "IntValidator",
    "MapValidator",
    "RankSizeValidator",
    "StringValidator",
    "Validator",
]

RANKS_MOST: Final = 4096
"""Ranks and devices of a job that TaskD's validators take for possible."""

FILES_MOST: Final = 4096
"""Entries of a folder that they let pass."""

FILE_BYTES_MOST: Final = 1_048_576
"""Bytes of a file that they let pass: the reset file's bound."""

T = TypeVar("T")
D = TypeVar("D")

RANKS: Final = (0, RANKS_MOST - 1)
DEVICES: Final = (1, RANKS_MOST)

SENSITIVE_WORDS: Final = ("passwd", "password", "private_key", "privatekey", "secret")
"""Words that a path must not have by default, in capitals or not."""

BLACK_LIST: Final = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/sbin", "/sys", "/usr")
"""Folders that a path must not lead to by default: those of the system."""


class Validator(Generic[T]):
    """Checks of one value.

    Args:
        value: any value.
        msg: the message of a failure of the checks without one of their own. Default: the value.
    """

    def __init__(self, value: T, msg: str = "") -> None:
        self.value = value
        self._default = msg or f"{shown(value)} is not valid"
        self.msg = ""
        """The message of the first check that has failed; empty where none has."""
        self._checks: list[tuple[Callable[[Any], object], str]] = []
        self._valid: bool | None = None

    def register_checker(self, checker: Callable[[Any], object], msg: str = "") -> Self:
        """Add a check.

        Args:
            checker: gets the value; a false result or an exception is a failure.
            msg: the message of a failure. Default: that of the validator.
        """
        self._checks.append((checker, msg or self._default))
        self._valid = None
        return self

    def check(self) -> Self:
        """Run all checks until one fails."""
        self.msg = next((msg for checker, msg in self._checks if not self._passes(checker)), "")
        self._valid = not self.msg
        return self

    def is_valid(self) -> bool:
        """True if no check fails; they run unless they have."""
        if self._valid is None:
            self.check()
        return bool(self._valid)

    def get_value(self, default: D | None = None) -> T | D | None:
        """The value, or the default where it is not valid."""
        return self.value if self.is_valid() else default

    def _passes(self, checker: Callable[[Any], object]) -> bool:
        try:
            return bool(checker(self.value))
        except Exception:  # noqa: BLE001 - the value is of any kind, and so is what a check stumbles over
            return False

    def _expect(self, checker: Callable[[Any], object], expected: str) -> Self:
        return self.register_checker(checker, self._but(expected))

    def _but(self, expected: str) -> str:
        return f"the value is {shown(self.value)}; expected {expected}"


class ClassValidator(Validator[T]):
    """A value of a class.

    Args:
        value: any value.
        classes: a class, or a tuple of classes.
    """

    def __init__(self, value: T, classes: type | tuple[type, ...]) -> None:
        super().__init__(value)
        self.classes = classes

    def check_isinstance(self) -> Self:
        """The value is an instance of the class, or of one of them."""
        names = self.classes if isinstance(self.classes, tuple) else (self.classes,)
        wanted = " or ".join(getattr(each, "__name__", shown(each)) for each in names)
        return self._expect(lambda value: isinstance(value, self.classes), f"a value of the class {wanted}")


class StringValidator(Validator[T]):
    """A text.

    Args:
        value: any value.
        max_len, min_len: bounds of its length in characters; None for none.
    """

    def __init__(self, value: T, max_len: int | None = None, min_len: int | None = 0) -> None:
        super().__init__(value)
        self.max_len = max_len
        self.min_len = min_len
        self._expect(lambda text: isinstance(text, str), "a text")

    def check_string_length(self) -> Self:
        """The length is within the bounds, which belong to it."""
        least, most = self.min_len or 0, self.max_len
        above = f"at least {least}" if most is None else f"{least} to {most}"
        return self._expect(
            lambda text: len(text) >= least and (most is None or len(text) <= most), f"{above} characters"
        )

    def check_not_contain_black_element(self, element: str) -> Self:
        """The text does not have another text in it."""
        return self._expect(lambda text: element not in text, f"a text without {shown(element)}")

    def can_be_transformed2int(self, min_value: int | None = None, max_value: int | None = None) -> Self:
        """The text is a whole number in ASCII digits.

        Args:
            min_value, max_value: bounds, which belong to it. Default: those of a rank.
        """
        least = RANKS[0] if min_value is None else min_value
        most = RANKS[1] if max_value is None else max_value

        def fits(text: str) -> bool:
            number = natural(text, most)
            return number is not None and number >= least

        return self._expect(fits, f"a whole number from {least} to {most} in digits")


class IntValidator(Validator[T]):
    """A whole number. True and False are none.

    Args:
        value: any value.
        min_value, max_value: bounds, which belong to it; None for none.
    """

    def __init__(self, value: T, min_value: int | None = None, max_value: int | None = None) -> None:
        super().__init__(value)
        self.min_value = min_value
        self.max_value = max_value
        self._expect(lambda number: isinstance(number, int) and not isinstance(number, bool), "a whole number")

    def check_value(self) -> Self:
        """The number is within the bounds."""
        return self._check_between(self.min_value, self.max_value)

    def _check_between(self, least: int | None, most: int | None) -> Self:
        bounds = [f"at least {least}"] if least is not None else []
        bounds += [f"at most {most}"] if most is not None else []
        return self._expect(
            lambda number: (least is None or number >= least) and (most is None or number <= most),
            f"a number {' and '.join(bounds)}".rstrip(),
        )


class MapValidator(Validator[T]):
    """A mapping with some keys.

    Args:
        value: any value.
        inclusive_keys: keys that it has to have; None for none.
    """

    def __init__(self, value: T, inclusive_keys: Collection[object] | None = None) -> None:
        super().__init__(value)
        self.inclusive_keys = inclusive_keys
        self._expect(lambda mapping: isinstance(mapping, Mapping), "a mapping")
        keys: object = inclusive_keys
        if keys is not None and not isinstance(keys, Collection):
            self._expect(lambda _: False, f"keys as a list, but they are {shown(keys)}")
            return
        for key in keys or ():
            self._expect(partial(_has, key), f"a mapping with the key {shown(key)}")


def _octal(mode: object) -> str:
    """Permissions for people."""
    return f"{mode:o}" if isinstance(mode, int) else shown(mode)


def _listed(values: object) -> str:
    """Values of a list with commas between, for people."""
    return ", ".join(map(str, values)) if isinstance(values, Collection) else shown(values)


def _has(key: object, mapping: Mapping[object, object]) -> bool:
    return key in mapping


class RankSizeValidator(IntValidator[T]):
    """A rank, or a number of devices.

    Args:
        value: any value.
    """

    def check_rank_size_valid(self) -> Self:
        """The number is a rank: 0 to 4095."""
        return self._check_between(*RANKS)

    def check_device_num_valid(self) -> Self:
        """The number is one of devices: 1 to 4096."""
        return self._check_between(*DEVICES)


class _PathValidator(StringValidator[T]):
    """A path.

    Args:
        value: any value.
        max_len, min_len: bounds of its length in characters; None for none.
    """

    def __init__(self, value: T, max_len: int | None = None, min_len: int | None = 0) -> None:
        super().__init__(value, max_len, min_len)
        self.check_is_not_none()
        if max_len is not None or min_len:
            self.check_string_length()

    def check_is_not_none(self) -> Self:
        """The path is not empty."""
        return self._expect(bool, "a path")

    def check_dir_name(self) -> Self:
        """No part of the path is `..`."""
        return self._expect(lambda path: ".." not in Path(path).parts, "a path without ..")

    def path_should_exist(self, is_file: bool = True, msg: str = "") -> Self:
        """There is something at the path.

        Args:
            is_file: it is a file.
            msg: the message of a failure.
        """
        expected = "a file" if is_file else "a file or a folder"
        return self.register_checker(
            lambda path: Path(path).is_file() if is_file else Path(path).exists(),
            msg or self._but(f"the path of {expected}"),
        )

    def path_should_not_exist(self) -> Self:
        """There is nothing at the path, nor a link to nothing."""
        return self._expect(lambda path: not (Path(path).exists() or Path(path).is_symlink()), "a path of nothing")

    def check_not_soft_link(self) -> Self:
        """No part of the path is a symbolic link. A relative path is looked at from the working folder on."""

        def has_none(path: str) -> bool:
            absolute = Path(path).absolute()
            # A link to itself resolves to itself from Python 3.13 on.
            return absolute == Path(path).resolve() and not any(map(Path.is_symlink, (absolute, *absolute.parents)))

        return self._expect(has_none, "a path without symbolic links")

    def check_user_group(self) -> Self:
        """The owner of the file is the user of this process, or its group is one of this process."""

        def is_own(path: str) -> bool:
            status = Path(path).stat()
            return status.st_uid == os.geteuid() or status.st_gid in {os.getegid(), *os.getgroups()}

        return self._expect(is_own, "a path whose owner or group is that of this process")

    def check_permissions(self) -> Self:
        """Nobody but the owner may write."""
        writes = stat.S_IWGRP | stat.S_IWOTH
        return self._expect(
            lambda path: not Path(path).stat().st_mode & writes, "a path to which its owner alone may write"
        )

    def with_blacklist(self, lst: Collection[str] | None = None, exact_compare: bool = True, msg: str = "") -> Self:
        """The path leads to none of these.

        Args:
            lst: paths. Default: the folders of the system.
            exact_compare: False: to nothing in them either.
            msg: the message of a failure.
        """
        names = BLACK_LIST if lst is None else lst

        def is_free(path: str) -> bool:
            listed = [Path(each) for each in names if each]
            # Both, as a link may lead into a folder of the list, and a folder of the list may be a link.
            ways = {Path(path).absolute(), Path(path).resolve()}
            reached = ways if exact_compare else ways.union(*(way.parents for way in ways))
            return reached.isdisjoint(listed)

        where = "a path other than" if exact_compare else "a path outside of"
        return self.register_checker(is_free, msg or self._but(f"{where} {_listed(names)}"))

    def should_not_contains_sensitive_words(self, words: Collection[str] | None = None, msg: str = "") -> Self:
        """The path has none of these words in it, in capitals or not.

        Args:
            words: the words. Default: `SENSITIVE_WORDS`.
            msg: the message of a failure.
        """
        sensitive = SENSITIVE_WORDS if words is None else words
        return self.register_checker(
            lambda path: not any(word.lower() in path.lower() for word in sensitive),
            msg or self._but(f"a path without {_listed(sensitive)}"),
        )


class DirectoryValidator(_PathValidator[T]):
    """The path of a folder, or of a file in it.

    Args:
        value: any value.
        max_len, min_len: bounds of its length in characters; None for none.
    """

    @staticmethod
    def remove_prefix(string: str | None, prefix: str | None) -> tuple[bool, str | None]:
        """A text without its beginning.

        Returns:
            True and the rest; False and the text as it is, where it does not begin so, or one of both is None.
        """
        texts: tuple[object, object] = string, prefix
        if not all(isinstance(each, str) for each in texts) or string is None or prefix is None:
            return False, string
        if not string.startswith(prefix):
            return False, string
        return True, string.removeprefix(prefix)

    @staticmethod
    def check_is_children_path(path_: str, target_: str) -> bool:
        """True if a path is another one, or lies in it, once links are resolved.

        Args:
            path_: the upper path.
            target_: the path that may lie in it.
        """
        try:
            return bool(target_) and Path(target_).resolve().is_relative_to(Path(path_).resolve())
        except (OSError, RuntimeError, TypeError, ValueError):  # a loop of links, a null byte, no path at all
            return False

    def check_directory_permissions(self, target_mode: int) -> Self:
        """The path has exactly these permissions.

        Args:
            target_mode: the lower nine bits of its mode, such as 0o750.
        """
        return self._expect(
            lambda path: stat.S_IMODE(Path(path).stat().st_mode) & 0o777 == target_mode,
            f"a path with the permissions {_octal(target_mode)}",
        )

    def check_dir_file_number(self, max_number: int = FILES_MOST) -> Self:
        """The folder has at most so many entries."""

        def fits(path: str) -> bool:
            with os.scandir(path) as entries:
                return sum(1 for _ in islice(entries, max_number + 1)) <= max_number

        return self._expect(fits, f"a folder with at most {max_number} files")


class FileValidator(_PathValidator[T]):
    """The path of a file.

    Args:
        value: any value.
        max_len, min_len: bounds of its length in characters; None for none.
    """

    def __init__(self, value: T, max_len: int | None = None, min_len: int | None = 0) -> None:
        super().__init__(value, max_len, min_len)
        self.path_should_exist()

    def check_file_size(self, max_size: int = FILE_BYTES_MOST, min_size: int = 0) -> Self:
        """The file has more than `min_size` bytes, and at most `max_size`. An empty file fails, as with TaskD."""
        return self._expect(
            lambda path: min_size < Path(path).stat().st_size <= max_size,
            f"a file of more than {min_size} bytes, and at most {max_size}",
        )
