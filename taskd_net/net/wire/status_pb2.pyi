from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN: _ClassVar[State]
    JOINED: _ClassVar[State]
    LOST: _ClassVar[State]
    GONE: _ClassVar[State]
    FINISHED: _ClassVar[State]
    STOPPED: _ClassVar[State]
UNKNOWN: State
JOINED: State
LOST: State
GONE: State
FINISHED: State
STOPPED: State

class Report(_message.Message):
    __slots__ = ("entries", "gone", "first", "complete", "urgent")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    gone: _containers.RepeatedScalarFieldContainer[str]
    first: bool
    complete: bool
    urgent: bool
    def __init__(self, entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., gone: _Optional[_Iterable[str]] = ..., first: bool = ..., complete: bool = ..., urgent: bool = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("position", "node", "away", "ended")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    AWAY_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    position: str
    node: bytes
    away: bool
    ended: State
    def __init__(self, position: _Optional[str] = ..., node: _Optional[bytes] = ..., away: bool = ..., ended: _Optional[_Union[State, str]] = ...) -> None: ...

class Pace(_message.Message):
    __slots__ = ("figures_ms",)
    FIGURES_MS_FIELD_NUMBER: _ClassVar[int]
    figures_ms: int
    def __init__(self, figures_ms: _Optional[int] = ...) -> None: ...

class TreeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ForgetRequest(_message.Message):
    __slots__ = ("position",)
    POSITION_FIELD_NUMBER: _ClassVar[int]
    position: str
    def __init__(self, position: _Optional[str] = ...) -> None: ...

class Forgotten(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: str
    def __init__(self, state: _Optional[str] = ...) -> None: ...

class Mesh(_message.Message):
    __slots__ = ("root", "now_ms", "expected", "entries")
    ROOT_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    root: str
    now_ms: int
    expected: str
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    def __init__(self, root: _Optional[str] = ..., now_ms: _Optional[int] = ..., expected: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("parent", "state", "since_ms", "peer", "version", "link", "address", "last_message_ms", "down", "up", "own", "reopened", "at_ms", "service", "not_answering", "end_reason")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LAST_MESSAGE_MS_FIELD_NUMBER: _ClassVar[int]
    DOWN_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    NOT_ANSWERING_FIELD_NUMBER: _ClassVar[int]
    END_REASON_FIELD_NUMBER: _ClassVar[int]
    parent: str
    state: State
    since_ms: int
    peer: str
    version: str
    link: str
    address: str
    last_message_ms: int
    down: Flow
    up: Flow
    own: Own
    reopened: int
    at_ms: int
    service: bool
    not_answering: bool
    end_reason: str
    def __init__(self, parent: _Optional[str] = ..., state: _Optional[_Union[State, str]] = ..., since_ms: _Optional[int] = ..., peer: _Optional[str] = ..., version: _Optional[str] = ..., link: _Optional[str] = ..., address: _Optional[str] = ..., last_message_ms: _Optional[int] = ..., down: _Optional[_Union[Flow, _Mapping]] = ..., up: _Optional[_Union[Flow, _Mapping]] = ..., own: _Optional[_Union[Own, _Mapping]] = ..., reopened: _Optional[int] = ..., at_ms: _Optional[int] = ..., service: bool = ..., not_answering: bool = ..., end_reason: _Optional[str] = ...) -> None: ...

class Flow(_message.Message):
    __slots__ = ("messages", "bytes", "in_flight", "queued", "ack_p50_us", "ack_p99_us", "failed")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    ACK_P50_US_FIELD_NUMBER: _ClassVar[int]
    ACK_P99_US_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    messages: int
    bytes: int
    in_flight: int
    queued: int
    ack_p50_us: int
    ack_p99_us: int
    failed: int
    def __init__(self, messages: _Optional[int] = ..., bytes: _Optional[int] = ..., in_flight: _Optional[int] = ..., queued: _Optional[int] = ..., ack_p50_us: _Optional[int] = ..., ack_p99_us: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class Own(_message.Message):
    __slots__ = ("listen", "inbox", "inbox_room", "inbox_line", "delivered", "lost", "reconnects", "up", "inbox_closed", "link_reason", "upstream", "job_id")
    LISTEN_FIELD_NUMBER: _ClassVar[int]
    INBOX_FIELD_NUMBER: _ClassVar[int]
    INBOX_ROOM_FIELD_NUMBER: _ClassVar[int]
    INBOX_LINE_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    RECONNECTS_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    INBOX_CLOSED_FIELD_NUMBER: _ClassVar[int]
    LINK_REASON_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    listen: str
    inbox: int
    inbox_room: int
    inbox_line: int
    delivered: int
    lost: int
    reconnects: int
    up: Flow
    inbox_closed: bool
    link_reason: str
    upstream: str
    job_id: str
    def __init__(self, listen: _Optional[str] = ..., inbox: _Optional[int] = ..., inbox_room: _Optional[int] = ..., inbox_line: _Optional[int] = ..., delivered: _Optional[int] = ..., lost: _Optional[int] = ..., reconnects: _Optional[int] = ..., up: _Optional[_Union[Flow, _Mapping]] = ..., inbox_closed: bool = ..., link_reason: _Optional[str] = ..., upstream: _Optional[str] = ..., job_id: _Optional[str] = ...) -> None: ...
