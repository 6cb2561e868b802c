"""Evidence of a scenario, as outside observers have it, and its summary to compare with the expected one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields

from taskd_net_lab.demos.job.terms import BEGAN, COMMAND, ENDED, HUNG, REGISTERED, REPLY, RESET


@dataclass(frozen=True, slots=True)
class Seen:
    """One observed event.

    Args:
        who: the process: `Mgr`, `Agent/1`, `Worker/3`, `ClusterD`, or `Plugin`.
        what: `began`, `ended`, `command` (received; of ClusterD, that it refused Init), `reply` (received),
            `registered`, `hung`, or `reset` (asked for). Other events are no part of the summary.
        pid: of the process, as the kernel says.
        code: of a command; the exit code of a process that has ended.
        text: the message of a command; the restarts left for a training process; the reply.
        uuid: of a reply.
    """

    who: str
    what: str
    pid: int = 0
    code: int = 0
    text: str = ""
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """The course of a scenario.

    Args:
        commands: received by each Agent and Worker, in order: code and message.
        starts: restarts that were left for each process of a training rank, in order: `3 2` for two processes.
        exits: exit codes of the launchers and of the Mgr, in order. 1 is an Agent that was told to leave.
        running: the processes that run at the end, by name.
        replies: received by ClusterD, each uuid once.
        hung: the plugin that was called, and hung.
        resets: devices whose reset was asked for, in order.
    """

    commands: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, str] = field(default_factory=dict)
    exits: Mapping[str, str] = field(default_factory=dict)
    running: str = ""
    replies: str = ""
    hung: str = ""
    resets: str = ""

    @classmethod
    def of(cls, seen: Iterable[Seen]) -> Summary:
        """Sum up evidence."""
        commands: dict[str, list[str]] = {}
        starts: dict[str, list[str]] = {}
        exits: dict[str, list[str]] = {}
        lives: dict[int, str] = {}
        replies: dict[str, str] = {}
        hung = ""
        resets: list[str] = []
        for each in seen:
            if each.what == BEGAN:
                lives[each.pid] = each.who
                if each.who.startswith("Worker/"):
                    starts.setdefault(each.who, []).append(each.text)
            elif each.what == ENDED:
                lives.pop(each.pid, None)
                if not each.who.startswith("Worker/"):
                    exits.setdefault(each.who, []).append(str(each.code))
            elif each.what == COMMAND:
                commands.setdefault(each.who, []).append(f"{each.code} {each.text}".strip())
            elif each.what == REPLY:
                replies[each.uuid] = each.text
            elif each.what == HUNG:
                hung = each.who
            elif each.what == RESET:
                resets.append(each.text)
        return cls(
            commands={who: ", ".join(each) for who, each in sorted(commands.items())},
            starts={who: " ".join(each) for who, each in sorted(starts.items())},
            exits={who: " ".join(each) for who, each in sorted(exits.items())},
            running=", ".join(sorted(lives.values())),
            replies=", ".join(replies.values()),
            hung=hung,
            resets=", ".join(resets),
        )

    def differences(self, expected: Summary) -> Iterator[str]:
        """Each point in which it is not as expected, in words."""
        for point in fields(self):
            came, due = getattr(self, point.name), getattr(expected, point.name)
            if isinstance(due, Mapping):
                for who in sorted(due.keys() | came.keys()):
                    if came.get(who) != due.get(who):
                        yield f"{point.name} of {who}: {came.get(who, 'none')}; expected {due.get(who, 'none')}"
            elif came != due:
                yield f"{point.name}: {came or 'none'}; expected {due or 'none'}"


class Evidence:
    """Events seen so far, in order."""

    def __init__(self, seen: Iterable[Seen] = ()) -> None:
        self.seen = list(seen)

    def count(self, who: str, what: str, code: int | None = None) -> int:
        """Number of events of one kind."""
        return sum(each.who == who and each.what == what and (code is None or each.code == code) for each in self.seen)

    def pid(self, who: str) -> int:
        """Process that has begun last."""
        return next(each.pid for each in reversed(self.seen) if each.who == who and each.what == BEGAN)

    @property
    def registered(self) -> int:
        """Agents and Workers that have joined and registered, as the present Mgr has said last."""
        for each in reversed(self.seen):
            if each.who == "Mgr":
                return each.code if each.what == REGISTERED else 0
        return 0
