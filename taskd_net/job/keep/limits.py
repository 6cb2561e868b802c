"""Times and sizes of a Manager with its state in etcd, each with the reason for its value: pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EtcdLimits:
    """Times and sizes; no user sets them."""

    lease_s: int = 5
    """Seconds without a sign of life after which a Manager with its state in etcd leads no more. etcd grants whole
    seconds, and by default none below two."""

    renew_s: float = 1.0
    """Seconds between two renewals of the lease. It outlasts an election among etcd's members that begins just before
    one: some 3 s on a busy machine."""

    margin_s: float = 0.5
    """Seconds before the end of the lease at which its holder stops deciding: far more than two clocks differ in 5
    s."""

    look_s: float = 0.25
    """Seconds between two looks at the lease of another Manager."""

    yields_s: float = 2.0
    """Seconds that a standby leaves the lease to others after etcd was away. The Manager that has led takes it sooner,
    and its children need not move."""

    gone_s: float = 8.0
    """Seconds that a Manager waits at its start for the lease of one before it, which may have been killed a moment
    ago."""

    member_s: float = 0.7
    """Seconds for one member of etcd to answer before the next one is asked. A commit takes milliseconds; an election
    among the members takes one or two seconds."""

    call_s: float = 3.5
    """Seconds for one request to etcd, over all members: as long as the lease outlasts without a renewal."""

    again_s: float = 0.2
    """Seconds before a commit that no member has answered is tried again."""

    commit_keys: int = 100
    """Keys in one request to etcd, which takes 128 by default."""

    commit_chars: int = 400_000
    """Characters in one request to etcd, which takes 1.5 MiB by default; staged as JSON they may double."""

    value_chars: int = 100_000
    """Characters of one value in etcd; a longer part of the state takes several."""

    read_keys: int = 64
    """Keys that are read at once: 6.4 MB at most, below what a client of gRPC receives here."""
