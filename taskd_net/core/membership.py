"""Membership of a job: a node and its children belong to one.

A child says the id of its job at Register, and a parent of another job refuses it. A child without an id is a member.
The rule protects from mistakes, such as a wrong address: an id is no secret, and anybody can say it.
"""

from __future__ import annotations

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.base.untrusted import shown


class OtherJob(Refusal):
    """The refusal of a node of another job: 4999, as the same request would be refused again."""


class Membership:
    """The job of one node.

    Args:
        job_id: its id; empty for a node that takes its parent's.

    Attributes:
        job_id: the same; that of the first parent with an id, once the node has taken it.
    """

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id

    def excludes(self, other: str) -> bool:
        """True if a node with this id belongs to another job. Nothing is known about a node without one."""
        return bool(self.job_id and other) and self.job_id != other

    def require(self, position: Position, other: str) -> None:
        """Check the id of a child.

        Raises:
            OtherJob: it is that of another job.
        """
        if self.excludes(other):
            text = f"{position} is of job {shown(other)}, and this node of job {shown(self.job_id)}"
            raise OtherJob(Code.CLIENT_ERR, text)

    def take(self, parents: str) -> bool:
        """Take the id of a parent, for good, unless this node has one. Returns whether it has one from now on only."""
        takes = bool(parents) and not self.job_id
        if takes:
            self.job_id = parents
        return takes
