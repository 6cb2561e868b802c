"""Validators at their bounds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd.python.utils.validator import (
    ClassValidator,
    DirectoryValidator,
    FileValidator,
    IntValidator,
    MapValidator,
    RankSizeValidator,
    StringValidator,
    Validator,
)

pytestmark = pytest.mark.oldest

ODD = [None, True, 0, 3, 1.5, b"x", "x", [], {}, (), object(), int]


def test_checks_run_in_their_order_until_one_fails() -> None:
    ran: list[str] = []

    def checker(name: str, passes: bool) -> Callable[[object], bool]:
        def check(_: object) -> bool:
            ran.append(name)
            return passes

        return check

    validator = Validator(5).register_checker(checker("a", True), "no a").register_checker(checker("b", False), "no b")
    validator.register_checker(checker("c", False), "no c")
    assert ran == [] and validator.msg == ""
    assert validator.check() is validator
    assert (ran, validator.msg, validator.is_valid()) == (["a", "b"], "no b", False)
    assert (validator.get_value(), validator.get_value(7)) == (None, 7)
    assert ran == ["a", "b"]  # once


def test_value_of_a_valid_one() -> None:
    validator = Validator("x").register_checker(lambda text: len(text) < 2)
    assert validator.get_value("y") == "x"  # it checks by itself
    assert validator.is_valid() and validator.msg == ""
    assert Validator(None).is_valid()  # nothing is expected


def test_check_after_a_check() -> None:
    validator = Validator(5).check()
    assert validator.is_valid()
    assert not validator.register_checker(lambda value: value > 5).is_valid()
    assert validator.msg == "5 is not valid"


@pytest.mark.parametrize("error", [ValueError("no"), TypeError(), RecursionError(), KeyError(1), OSError(5, "x")])
def test_exception_in_a_check_is_its_failure(error: Exception) -> None:
    def fail(_: object) -> bool:
        raise error

    validator = Validator(1).register_checker(fail, "it failed")
    assert not validator.is_valid() and validator.msg == "it failed"


def test_whoever_wants_to_end_the_process_does() -> None:
    def leave(_: object) -> bool:
        raise SystemExit

    with pytest.raises(SystemExit):
        Validator(1).register_checker(leave).check()


@pytest.mark.parametrize(
    ("value", "classes", "valid"),
    [(2, int, True), ("2", int, False), ("2", (int, str), True), (None, (int, str), False), (2, "no class", False)],
)
def test_class(value: object, classes: Any, valid: bool) -> None:
    assert ClassValidator(value, classes).check_isinstance().is_valid() is valid


def test_class_is_named() -> None:
    validator = ClassValidator("x", (int, dict)).check_isinstance().check()
    assert validator.msg == "the value is 'x'; expected a value of the class int or dict"


@pytest.mark.parametrize(
    ("text", "bounds", "valid"),
    [
        ("", {}, True),
        ("x" * 10_000, {}, True),
        ("ab", {"min_len": 2}, True),
        ("a", {"min_len": 2}, False),
        ("abc", {"max_len": 3}, True),
        ("abcd", {"max_len": 3}, False),
        ("", {"max_len": 0}, True),
        ("a", {"max_len": 0, "min_len": None}, False),
        (["a"], {"max_len": 3}, False),
    ],
)
def test_length_of_a_text(text: object, bounds: dict[str, int], valid: bool) -> None:
    assert StringValidator(text, **bounds).check_string_length().check().is_valid() is valid


def test_length_is_checked_on_demand() -> None:
    assert StringValidator("abcd", max_len=3).is_valid()


@pytest.mark.parametrize(
    ("text", "element", "valid"), [("password", "pass", False), ("word", "pass", True), ("x", "", False)]
)
def test_black_element(text: str, element: str, valid: bool) -> None:
    assert StringValidator(text).check_not_contain_black_element(element).is_valid() is valid


@pytest.mark.parametrize(
    ("text", "bounds", "valid"),
    [
        ("0", (), True),
        ("4095", (), True),
        ("4096", (), False),
        ("0012", (), True),
        ("-1", (), False),
        ("+1", (), False),
        (" 1", (), False),
        ("1,2", (), False),
        ("1.0", (), False),
        ("²", (), False),
        ("", (), False),
        ("9" * 5000, (), False),
        ("100", (100, 200), True),
        ("99", (100, 200), False),
        ("200", (100, 200), True),
        ("201", (100, 200), False),
        (12, (), False),
    ],
)
def test_number_in_a_text(text: object, bounds: tuple[int, ...], valid: bool) -> None:
    assert StringValidator(text).can_be_transformed2int(*bounds).check().is_valid() is valid


@pytest.mark.parametrize(
    ("number", "bounds", "valid"),
    [
        (0, {}, True),
        (-(10**30), {}, True),
        (0, {"min_value": 0, "max_value": 12}, True),
        (12, {"min_value": 0, "max_value": 12}, True),
        (-1, {"min_value": 0, "max_value": 12}, False),
        (13, {"min_value": 0, "max_value": 12}, False),
        (13, {"min_value": 0}, True),
        (-13, {"max_value": 0}, True),
        (True, {}, False),
        (1.0, {}, False),
        ("1", {}, False),
    ],
)
def test_number(number: object, bounds: dict[str, int], valid: bool) -> None:
    assert IntValidator(number, **bounds).check_value().check().is_valid() is valid


def test_number_out_of_bounds_is_named() -> None:
    assert (
        IntValidator(13, 0, 12).check_value().check().msg
        == "the value is 13; expected a number at least 0 and at most 12"
    )


@pytest.mark.parametrize(
    ("value", "keys", "valid"),
    [
        ({"a": True, "b": {"c": 1}}, ["a", "b"], True),
        ({"a": 1, "b": 2, "c": 3}, ["a", "b"], True),
        ({"a": True}, ["a", "b"], False),
        ({}, [], True),
        ({}, None, True),
        ([("a", 1)], ["a"], False),
        ({"a": 1}, [[]], False),
    ],
)
def test_mapping(value: object, keys: Any, valid: bool) -> None:
    assert MapValidator(value, inclusive_keys=keys).is_valid() is valid


@pytest.mark.parametrize(("rank", "valid"), [(-1, False), (0, True), (4095, True), (4096, False), ("1", False)])
def test_rank(rank: object, valid: bool) -> None:
    assert RankSizeValidator(rank).check_rank_size_valid().check().is_valid() is valid


@pytest.mark.parametrize(("number", "valid"), [(0, False), (1, True), (4096, True), (4097, False), (True, False)])
def test_number_of_devices(number: object, valid: bool) -> None:
    assert RankSizeValidator(number).check_device_num_valid().check().is_valid() is valid


def chain(path: object) -> DirectoryValidator[object]:
    """The checks of a path of a folder."""
    return DirectoryValidator(path, max_len=255).check_is_not_none().check_dir_name().path_should_exist(is_file=False)


@pytest.mark.parametrize(
    ("path", "valid"),
    [
        ("a/bc/d", True),
        ("a..b/c...", True),
        ("a/b/.././c", False),
        ("..", False),
        ("/..", False),
        ("", False),
        (None, False),
        (b"a", False),
    ],
)
def test_name_of_a_folder(path: object, valid: bool) -> None:
    assert DirectoryValidator(path).check_is_not_none().check_dir_name().check().is_valid() is valid


@pytest.mark.parametrize(("length", "valid"), [(255, True), (256, False)])
def test_length_of_a_path(length: int, valid: bool) -> None:
    assert DirectoryValidator("x" * length, max_len=255).is_valid() is valid


def test_file_and_folder_that_should_exist(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert DirectoryValidator(str(file)).path_should_exist().is_valid()
    assert DirectoryValidator(str(file)).path_should_exist(is_file=False).is_valid()
    assert not DirectoryValidator(str(tmp_path / "none")).path_should_exist(is_file=False).is_valid()
    assert chain(str(tmp_path)).is_valid()
    assert not DirectoryValidator(str(tmp_path)).path_should_exist().is_valid()
    missing = DirectoryValidator(str(tmp_path / "none")).path_should_exist(msg="no such file")
    assert not missing.is_valid() and missing.msg == "no such file"
    assert not DirectoryValidator("\0").path_should_exist().is_valid()
    assert not DirectoryValidator("").path_should_exist(is_file=False).is_valid()


def test_path_that_should_not_exist(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")
    assert DirectoryValidator(str(tmp_path / "none")).path_should_not_exist().is_valid()
    assert not DirectoryValidator(str(tmp_path)).path_should_not_exist().is_valid()
    assert not DirectoryValidator(str(link)).path_should_not_exist().is_valid()


@pytest.mark.parametrize("kind", [DirectoryValidator, FileValidator])
def test_links(kind: type[DirectoryValidator[str]] | type[FileValidator[str]], tmp_path: Path) -> None:
    folder, link, loop = tmp_path / "folder", tmp_path / "link", tmp_path / "loop"
    folder.mkdir()
    (folder / "file").touch()
    link.symlink_to(folder)
    (folder / "file-link").symlink_to("file")
    loop.symlink_to(loop)
    assert kind(str(folder / "file")).check_not_soft_link().is_valid()
    for path in (link / "file", folder / "file-link", loop, loop / "file"):
        assert not kind(str(path)).check_not_soft_link().is_valid(), path


@pytest.mark.parametrize(("files", "valid"), [(0, True), (3, True), (4, False)])
def test_number_of_files(files: int, valid: bool, tmp_path: Path) -> None:
    for number in range(files):
        (tmp_path / str(number)).touch()
    assert DirectoryValidator(str(tmp_path)).check_dir_file_number(3).is_valid() is valid


def test_number_of_files_by_default(tmp_path: Path) -> None:
    for number in range(4096):
        (tmp_path / str(number)).touch()
    assert DirectoryValidator(str(tmp_path)).check_dir_file_number().is_valid()
    (tmp_path / "more").touch()
    assert not DirectoryValidator(str(tmp_path)).check_dir_file_number().is_valid()
    assert not DirectoryValidator(str(tmp_path / "more")).check_dir_file_number().is_valid()


@pytest.mark.parametrize(("user", "group", "valid"), [(0, 0, True), (0, 1, True), (1, 0, True), (1, 1, False)])
def test_owner_or_group(user: int, group: int, valid: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = tmp_path.stat()
    monkeypatch.setattr(os, "geteuid", lambda: status.st_uid + user)
    monkeypatch.setattr(os, "getegid", lambda: status.st_gid + group)
    monkeypatch.setattr(os, "getgroups", list)
    assert DirectoryValidator(str(tmp_path)).check_user_group().is_valid() is valid
    assert not DirectoryValidator(str(tmp_path / "none")).check_user_group().is_valid()


@pytest.mark.parametrize(("mode", "valid"), [(0o755, True), (0o700, True), (0o775, False), (0o757, False)])
def test_permissions(mode: int, valid: bool, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    assert DirectoryValidator(str(tmp_path)).check_permissions().is_valid() is valid


@pytest.mark.parametrize(
    ("path", "listed", "exact", "valid"),
    [
        ("/abc/d/e", ["/abc/d/e"], True, False),
        ("/abc/d/e/", ["/abc/d/e"], True, False),
        ("/abc/d/e", [""], True, True),
        ("/abc/d/e", [], True, True),
        ("/abc/d/e", ["/abc/d/"], True, True),
        ("/abc/d/e", ["/abc/d/"], False, False),
        ("/abc/de", ["/abc/d"], False, True),
        ("/abc/x/../d/e", ["/abc/d"], False, False),
        ("/etc", None, True, False),
        ("/etc/passwd", None, True, True),
        ("/etc/passwd", None, False, False),
        ("/user/restore/fault/config", None, False, True),
    ],
)
def test_black_list(path: str, listed: list[str] | None, exact: bool, valid: bool) -> None:
    assert DirectoryValidator(path).with_blacklist(listed, exact_compare=exact).is_valid() is valid


def test_link_into_the_black_list(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    link = str(tmp_path / "link" / "passwd")
    assert not DirectoryValidator(link).with_blacklist(exact_compare=False, msg="listed").is_valid()
    assert DirectoryValidator(link).with_blacklist(exact_compare=False, msg="listed").check().msg == "listed"


@pytest.mark.parametrize(
    ("path", "words", "valid"),
    [
        ("/a/PassWord.txt", None, False),
        ("/a/private_key", None, False),
        ("/a/words", None, True),
        ("/a/words", ["WORD"], False),
        ("/a/password", [], True),
    ],
)
def test_sensitive_words(path: str, words: list[str] | None, valid: bool) -> None:
    assert DirectoryValidator(path).should_not_contains_sensitive_words(words).is_valid() is valid


@pytest.mark.parametrize(("size", "valid"), [(0, False), (1, True), (1_048_576, True), (1_048_577, False)])
def test_size_of_a_file(size: int, valid: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(size)
    assert FileValidator(str(path)).check_file_size().is_valid() is valid
    assert FileValidator(str(path)).check_file_size(size, size - 1).is_valid()
    assert not FileValidator(str(path)).check_file_size(size, size).is_valid()


@pytest.mark.parametrize(("mode", "valid"), [(0o750, True), (0o4750, True), (0o755, False), (0o700, False)])
def test_permissions_of_a_folder(mode: int, valid: bool, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert DirectoryValidator(str(folder)).check_directory_permissions(0o750).is_valid() is valid


@pytest.mark.parametrize(
    ("text", "prefix", "result"),
    [
        ("/a/b", "/a", (True, "/b")),
        ("/a", "/a", (True, "")),
        ("/a/b", "/b", (False, "/a/b")),
        ("/a", "/a/b", (False, "/a")),
        (None, "/a", (False, None)),
        ("/a", None, (False, "/a")),
        (5, "/a", (False, 5)),
    ],
)
def test_text_without_its_beginning(text: Any, prefix: Any, result: tuple[bool, Any]) -> None:
    assert DirectoryValidator.remove_prefix(text, prefix) == result


def test_path_in_another_one(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    within = DirectoryValidator.check_is_children_path
    assert within(str(tmp_path), str(tmp_path / "in")) and within(str(tmp_path), str(tmp_path))
    assert within(str(tmp_path / "in"), str(tmp_path / "link" / "none"))
    assert not within(str(tmp_path / "in"), str(tmp_path))
    assert not within(str(tmp_path / "in"), str(tmp_path / "inner"))  # a name that begins so
    assert not within(str(tmp_path / "in"), "")
    assert not within(str(tmp_path / "in"), "\0")
    assert not within(str(tmp_path / "in"), str(tmp_path / "loop"))


def test_message_of_a_validator() -> None:
    assert Validator(5, "no").register_checker(lambda _: False).check().msg == "no"
    assert Validator(5, "no").register_checker(lambda _: False, "none").check().msg == "none"


def test_file_has_to_be_one(tmp_path: Path) -> None:
    assert not FileValidator(str(tmp_path)).is_valid()
    assert not FileValidator(str(tmp_path / "none")).is_valid()
    os.mkfifo(tmp_path / "fifo")
    assert not FileValidator(str(tmp_path / "fifo")).check_file_size().is_valid()


def untyped(value: Any) -> Any:
    """For calls that mypy would refuse."""
    return value


def odd(path: str) -> Any:
    """A validator that takes any argument."""
    return DirectoryValidator(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: odd(path).check_directory_permissions("755"),
        lambda path: odd(path).check_directory_permissions(None),
        lambda path: odd(path).with_blacklist([None, 5]),
        lambda path: odd(path).with_blacklist(5),
        lambda path: odd(path).should_not_contains_sensitive_words([None]),
        lambda path: odd(path).should_not_contains_sensitive_words(5),
        lambda _: untyped(MapValidator)({}, 5),
    ],
)
def test_odd_arguments_of_a_check_fail_it(make: Callable[[str], Validator[Any]], tmp_path: Path) -> None:
    validator = make(str(tmp_path))
    assert validator.is_valid() is False and validator.msg


CHAINS: list[Callable[[object], Validator[Any]]] = [
    lambda value: ClassValidator(value, str).check_isinstance(),
    lambda value: StringValidator(value, 9, 1).check_string_length().check_not_contain_black_element("x"),
    lambda value: StringValidator(value).can_be_transformed2int(),
    lambda value: IntValidator(value, 0, 9).check_value(),
    lambda value: MapValidator(value, ["a"]),
    lambda value: RankSizeValidator(value).check_rank_size_valid().check_device_num_valid(),
    lambda value: chain(value).check_not_soft_link().check_user_group().check_permissions().check_dir_file_number(),
    lambda value: chain(value).with_blacklist().with_blacklist(exact_compare=False).path_should_not_exist(),
    lambda value: FileValidator(value).check_file_size().check_not_soft_link().check_user_group(),
]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.sampled_from(ODD),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=4,
)


@pytest.mark.parametrize("make", CHAINS, ids=range(len(CHAINS)))
@given(value=ANY)
def test_any_value_has_a_verdict_and_a_message(make: Callable[[object], Validator[Any]], value: object) -> None:
    validator = make(value)
    assert validator.is_valid() == (validator.msg == "")
    default = object()
    assert validator.get_value(default) is (value if validator.is_valid() else default)
    assert len(validator.msg) < 400
