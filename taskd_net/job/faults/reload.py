"""The reload of the files: what a look at them leads to, and the time of the next one.

A period is as long as the file `PollInterval` said at its beginning. So a changed one counts from the next period on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from taskd_net.job.faults import editions
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.reading import poll_interval, read_rules
from taskd_net.job.faults.rules import POLL_FILE, FaultRules, Problem, RulesRefused


class Reloaded(NamedTuple):
    """The result of a look that has found something new.

    Args:
        rules: to use from now on; None: the files are refused, and the rules in force stay.
        problems: everything in the files that is not as expected.
        reason: of the refusal, in words.
    """

    rules: FaultRules | None
    problems: tuple[Problem, ...] = ()
    reason: str = ""


class Reload:
    """The files that were seen last, and the present period.

    Args:
        edition: by which the files are read.
        linkdown_timeout: default of the documented FaultTimeout, in seconds.

    Attributes:
        due: time of the next look, in seconds on the caller's clock; the first one is due at once.
    """

    def __init__(
        self, edition: Edition = Edition.DOCUMENTED, linkdown_timeout: int = editions.LINKDOWN_TIMEOUT.default or 0
    ) -> None:
        self.due = float("-inf")
        self._edition = edition
        self._linkdown_timeout = linkdown_timeout
        self._seen: Mapping[str, bytes] | str | None = None
        self._interval = editions.POLL_INTERVAL.default or 0

    def look(self, seen: Mapping[str, bytes] | str, now: float) -> Reloaded | None:
        """Take in what a look has seen.

        Args:
            seen: the bytes of each file by its name; a text: they cannot be read, for that reason.
            now: the time.

        Returns:
            The result; None where nothing has changed since the last look.
        """
        reloaded = None
        if seen != self._seen:
            self._seen = seen
            reloaded = self._read(seen)
        if now >= self.due:
            self.due = now + self._interval
        return reloaded

    def _read(self, seen: Mapping[str, bytes] | str) -> Reloaded:
        if isinstance(seen, str):
            return Reloaded(None, (), seen)
        self._interval, problem = poll_interval(seen.get(POLL_FILE))
        more = () if problem is None else (problem,)
        try:
            rules, problems = read_rules(seen, self._edition, self._linkdown_timeout)
        except RulesRefused as error:
            return Reloaded(None, (*error.problems, *more), str(error))
        return Reloaded(rules, (*problems, *more))
