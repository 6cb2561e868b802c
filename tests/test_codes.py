"""The codes, in numbers and names of the contract (section 6), and the errors that carry one."""

import copy
import importlib
import pickle
import pkgutil
import re
import signal
from collections.abc import Callable, Iterator

import pytest

import taskd_net
from taskd_net import (
    ArgumentError,
    ArgumentTypeError,
    Code,
    ConfigError,
    MeshError,
    NetworkError,
    NodeClosed,
    NodeError,
    NodeTimeout,
    Position,
    ReceiverError,
    SenderError,
    TaskdNetError,
)
from taskd_net.base import codes
from taskd_net.base.address import Address
from taskd_net.base.codes import Refusal, describe
from taskd_net.core.identity import Violation
from taskd_net.core.membership import OtherJob
from taskd_net.demo.fleet import Interrupted
from taskd_net.job.agent.workers import Malformed
from taskd_net.job.faults.rules import Problem, RulesRefused
from taskd_net.net.joining.serve import CannotListen
from taskd_net.observe.client import AskFailed


def test_codes_are_those_of_the_contract() -> None:
    assert {code.name: code.value for code in Code} == {
        "OK": 0,
        "NIL_MESSAGE": 4000,
        "NIL_HEADER": 4001,
        "NIL_POSITION": 4002,
        "DST_ROLE_ILLEGAL": 4003,
        "DST_SRV_RANK_ILLEGAL": 4004,
        "DST_PROCESS_RANK_ILLEGAL": 4005,
        "DST_TYPE_ILLEGAL": 4006,
        "CLIENT_ERR": 4999,
        "RECV_BUF_NIL": 5000,
        "RECV_BUF_BUSY": 5001,
        "NO_ROUTE": 5002,
        "EXCEED_MAX_REGISTRY_NUM": 5003,
        "SERVER_ERR": 5999,
        "NETWORK_SEND_LOST": 6000,
        "NETWORK_ACK_LOST": 6001,
        "NET_STREAM_NOT_INITED": 6002,
        "NET_ERR": 6999,
    }


def test_every_code_has_a_meaning_of_its_own() -> None:
    meanings = [code.meaning for code in Code]
    assert all(meanings)
    assert len(set(meanings)) == len(meanings)


def test_description_of_a_code() -> None:
    assert describe(5002) == "5002 NO_ROUTE: nobody on the way knows the destination"
    assert describe(4711) == "4711: a code that this version does not know"


def public_errors() -> Iterator[type[Exception]]:
    """Every exception that is defined anywhere in the package, but for a module's own."""
    for module in pkgutil.walk_packages(taskd_net.__path__, "taskd_net."):
        # `make torch` tests that package, where torch is installed.
        if not module.name.endswith("__main__") and not module.name.startswith("taskd_net.torch"):
            for name, value in vars(importlib.import_module(module.name)).items():
                own = isinstance(value, type) and issubclass(value, Exception) and value.__module__ == module.name
                if own and not name.startswith("_"):
                    yield value


ERRORS = sorted(set(public_errors()), key=lambda kind: kind.__name__)
MADE: dict[type[Exception], Callable[[], Exception]] = {
    **{
        kind: lambda kind=kind: kind(5001, Position.worker(0, 3), "some-uuid", "words")  # type: ignore[misc]
        for kind in (MeshError, SenderError, ReceiverError, NetworkError)
    },
    **{
        kind: lambda kind=kind: kind(Code.NO_ROUTE, "words", "some-uuid", sync=True)  # type: ignore[misc]
        for kind in (Refusal, Violation, OtherJob)
    },
    Interrupted: lambda: Interrupted(signal.SIGINT),
    CannotListen: lambda: CannotListen(Address("127.0.0.1", 9601)),
    AskFailed: lambda: AskFailed("words", implemented=False),
    Malformed: lambda: Malformed("a kind", "words"),
    RulesRefused: lambda: RulesRefused((Problem("PollInterval", "", "'x'", "a number", "refused", refused=True),)),
}


def test_errors_are_found() -> None:
    assert {ArgumentError, ConfigError, MeshError, NodeClosed, NodeTimeout, AskFailed, Refusal} < set(ERRORS)


@pytest.mark.parametrize("kind", ERRORS)
def test_one_except_catches_every_error(kind: type[Exception]) -> None:
    assert issubclass(kind, TaskdNetError)


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])  # noqa: S301
def test_error_is_pickled_and_copied_with_what_it_carries(
    kind: type[Exception], again: Callable[[Exception], Exception]
) -> None:
    error = MADE.get(kind, lambda: kind("timeout is 'x'; expected a number"))()
    error.add_note("a note")
    made = again(error)
    assert made is not error and type(made) is kind
    assert (str(made), repr(made), made.args) == (str(error), repr(error), error.args)
    assert vars(made) == vars(error) and made.__notes__ == ["a note"]


@pytest.mark.parametrize(
    ("kind", "built_in"),
    [
        (ConfigError, ValueError),
        (ArgumentError, ValueError),
        (ArgumentTypeError, TypeError),
        (ArgumentTypeError, ValueError),
        (NodeError, RuntimeError),
        (NodeClosed, RuntimeError),
        (NodeTimeout, TimeoutError),
    ],
)
def test_error_is_the_built_in_one_too(kind: type[Exception], built_in: type[Exception]) -> None:
    assert issubclass(kind, built_in)


def test_drawn_tree_is_the_tree() -> None:
    """In the docstring: each exported error below the one that it is derived from, and no other."""
    drawn: list[tuple[int, str]] = []
    parents: dict[str, str | None] = {}
    for line in (codes.__doc__ or "").splitlines():
        if named := re.match(r"([ │├└─]{4,})(\w+(?:Error|Closed|Forked|Timeout))\b", line):
            depth, name = len(named[1]), named[2]
            drawn = [above for above in drawn if above[0] < depth]
            parents[name] = drawn[-1][1] if drawn else None
            drawn.append((depth, name))
    exported = [getattr(taskd_net, name) for name in taskd_net.__all__]
    errors = [kind for kind in exported if isinstance(kind, type) and issubclass(kind, Exception)]
    assert parents == {kind.__name__: None if kind is TaskdNetError else kind.__bases__[0].__name__ for kind in errors}
