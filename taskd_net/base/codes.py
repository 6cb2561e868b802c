"""Every answer code of the mesh, and the errors that carry one (docs/contract.md, section 6; TaskD API reference).

The errors, with the built-in ones that they also are:

    TaskdNetError
    ├── ConfigError            ValueError: a value in the configuration is not usable; names it and what was expected
    ├── ArgumentError          ValueError: the same of a call's argument
    │   └── ArgumentTypeError  TypeError: the argument is of another type
    ├── NodeError              RuntimeError: the node cannot do this now; it was not started, or started before
    │   └── NodeClosed         the node is closed, and nothing is left in its inbox
    │       └── NodeForked     this process was forked off one that has a node, and can have none itself
    ├── NodeTimeout            TimeoutError: not joined, or nothing received, in time
    └── MeshError              a message was not delivered; carries code, src, uuid, detail (`core.frame`)
        ├── SenderError        4xxx: the message itself is wrong; sending it again will not help
        ├── ReceiverError      5xxx: the far side could not take it; may be sent again with the same uuid
        └── NetworkError       6xxx: it got lost on the way, or its answer did; may be sent again with the same uuid

`except TaskdNetError` catches all that this package raises. Each can be copied and pickled, with what it carries.

`Refusal` is the core's own exception for "answer with this code"; it never leaves the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Self


class Code(IntEnum):
    """The codes of an Ack, each with its `meaning` in a phrase."""

    meaning: str

    def __new__(cls, value: int, meaning: str = "") -> Self:
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    OK = 0, "delivered (sync) or taken by the first hop (async)"
    NIL_MESSAGE = 4000, "there is no message, or what came cannot be read as one"
    NIL_HEADER = 4001, "the message has no header"
    NIL_POSITION = 4002, "the message has no src or no dst"
    DST_ROLE_ILLEGAL = 4003, "the destination's role is not Mgr, Proxy, Agent or Worker"
    DST_SRV_RANK_ILLEGAL = 4004, "the destination's serverRank is not a natural number, a comma list of them, or All"
    DST_PROCESS_RANK_ILLEGAL = 4005, "the destination's processRank is not a natural number, a comma list, or All"
    DST_TYPE_ILLEGAL = 4006, "a destination of this type cannot be carried (a rank list beyond the limit)"
    CLIENT_ERR = 4999, "the sender's request cannot be carried out (too large, closed node, no upstream to announce to)"
    RECV_BUF_NIL = 5000, "the destination has no inbox, or has closed it"
    RECV_BUF_BUSY = 5001, "an inbox or a link's queue is full; the sender still has the message"
    NO_ROUTE = 5002, "nobody on the way knows the destination"
    EXCEED_MAX_REGISTRY_NUM = 5003, "the parent has its maximum of children"
    SERVER_ERR = 5999, "the far side failed in itself"
    NETWORK_SEND_LOST = 6000, "the stream broke before the message was written"
    NETWORK_ACK_LOST = 6001, "the message was written and no answer came in time"
    NET_STREAM_NOT_INITED = 6002, "the next hop is known, but its stream is not up"
    NET_ERR = 6999, "the network answered with something unknown"


def describe(code: int) -> str:
    """`"5002 NO_ROUTE: nobody on the way knows the destination"`; a bare number for a code that is not ours."""
    try:
        known = Code(code)
    except ValueError:
        return f"{code}: a code that this version does not know"
    return f"{int(known)} {known.name}: {known.meaning}"


class TaskdNetError(Exception):
    """The root of all errors of this package."""

    def __reduce__(self) -> tuple[object, ...]:
        # Not by calling the class with `args`, as an exception's own does: those are the text alone.
        return _made_again, (type(self), self.args, self.__dict__)


def _made_again(kind: type[TaskdNetError], args: tuple[object, ...], carried: Mapping[str, object]) -> TaskdNetError:
    """An error as it was, from a pickle or for a copy."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(carried)
    return error


class ConfigError(TaskdNetError, ValueError):
    """A configured value is not usable. The text names the field, the value and what was expected."""


class ArgumentError(TaskdNetError, ValueError):
    """An argument is not usable. The text names the argument, its value and what was expected."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of another type than was expected."""


class NodeError(TaskdNetError, RuntimeError):
    """The node cannot do this now; the text says why."""


class NodeClosed(NodeError):
    """The node is closed, and nothing is left in its inbox."""


class NodeForked(NodeClosed):
    """The process was forked off one that has a node; the node is the parent's, and this process can have none."""


class NodeTimeout(TaskdNetError, TimeoutError):
    """The node has not joined, or nothing came in, within the time given."""


class Refusal(TaskdNetError):
    """Raised inside the core to answer with a code; turned into an Ack at the gate where the request came in."""

    def __init__(self, code: Code, detail: str, uuid: str = "", *, sync: bool = False) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.uuid = uuid
        self.sync = sync
