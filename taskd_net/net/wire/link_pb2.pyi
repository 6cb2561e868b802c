from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Batch(_message.Message):
    __slots__ = ("messages", "patience", "accepted", "answers", "taken", "spans", "branches", "joined", "numbers", "accepted_numbers", "answer_numbers")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    patience: _containers.RepeatedScalarFieldContainer[int]
    accepted: _containers.RepeatedScalarFieldContainer[str]
    answers: _containers.RepeatedScalarFieldContainer[bytes]
    taken: int
    spans: _containers.RepeatedCompositeFieldContainer[SpanContext]
    branches: _containers.RepeatedCompositeFieldContainer[Branch]
    joined: int
    numbers: _containers.RepeatedScalarFieldContainer[int]
    accepted_numbers: _containers.RepeatedScalarFieldContainer[int]
    answer_numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, messages: _Optional[_Iterable[bytes]] = ..., patience: _Optional[_Iterable[int]] = ..., accepted: _Optional[_Iterable[str]] = ..., answers: _Optional[_Iterable[bytes]] = ..., taken: _Optional[int] = ..., spans: _Optional[_Iterable[_Union[SpanContext, _Mapping]]] = ..., branches: _Optional[_Iterable[_Union[Branch, _Mapping]]] = ..., joined: _Optional[int] = ..., numbers: _Optional[_Iterable[int]] = ..., accepted_numbers: _Optional[_Iterable[int]] = ..., answer_numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("number", "announcement", "report", "renewal", "patience", "routes", "end")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCEMENT_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    RENEWAL_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    number: int
    announcement: bytes
    report: bytes
    renewal: bool
    patience: int
    routes: str
    end: str
    def __init__(self, number: _Optional[int] = ..., announcement: _Optional[bytes] = ..., report: _Optional[bytes] = ..., renewal: bool = ..., patience: _Optional[int] = ..., routes: _Optional[str] = ..., end: _Optional[str] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("number", "ack", "pace", "offer")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    number: int
    ack: bytes
    pace: bytes
    offer: str
    def __init__(self, number: _Optional[int] = ..., ack: _Optional[bytes] = ..., pace: _Optional[bytes] = ..., offer: _Optional[str] = ...) -> None: ...

class Branch(_message.Message):
    __slots__ = ("answer", "receivers", "failures")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    answer: int
    receivers: int
    failures: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, answer: _Optional[int] = ..., receivers: _Optional[int] = ..., failures: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SpanContext(_message.Message):
    __slots__ = ("uuid", "traceparent", "tracestate")
    UUID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    traceparent: str
    tracestate: str
    def __init__(self, uuid: _Optional[str] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ...) -> None: ...
