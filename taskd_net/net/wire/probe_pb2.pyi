from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PingRequest(_message.Message):
    __slots__ = ("to", "count", "interval", "timeout")
    TO_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    to: str
    count: int
    interval: float
    timeout: float
    def __init__(self, to: _Optional[str] = ..., count: _Optional[int] = ..., interval: _Optional[float] = ..., timeout: _Optional[float] = ...) -> None: ...

class TraceRequest(_message.Message):
    __slots__ = ("to", "timeout")
    TO_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    to: str
    timeout: float
    def __init__(self, to: _Optional[str] = ..., timeout: _Optional[float] = ...) -> None: ...

class Echo(_message.Message):
    __slots__ = ("code", "src", "seconds", "link", "detail", "receivers", "failures")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SRC_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    code: int
    src: str
    seconds: float
    link: str
    detail: str
    receivers: int
    failures: _containers.RepeatedCompositeFieldContainer[NotReached]
    def __init__(self, code: _Optional[int] = ..., src: _Optional[str] = ..., seconds: _Optional[float] = ..., link: _Optional[str] = ..., detail: _Optional[str] = ..., receivers: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[NotReached, _Mapping]]] = ...) -> None: ...

class NotReached(_message.Message):
    __slots__ = ("position", "code")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    position: str
    code: int
    def __init__(self, position: _Optional[str] = ..., code: _Optional[int] = ...) -> None: ...

class AboutRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AboutNode(_message.Message):
    __slots__ = ("position", "version", "time_ns", "parent", "job_id")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    position: str
    version: str
    time_ns: int
    parent: str
    job_id: str
    def __init__(self, position: _Optional[str] = ..., version: _Optional[str] = ..., time_ns: _Optional[int] = ..., parent: _Optional[str] = ..., job_id: _Optional[str] = ...) -> None: ...
