from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LookRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StacksRequest(_message.Message):
    __slots__ = ("ranks",)
    RANKS_FIELD_NUMBER: _ClassVar[int]
    ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ranks: _Optional[_Iterable[int]] = ...) -> None: ...

class StacksAnswer(_message.Message):
    __slots__ = ("stacks", "silent", "file", "age")
    STACKS_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    stacks: str
    silent: _containers.RepeatedScalarFieldContainer[int]
    file: str
    age: float
    def __init__(self, stacks: _Optional[str] = ..., silent: _Optional[_Iterable[int]] = ..., file: _Optional[str] = ..., age: _Optional[float] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("job_id", "at", "nodes", "processes_per_node", "recovers", "restarts_left", "paused", "retry_time", "streams", "agents", "agents_known", "agents_in_trouble", "workers", "profiling", "decisions", "counters", "state_file", "plugins_off", "clusterd", "fault_mode", "devices", "devices_known", "devices_isolated", "leader", "agents_silent", "unprotected", "restarts", "failures", "ended", "waits_for", "waits_left", "nodes_missing", "books", "hang")
    class ProfilingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    RECOVERS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_LEFT_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    RETRY_TIME_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    AGENTS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    AGENTS_IN_TROUBLE_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    PROFILING_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    STATE_FILE_FIELD_NUMBER: _ClassVar[int]
    PLUGINS_OFF_FIELD_NUMBER: _ClassVar[int]
    CLUSTERD_FIELD_NUMBER: _ClassVar[int]
    FAULT_MODE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    DEVICES_KNOWN_FIELD_NUMBER: _ClassVar[int]
    DEVICES_ISOLATED_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    AGENTS_SILENT_FIELD_NUMBER: _ClassVar[int]
    UNPROTECTED_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    WAITS_LEFT_FIELD_NUMBER: _ClassVar[int]
    NODES_MISSING_FIELD_NUMBER: _ClassVar[int]
    BOOKS_FIELD_NUMBER: _ClassVar[int]
    HANG_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    at: float
    nodes: int
    processes_per_node: int
    recovers: bool
    restarts_left: int
    paused: bool
    retry_time: int
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    agents: _containers.RepeatedCompositeFieldContainer[Agent]
    agents_known: int
    agents_in_trouble: int
    workers: int
    profiling: _containers.ScalarMap[int, int]
    decisions: _containers.RepeatedCompositeFieldContainer[Decision]
    counters: Counters
    state_file: str
    plugins_off: _containers.RepeatedScalarFieldContainer[str]
    clusterd: Clusterd
    fault_mode: str
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    devices_known: int
    devices_isolated: int
    leader: Leader
    agents_silent: int
    unprotected: int
    restarts: str
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    ended: str
    waits_for: str
    waits_left: float
    nodes_missing: int
    books: Books
    hang: Hang
    def __init__(self, job_id: _Optional[str] = ..., at: _Optional[float] = ..., nodes: _Optional[int] = ..., processes_per_node: _Optional[int] = ..., recovers: bool = ..., restarts_left: _Optional[int] = ..., paused: bool = ..., retry_time: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ..., agents: _Optional[_Iterable[_Union[Agent, _Mapping]]] = ..., agents_known: _Optional[int] = ..., agents_in_trouble: _Optional[int] = ..., workers: _Optional[int] = ..., profiling: _Optional[_Mapping[int, int]] = ..., decisions: _Optional[_Iterable[_Union[Decision, _Mapping]]] = ..., counters: _Optional[_Union[Counters, _Mapping]] = ..., state_file: _Optional[str] = ..., plugins_off: _Optional[_Iterable[str]] = ..., clusterd: _Optional[_Union[Clusterd, _Mapping]] = ..., fault_mode: _Optional[str] = ..., devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., devices_known: _Optional[int] = ..., devices_isolated: _Optional[int] = ..., leader: _Optional[_Union[Leader, _Mapping]] = ..., agents_silent: _Optional[int] = ..., unprotected: _Optional[int] = ..., restarts: _Optional[str] = ..., failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ..., ended: _Optional[str] = ..., waits_for: _Optional[str] = ..., waits_left: _Optional[float] = ..., nodes_missing: _Optional[int] = ..., books: _Optional[_Union[Books, _Mapping]] = ..., hang: _Optional[_Union[Hang, _Mapping]] = ...) -> None: ...

class Books(_message.Message):
    __slots__ = ("wall", "stage", "seconds", "done", "again", "step", "highest", "of", "left")
    class SecondsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    WALL_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    wall: float
    stage: str
    seconds: _containers.ScalarMap[str, float]
    done: int
    again: int
    step: int
    highest: int
    of: int
    left: float
    def __init__(self, wall: _Optional[float] = ..., stage: _Optional[str] = ..., seconds: _Optional[_Mapping[str, float]] = ..., done: _Optional[int] = ..., again: _Optional[int] = ..., step: _Optional[int] = ..., highest: _Optional[int] = ..., of: _Optional[int] = ..., left: _Optional[float] = ...) -> None: ...

class Hang(_message.Message):
    __slots__ = ("state", "since", "noticed", "limit", "words", "guilty", "limits")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    NOTICED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    GUILTY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    state: str
    since: float
    noticed: float
    limit: float
    words: str
    guilty: _containers.RepeatedCompositeFieldContainer[Guilty]
    limits: _containers.ScalarMap[str, float]
    def __init__(self, state: _Optional[str] = ..., since: _Optional[float] = ..., noticed: _Optional[float] = ..., limit: _Optional[float] = ..., words: _Optional[str] = ..., guilty: _Optional[_Iterable[_Union[Guilty, _Mapping]]] = ..., limits: _Optional[_Mapping[str, float]] = ...) -> None: ...

class Guilty(_message.Message):
    __slots__ = ("rank", "node", "pid", "seen", "words")
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    node: int
    pid: int
    seen: str
    words: str
    def __init__(self, rank: _Optional[int] = ..., node: _Optional[int] = ..., pid: _Optional[int] = ..., seen: _Optional[str] = ..., words: _Optional[str] = ...) -> None: ...

class Stream(_message.Message):
    __slots__ = ("name", "owner", "plugins", "barred")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    BARRED_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner: str
    plugins: _containers.RepeatedScalarFieldContainer[str]
    barred: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., owner: _Optional[str] = ..., plugins: _Optional[_Iterable[str]] = ..., barred: _Optional[_Iterable[str]] = ...) -> None: ...

class Agent(_message.Message):
    __slots__ = ("rank", "registered", "asking", "fault", "fault_ranks", "fault_at", "exited", "heartbeat", "commands", "worker_state", "silent_since", "left")
    RANK_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    ASKING_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    FAULT_RANKS_FIELD_NUMBER: _ClassVar[int]
    FAULT_AT_FIELD_NUMBER: _ClassVar[int]
    EXITED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    WORKER_STATE_FIELD_NUMBER: _ClassVar[int]
    SILENT_SINCE_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    registered: bool
    asking: bool
    fault: bool
    fault_ranks: _containers.RepeatedScalarFieldContainer[int]
    fault_at: float
    exited: bool
    heartbeat: float
    commands: _containers.RepeatedScalarFieldContainer[int]
    worker_state: str
    silent_since: float
    left: bool
    def __init__(self, rank: _Optional[int] = ..., registered: bool = ..., asking: bool = ..., fault: bool = ..., fault_ranks: _Optional[_Iterable[int]] = ..., fault_at: _Optional[float] = ..., exited: bool = ..., heartbeat: _Optional[float] = ..., commands: _Optional[_Iterable[int]] = ..., worker_state: _Optional[str] = ..., silent_since: _Optional[float] = ..., left: bool = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("device", "rank", "fault_type", "level", "code", "reason", "isolated", "action", "since", "node", "reporter")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    FAULT_TYPE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ISOLATED_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REPORTER_FIELD_NUMBER: _ClassVar[int]
    device: str
    rank: int
    fault_type: str
    level: str
    code: str
    reason: str
    isolated: bool
    action: str
    since: float
    node: int
    reporter: str
    def __init__(self, device: _Optional[str] = ..., rank: _Optional[int] = ..., fault_type: _Optional[str] = ..., level: _Optional[str] = ..., code: _Optional[str] = ..., reason: _Optional[str] = ..., isolated: bool = ..., action: _Optional[str] = ..., since: _Optional[float] = ..., node: _Optional[int] = ..., reporter: _Optional[str] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("number", "at", "plugin", "cause", "messages", "sent", "acknowledged", "lost", "calls", "restarts")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    at: float
    plugin: str
    cause: str
    messages: _containers.RepeatedCompositeFieldContainer[Command]
    sent: int
    acknowledged: int
    lost: int
    calls: _containers.RepeatedScalarFieldContainer[str]
    restarts: int
    def __init__(self, number: _Optional[int] = ..., at: _Optional[float] = ..., plugin: _Optional[str] = ..., cause: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[Command, _Mapping]]] = ..., sent: _Optional[int] = ..., acknowledged: _Optional[int] = ..., lost: _Optional[int] = ..., calls: _Optional[_Iterable[str]] = ..., restarts: _Optional[int] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("to", "code", "message", "uuid", "answer", "lost")
    TO_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    to: str
    code: int
    message: str
    uuid: str
    answer: int
    lost: bool
    def __init__(self, to: _Optional[str] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., uuid: _Optional[str] = ..., answer: _Optional[int] = ..., lost: bool = ...) -> None: ...

class Counters(_message.Message):
    __slots__ = ("reports", "refused", "signals", "ticks", "decisions", "rounds", "commands", "resends", "acknowledged", "lost", "plugin_failures", "store_failures", "durable", "fault_to_command_count", "fault_to_command_seconds", "device_faults")
    class DecisionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class PluginFailuresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class DeviceFaultsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    TICKS_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    RESENDS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FAILURES_FIELD_NUMBER: _ClassVar[int]
    STORE_FAILURES_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    FAULT_TO_COMMAND_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAULT_TO_COMMAND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FAULTS_FIELD_NUMBER: _ClassVar[int]
    reports: int
    refused: int
    signals: int
    ticks: int
    decisions: _containers.ScalarMap[str, int]
    rounds: int
    commands: int
    resends: int
    acknowledged: int
    lost: int
    plugin_failures: _containers.ScalarMap[str, int]
    store_failures: int
    durable: bool
    fault_to_command_count: int
    fault_to_command_seconds: float
    device_faults: _containers.ScalarMap[str, int]
    def __init__(self, reports: _Optional[int] = ..., refused: _Optional[int] = ..., signals: _Optional[int] = ..., ticks: _Optional[int] = ..., decisions: _Optional[_Mapping[str, int]] = ..., rounds: _Optional[int] = ..., commands: _Optional[int] = ..., resends: _Optional[int] = ..., acknowledged: _Optional[int] = ..., lost: _Optional[int] = ..., plugin_failures: _Optional[_Mapping[str, int]] = ..., store_failures: _Optional[int] = ..., durable: bool = ..., fault_to_command_count: _Optional[int] = ..., fault_to_command_seconds: _Optional[float] = ..., device_faults: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Clusterd(_message.Message):
    __slots__ = ("address", "state", "taken", "repeated", "foreign", "unreadable", "keep_alives", "unknown_actions", "failed_actions", "reports_sent", "reports_refused", "reports_unanswered", "reports_void", "reconnects", "rounds", "refused")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    KEEP_ALIVES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    FAILED_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    REPORTS_SENT_FIELD_NUMBER: _ClassVar[int]
    REPORTS_REFUSED_FIELD_NUMBER: _ClassVar[int]
    REPORTS_UNANSWERED_FIELD_NUMBER: _ClassVar[int]
    REPORTS_VOID_FIELD_NUMBER: _ClassVar[int]
    RECONNECTS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    address: str
    state: str
    taken: int
    repeated: int
    foreign: int
    unreadable: int
    keep_alives: int
    unknown_actions: int
    failed_actions: int
    reports_sent: int
    reports_refused: int
    reports_unanswered: int
    reports_void: int
    reconnects: int
    rounds: int
    refused: str
    def __init__(self, address: _Optional[str] = ..., state: _Optional[str] = ..., taken: _Optional[int] = ..., repeated: _Optional[int] = ..., foreign: _Optional[int] = ..., unreadable: _Optional[int] = ..., keep_alives: _Optional[int] = ..., unknown_actions: _Optional[int] = ..., failed_actions: _Optional[int] = ..., reports_sent: _Optional[int] = ..., reports_refused: _Optional[int] = ..., reports_unanswered: _Optional[int] = ..., reports_void: _Optional[int] = ..., reconnects: _Optional[int] = ..., rounds: _Optional[int] = ..., refused: _Optional[str] = ...) -> None: ...

class Leader(_message.Message):
    __slots__ = ("name", "term", "since", "changes", "decides", "committed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    DECIDES_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    term: int
    since: float
    changes: int
    decides: bool
    committed: float
    def __init__(self, name: _Optional[str] = ..., term: _Optional[int] = ..., since: _Optional[float] = ..., changes: _Optional[int] = ..., decides: bool = ..., committed: _Optional[float] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("number", "first", "at", "lived", "others", "answer", "answered", "lost", "phases", "stepped", "hung")
    class PhasesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    LIVED_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    STEPPED_FIELD_NUMBER: _ClassVar[int]
    HUNG_FIELD_NUMBER: _ClassVar[int]
    number: int
    first: Cause
    at: float
    lived: float
    others: _containers.RepeatedScalarFieldContainer[int]
    answer: str
    answered: float
    lost: _containers.RepeatedScalarFieldContainer[int]
    phases: _containers.ScalarMap[str, float]
    stepped: bool
    hung: str
    def __init__(self, number: _Optional[int] = ..., first: _Optional[_Union[Cause, _Mapping]] = ..., at: _Optional[float] = ..., lived: _Optional[float] = ..., others: _Optional[_Iterable[int]] = ..., answer: _Optional[str] = ..., answered: _Optional[float] = ..., lost: _Optional[_Iterable[int]] = ..., phases: _Optional[_Mapping[str, float]] = ..., stepped: bool = ..., hung: _Optional[str] = ...) -> None: ...

class Cause(_message.Message):
    __slots__ = ("rank", "node", "host", "pid", "end", "at", "kind", "message", "file", "line", "function", "traceback", "last_lines")
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    LAST_LINES_FIELD_NUMBER: _ClassVar[int]
    rank: int
    node: int
    host: str
    pid: int
    end: str
    at: float
    kind: str
    message: str
    file: str
    line: int
    function: str
    traceback: _containers.RepeatedScalarFieldContainer[str]
    last_lines: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rank: _Optional[int] = ..., node: _Optional[int] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., end: _Optional[str] = ..., at: _Optional[float] = ..., kind: _Optional[str] = ..., message: _Optional[str] = ..., file: _Optional[str] = ..., line: _Optional[int] = ..., function: _Optional[str] = ..., traceback: _Optional[_Iterable[str]] = ..., last_lines: _Optional[_Iterable[str]] = ...) -> None: ...
