"""The id of a job: in settings, and in the metadata of a call.

The nodes of one tree belong to one job. A node without an id takes that of its parent.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import natural, shown

JOB_ID_BYTES: Final = 256
"""UTF-8 bytes of an id. The longest name in Kubernetes has 253."""

NO_ID: Final = "none"
"""torchrun's default for the id of a run, which is no id."""

ATTEMPTS_MOST: Final = 2**31 - 1
"""The greatest number of an attempt."""

_ATTEMPT: Final = "#"
_ESCAPED_CHARS: Final = 3 * JOB_ID_BYTES


def job_id_of(text: str | None) -> str:
    """The id in the text of a setting; empty for none."""
    return "" if text is None or text == NO_ID else text


def attempt_id(own: str, attempt: int | None) -> str:
    """The id of an attempt: nodes of two attempts of a job are of two jobs. The first one has the id of the job."""
    return f"{own}{_ATTEMPT}{attempt}" if own and attempt else own


def attempt_of(own: str) -> tuple[str, int]:
    """The id of the job, and the number of the attempt, in the id of an attempt."""
    base, mark, digits = own.rpartition(_ATTEMPT)
    number = natural(digits, ATTEMPTS_MOST) if mark and base else None
    return (own, 0) if not number else (base, number)


def require_job_id(name: str, value: object) -> None:
    """Check the value of a setting with an id.

    Raises:
        ConfigError: names the setting, its value and what was expected.
    """
    if value is None:
        return
    try:
        fits = isinstance(value, str) and len(value.encode()) <= JOB_ID_BYTES
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise ConfigError(f"{name} is {shown(value)}; expected a text of at most {JOB_ID_BYTES} bytes in UTF-8")


def escaped(own: str) -> str:
    """An id as metadata has it: gRPC takes printable ASCII there, and an id is any text."""
    return quote(own, safe="")


def unescaped(text: str) -> str:
    """The id in a peer's metadata. Any text is one, if an odd one, and is cut to the bytes of an id."""
    whole = unquote(text[:_ESCAPED_CHARS], errors="replace").encode(errors="replace")
    return job_id_of(whole[:JOB_ID_BYTES].decode(errors="ignore"))
