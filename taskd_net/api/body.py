"""Bodies of TaskD's own traffic; see `taskd_net.body`."""

from __future__ import annotations

from taskd_net.body import Body

__all__ = ["Body"]
