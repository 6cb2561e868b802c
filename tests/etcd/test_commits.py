"""Commits as transactions: any size, in order, within etcd's bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskd_net.job.keep.commits import PART, STAGED, Slices, pieces, steps, write_out
from taskd_net.job.keep.limits import EtcdLimits

PARTS = st.dictionaries(st.text("abc/", min_size=1, max_size=4), st.none() | st.text("xyz", max_size=40), max_size=12)


def apply(values: dict[str, str], changes: tuple[tuple[str, str | None], ...]) -> None:
    """Write changes, as etcd does."""
    for name, value in changes:
        if value is not None:
            values[name] = value
        elif name == STAGED:
            for each in [each for each in values if each.startswith(name)]:
                del values[each]
        else:
            values.pop(name, None)


@given(st.lists(PARTS, max_size=5))
def test_parts_of_any_length_are_read_as_they_were_written(commits: list[dict[str, str | None]]) -> None:
    limits = EtcdLimits(value_chars=7)
    slices, values, wanted = Slices(limits=limits), dict[str, str](), dict[str, str]()
    for number, parts in enumerate(commits):
        changes = slices.cut(parts)
        assert len({name for name, _ in changes}) == len(changes), "etcd refuses a key that comes twice"
        apply(values, tuple(changes))
        wanted = {name: text for name, text in {**wanted, **parts}.items() if text is not None}
        read, again = Slices.joined(values, limits)
        assert read == wanted, number
        slices = again if number % 2 else slices


def test_small_commit_is_one_transaction() -> None:
    (only,) = steps([("part/rest", "1"), ("part/agent/1", None)], "5.1", "5.2")
    assert (only.follows, only.becomes) == ("5.1", "5.2")
    assert only.changes == (("part/rest", "1"), ("part/agent/1", None))


def test_large_commit_is_staged_and_counts_from_one_transaction_on() -> None:
    changes = [(f"part/agent/{rank}", str(rank)) for rank in range(5)]
    made = steps(changes, "5.1", "5.2", EtcdLimits(commit_keys=2))
    assert [(each.follows, each.becomes) for each in made] == [
        *[("5.1", "5.1")] * 3,
        ("5.1", "5.2+3"),
        *[("5.2+3", "5.2+3")] * 3,
        ("5.2+3", "5.2"),
    ]
    values: dict[str, str] = {}
    for each in made[:4]:
        apply(values, each.changes)
    assert not [name for name in values if name.startswith(PART)]
    # A Manager that finds it so writes it out as the one before would have.
    assert write_out("5.2+3", [values[name] for name in pieces("5.2+3")]) == made[4:]
    for each in made[4:]:
        apply(values, each.changes)
    assert values == dict(changes), "nothing of the stage is left"


def test_bounds_of_etcd_are_kept() -> None:
    parts: dict[str, str | None] = {f"agent/{rank}": "x" * 900 for rank in range(5_000)}
    parts |= {"rest": '"' * 1_700_000, "gone": None}
    made = steps(Slices().cut(parts), "", "5.1")
    assert max(len(each.changes) for each in made) <= 127, "etcd takes 128, with the token"
    most = max(sum(len(name) + len(value or "") for name, value in each.changes) for each in made)
    assert most < 1_400_000
