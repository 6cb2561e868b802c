"""Bodies of TaskD's own traffic, and the codes that this package knows.

`{"msg_type": str, "code": int, "message": str, "extension": {str: str}}`, as JSON (docs/contract.md, section 7).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from taskd_net.base.codes import ArgumentError
from taskd_net.base.untrusted import json_value, shown


@dataclass(frozen=True, slots=True)
class Body:
    """The content of a message of TaskD's.

    Args:
        msg_type: `REGISTER`, `STATUS`, `ACTION`, `KEEP_ALIVE`, `GRACE_EXIT` …
        code: the number of the report or command.
        message: details, as a text; the form depends on the code.
        extension: further details, by key.
    """

    msg_type: str
    code: int
    message: str = ""
    extension: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Values from the wire or from a training script have any type.
        code, extension = cast(object, self.code), cast(object, self.extension)
        if not isinstance(self.msg_type, str):
            raise ArgumentError(f"msg_type is {shown(self.msg_type)}; expected a text")
        if not isinstance(code, int) or isinstance(code, bool):
            raise ArgumentError(f"code is {shown(code)}; expected a whole number")
        if not isinstance(self.message, str):
            raise ArgumentError(f"message is {shown(self.message)}; expected a text")
        texts = isinstance(extension, Mapping) and all(isinstance(t, str) for item in extension.items() for t in item)
        if not texts:
            raise ArgumentError(f"extension is {shown(extension)}; expected a dict of texts")

    @classmethod
    def parse(cls, text: str) -> Body:
        """Read a body. `message` and `extension` may be missing or null.

        JSON can spell half a surrogate pair, which UTF-8 cannot: it is read as U+FFFD, as the original's nodes read it.

        Raises:
            ArgumentError: it is no JSON object, a value in it is of another type, or it is nested too deeply.
        """
        try:
            fields = json_value(text)
        except ValueError as error:
            raise ArgumentError(str(error)) from None
        if not isinstance(fields, dict):
            raise ArgumentError(f"body is {shown(text)}; expected a JSON object")
        return cls(
            _text(fields.get("msg_type", "")),
            fields.get("code", 0),
            _text(fields.get("message") or ""),
            _texts(fields.get("extension") or {}),
        )

    def to_json(self) -> str:
        """The body as it goes over the wire."""
        fields = {"msg_type": self.msg_type, "code": self.code, "message": self.message}
        return _encode({**fields, "extension": dict(self.extension)})


_encode: Final = json.JSONEncoder(ensure_ascii=False).encode


def _texts(extension: Any) -> Any:
    return {_text(key): _text(value) for key, value in extension.items()} if isinstance(extension, dict) else extension


def _text(value: Any) -> Any:
    """A text that UTF-8 can write; anything else as it is, to be refused."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value
