"""Codec of the messages of `proto/job.proto`: each has the fields of one dataclass of `job_view`, by the same names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableSequence, Sequence
from dataclasses import is_dataclass
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError, Message

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.stacks import WHOLE_CHARS, StackGroup, documents, read_stacks
from taskd_net.base.untrusted import json_line
from taskd_net.net.wire import job_pb2
from taskd_net.observe.job_view import (
    AgentView,
    BooksView,
    CauseView,
    ClusterdView,
    DecisionView,
    DeviceView,
    FailureView,
    GuiltyView,
    HangView,
    JobCounters,
    JobView,
    LeaderView,
    MessageView,
    StreamView,
)

TEXT_CHARS: Final = 512
"""Characters of each text in the state of a job that is sent to a caller: a plugin's texts have no bound of their own.
The widest state has 6 MB then, and 10 MiB are received."""

VIEWS: Final[Mapping[str, type]] = {
    "Job": JobView,
    "Stream": StreamView,
    "Agent": AgentView,
    "Decision": DecisionView,
    "Device": DeviceView,
    "Command": MessageView,
    "Counters": JobCounters,
    "Clusterd": ClusterdView,
    "Leader": LeaderView,
    "Failure": FailureView,
    "Cause": CauseView,
    "Books": BooksView,
    "Hang": HangView,
    "Guilty": GuiltyView,
}
_INT64: Final = range(-(2**63), 2**63)
_SECONDS_MOST: Final = 1e11
"""A time beyond all calendars: the year 5138."""


def write_job(view: JobView) -> bytes:
    """Serialize the state of a job. Its histogram stays here: the metrics have it."""
    whole = job_pb2.Job()
    _write(view, whole)
    return whole.SerializeToString()


def read_job(data: bytes) -> JobView:
    """Read the state of a job.

    Raises:
        Refusal: 4999, the bytes are not the state of a job, or have a time that is none.
    """
    try:
        view = _read(job_pb2.Job.FromString(data))
    except (DecodeError, ValueError) as error:
        raise Refusal(Code.CLIENT_ERR, "the bytes are not the state of a job") from error
    assert isinstance(view, JobView)
    return view


class Stacks(NamedTuple):
    """The stacks of a job's ranks, for a caller.

    Attributes:
        groups: ranks with equal stacks, the odd ones first.
        silent: nodes whose Agent has not answered.
        file: at the Manager; empty where none could be written.
        age: seconds since they were collected.
    """

    groups: Sequence[StackGroup]
    silent: Sequence[int]
    file: str
    age: float


def write_stacks_request(ranks: Collection[int]) -> bytes:
    """Serialize a request for stacks: of ranks, or of all without any."""
    return job_pb2.StacksRequest(ranks=sorted(ranks)).SerializeToString()


def read_stacks_request(data: bytes) -> frozenset[int]:
    """Read a request for stacks.

    Raises:
        ValueError: the bytes are none, or a rank is no natural number.
    """
    try:
        ranks = frozenset(job_pb2.StacksRequest.FromString(data).ranks)
    except DecodeError as error:
        raise ValueError("the bytes are no request for stacks") from error
    if any(rank < 0 for rank in ranks):
        raise ValueError(f"rank is {min(ranks)}; expected a whole number, at least 0")
    return ranks


def write_stacks_answer(stacks: Stacks) -> bytes:
    """Serialize stacks."""
    text = json_line(documents(stacks.groups), compact=True)
    answer = job_pb2.StacksAnswer(stacks=text, silent=stacks.silent, file=stacks.file, age=stacks.age)
    return answer.SerializeToString()


def read_stacks_answer(data: bytes) -> Stacks:
    """Read stacks.

    Raises:
        Refusal: 4999, the bytes are none.
    """
    try:
        answer = job_pb2.StacksAnswer.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.CLIENT_ERR, "the bytes are no stacks") from error
    groups = read_stacks(answer.stacks, WHOLE_CHARS)
    if groups is None or not 0.0 <= answer.age <= _SECONDS_MOST:
        raise Refusal(Code.CLIENT_ERR, "the answer has no stacks")
    return Stacks(groups, tuple(answer.silent), answer.file, answer.age)


def _write(view: object, message: Message) -> None:
    for field in message.DESCRIPTOR.fields:
        value = getattr(view, field.name)
        if isinstance(value, tuple):
            target = getattr(message, field.name)
            for each in value:
                if is_dataclass(each):
                    _write(each, target.add())
                else:
                    target.append(_plain(each))
        elif isinstance(value, Mapping):
            getattr(message, field.name).update({_plain(key): _plain(number) for key, number in value.items()})
        elif is_dataclass(value):
            part = getattr(message, field.name)
            part.SetInParent()  # also where all of it is zero
            _write(value, part)
        elif value is not None:
            setattr(message, field.name, _plain(value))


def _plain(value: Any) -> Any:
    """A value that fits: a rank is as long as its sender made it, and a text as its plugin."""
    if isinstance(value, str):
        # A lone surrogate of a JSON text has no bytes.
        return value[:TEXT_CHARS].encode(errors="replace").decode()
    if type(value) is int and value not in _INT64:
        return _INT64[-1] if value > 0 else _INT64[0]
    return value


def _read(message: Message) -> object:
    fields: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if isinstance(value, Mapping):
            fields[field.name] = found = dict(value)
            if not all(0.0 <= each <= _SECONDS_MOST for each in found.values() if isinstance(each, float)):
                raise ValueError("no seconds")
        elif isinstance(value, MutableSequence):
            fields[field.name] = tuple(_read(each) if isinstance(each, Message) else each for each in value)
        elif isinstance(value, Message):
            # An earlier Manager does not send each part.
            sent = message.HasField(field.name)
            fields[field.name] = _read(value) if sent else VIEWS[value.DESCRIPTOR.name]()
        elif isinstance(value, float) and not 0.0 <= value <= _SECONDS_MOST:
            raise ValueError("no time")
        else:
            absent = field.has_presence and not message.HasField(field.name)
            fields[field.name] = None if absent else value
    return VIEWS[message.DESCRIPTOR.name](**fields)
