from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Batch(_message.Message):
    __slots__ = ("messages", "patience", "accepted", "answers", "taken")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    patience: _containers.RepeatedScalarFieldContainer[int]
    accepted: _containers.RepeatedScalarFieldContainer[str]
    answers: _containers.RepeatedScalarFieldContainer[bytes]
    taken: int
    def __init__(self, messages: _Optional[_Iterable[bytes]] = ..., patience: _Optional[_Iterable[int]] = ..., accepted: _Optional[_Iterable[str]] = ..., answers: _Optional[_Iterable[bytes]] = ..., taken: _Optional[int] = ...) -> None: ...
