"""The place of a node in its job: its rank, the number of nodes, the first host, by flags, variables and platforms.

Flags have precedence, then the variables `TASKD_NET_*`, then the first platform whose set is complete. The order is
from the inside out: what starts a process last knows it best. Two rules stop the start in one line:

- A platform is seen, and no set is complete. It never becomes a job of one node.
- Two platforms state different ranks or numbers of nodes, and neither a flag nor a variable decides.

MPI and Slurm start each other: a step of Slurm has MPI's daemon, or a job's script has inherited the variables of an
MPI around it. The processes above the launcher show which of them started it last, and the other one counts for nothing
where it differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from taskd_net.base.codes import ConfigError
from taskd_net.base.job_id import ATTEMPTS_MOST
from taskd_net.base.untrusted import shown
from taskd_net.job.platforms import clouds, kubernetes, mpi, slurm, torchrun, volcano
from taskd_net.job.platforms.facts import HOST_NAME, Environment, Read, Said, Seen, count, number, text

NNODES: Final = "TASKD_NET_NNODES"
NODE_RANK: Final = "TASKD_NET_NODE_RANK"
MASTER_ADDR: Final = "TASKD_NET_MASTER_ADDR"
ATTEMPT: Final = "TASKD_NET_ATTEMPT"
"""Variables with the place of a node, for manifests."""

BARE: Final = "MASTER_ADDR"
"""Variable whose host completes a set. `RANK` and `WORLD_SIZE` beside it have three meanings, and complete none."""

DEFAULT: Final = "default"
"""Source of a fact that nothing states."""

PLATFORMS: Final[tuple[Read, ...]] = (
    torchrun.torchrun,
    torchrun.jax,
    mpi.open_mpi,
    mpi.prrte,
    mpi.hydra,
    slurm.step,
    slurm.batch,
    volcano.pytorch,
    volcano.volcano,
    kubernetes.indexed_job,
    clouds.skypilot,
    clouds.dstack,
)
"""All platforms, from the inside out."""

RANK: Final = "node rank"
SIZE: Final = "number of nodes"
HOST: Final = "first host"
"""Facts that make a set complete, in words."""

_FLAGS: Final = {
    RANK: f"--node-rank or {NODE_RANK}",
    SIZE: f"--nnodes or {NNODES}",
    HOST: f"--master-addr or {MASTER_ADDR}",
}
_ALONE: Final = "--standalone for one node"


@dataclass(frozen=True)
class Flags:
    """The place as far as flags state it. None and empty texts for flags that are not given.

    Args:
        nodes: of `--nnodes`.
        rank: of `--node-rank`.
        first_host: of `--master-addr`, or of the endpoint.
        processes: of `--nproc-per-node`.
        gives_ranks: `--rdzv-endpoint` with a backend for which the Manager gives the ranks.
        standalone: one node, whatever platforms state.
    """

    nodes: int | None = None
    rank: int | None = None
    first_host: str = ""
    processes: str = ""
    gives_ranks: bool = False
    standalone: bool = False


@dataclass(frozen=True)
class Place:
    """The place of a node, with the source of each fact.

    Args:
        nodes: number of nodes.
        rank: of this node; None for one that the Manager gives.
        first_host: empty where this host is meant.
        processes: of this node, as a text for `--nproc-per-node`; empty for torchrun's default.
        job_id: of the platform; empty for none.
        attempt: number of the job's start; None where nothing states it.
        endpoint: of the platform, for `--rdzv-endpoint`; empty for none.
        platform: name of the one in use; empty for none.
    """

    nodes: Said[int]
    rank: Said[int] | None
    first_host: Said[str]
    processes: Said[str] = field(default=Said("", DEFAULT))
    job_id: Said[str] = field(default=Said("", DEFAULT))
    attempt: Said[int] | None = None
    endpoint: str = ""
    platform: str = ""


def settle(flags: Flags, environment: Environment, host: str, above: Sequence[str] = ()) -> Place:
    """Settle the place of this node.

    Args:
        flags: of the command.
        environment: of the process.
        host: name of this host, with its domain if it has one.
        above: names of the programs above this process, the nearest first.

    Raises:
        ConfigError: one of the two rules, several launchers on a node, or a value of no use.
    """
    attempt = number(environment, ATTEMPT, most=ATTEMPTS_MOST)
    processes = Said(flags.processes, "--nproc-per-node") if flags.processes else text(environment, torchrun.PROCESSES)
    if flags.standalone:
        alone = Said(0, "--standalone")
        one, here = Said(1, "--standalone"), Said("", DEFAULT)
        return Place(one, alone, here, processes or Said("", DEFAULT), attempt=attempt)
    stated = _stated(flags, environment)
    found = () if stated.is_whole else tuple(each for read in PLATFORMS if (each := read(environment, host)))
    seen = _nearest(found, above)
    _refuse_unranked(stated, seen)
    _refuse_differences(stated, seen)
    chosen = _first_complete(stated, seen)
    return _checked(_place(stated, chosen, processes, attempt))


@dataclass(frozen=True)
class _Stated:
    """The place as far as flags and `TASKD_NET_*` state it.

    Args:
        nodes, rank, first_host: with their flags or variables.
        bare: host of the variable `MASTER_ADDR`, which others may have set.
        gives_ranks: the Manager gives ranks.
        is_bound: a variable is among them, so that a default of one node, or of this host, is out of the question.
    """

    nodes: Said[int] | None
    rank: Said[int] | None
    first_host: Said[str] | None
    bare: Said[str] | None
    gives_ranks: bool
    is_bound: bool

    @property
    def is_whole(self) -> bool:
        """True where nothing is left to a platform."""
        if self.nodes is None or (self.rank is None and not self.gives_ranks):
            return False
        return self.nodes.value == 1 or (self.first_host or self.bare) is not None

    def lacking(self, seen: Seen) -> list[str]:
        """The facts that a platform does not add."""
        nodes = self.nodes or seen.nodes
        if nodes is not None and nodes.value == 1:
            return []
        facts = {
            RANK: self.rank or (not seen.doubt and seen.rank) or self.gives_ranks or seen.endpoint,
            SIZE: nodes,
            HOST: self.host(seen),
        }
        return [name for name, fact in facts.items() if not fact]

    def host(self, seen: Seen) -> Said[str] | None:
        """The first host beside a platform. One that only follows from the name of this host comes last."""
        guessed = seen.first_host is not None and seen.first_host.by == HOST_NAME
        second = (self.bare, seen.first_host) if guessed else (seen.first_host, self.bare)
        return self.first_host or second[0] or second[1]


def _stated(flags: Flags, environment: Environment) -> _Stated:
    variables = count(environment, NNODES), number(environment, NODE_RANK), text(environment, MASTER_ADDR)
    nodes = variables[0] if flags.nodes is None else Said(flags.nodes, "--nnodes")
    rank = variables[1] if flags.rank is None else Said(flags.rank, "--node-rank")
    first_host = Said(flags.first_host, "--master-addr") if flags.first_host else variables[2]
    bound = any(each is not None for each in variables)
    # There is no order of arrival among one node.
    gives_ranks = flags.gives_ranks and (nodes is None or nodes.value > 1)
    return _Stated(nodes, rank, first_host, text(environment, BARE), gives_ranks, bound)


def _first_complete(stated: _Stated, seen: Sequence[Seen]) -> Seen | None:
    """The first platform with a complete set; None where none is seen.

    One that lacks other facts may be passed over, as an indexed Job around Kubeflow's Trainer. One that cannot tell its
    nodes apart may not: the next one might state the same rank for all of them.

    Raises:
        ConfigError: no set is complete.
    """
    for each in seen:
        lacking = stated.lacking(each)
        if not lacking:
            return each
        if RANK in lacking:
            raise ConfigError(_incomplete(stated, each))
    if seen:
        raise ConfigError(_incomplete(stated, seen[0]))
    return None


def _nearest(seen: Sequence[Seen], above: Sequence[str]) -> Sequence[Seen]:
    """The platforms in the order in which programs above this process show them, as far as they show any.

    One whose program is further up only adds facts, and counts for nothing where it contradicts the nearest one.
    """
    for name in above:
        inner = next((each for each in seen if name.startswith(each.starters)), None)
        if inner is not None:
            own = [each for each in seen if each.starters in ((), inner.starters)]
            return [*own, *(each for each in seen if each not in own and not _contradict(inner, each))]
    return seen


def _contradict(one: Seen, other: Seen) -> bool:
    return bool(one.hint or other.hint) or _differ(_rank(one), _rank(other)) or _differ(one.nodes, other.nodes)


def _refuse_unranked(stated: _Stated, seen: Sequence[Seen]) -> None:
    for each in seen:
        if each.refusal and stated.rank is None:
            raise ConfigError(f"{each.name} {each.refusal}")


def _refuse_differences(stated: _Stated, seen: Sequence[Seen]) -> None:
    """Raise where two platforms differ in what neither a flag nor a variable states.

    A rank is one among the nodes of its platform. So a platform of another size than the stated one states no rank.
    """
    is_open = stated.rank is None and not stated.gives_ranks
    for each in seen:
        if is_open and each.nodes is not None and stated.nodes is not None and _differ(each.nodes, stated.nodes):
            said = f"{SIZE} is {each.nodes.value} by {each.nodes.by} ({each.name}), and {stated.nodes.by} is"
            raise ConfigError(f"{said} {stated.nodes.value}: give {_FLAGS[RANK]}, too, or {_ALONE}")
    for number_, one in enumerate(seen):
        for other in seen[number_ + 1 :]:
            if (is_open and _differ(_rank(one), _rank(other))) or (
                _differ(one.nodes, other.nodes) and stated.nodes is None
            ):
                raise ConfigError(f"{_difference(one, other)}; expected --nnodes and --node-rank, or {_ALONE}")


def _difference(one: Seen, other: Seen) -> str:
    """The fact in which two platforms differ, in words: the number of nodes, or else the rank."""
    fact, mine, others = SIZE, one.nodes, other.nodes
    if not _differ(mine, others):
        fact, mine, others = RANK, _rank(one), _rank(other)
    said = [f"{each.value} by {each.by} ({seen.name})" for each, seen in ((mine, one), (others, other)) if each]
    return f"{fact} is {', and '.join(said)}"


def _differ(one: Said[int] | None, other: Said[int] | None) -> bool:
    return one is not None and other is not None and one.value != other.value


def _rank(seen: Seen) -> Said[int] | None:
    """The rank that a platform states. That of the only node is 0."""
    if seen.rank is None and seen.nodes is not None and seen.nodes.value == 1:
        return Said(0, seen.nodes.by)
    return seen.rank


def _incomplete(stated: _Stated, seen: Seen) -> str:
    if seen.hint:
        return f"{seen.name}: {seen.hint}, or give {_ALONE}"
    lacking = stated.lacking(seen)
    flags = ", ".join(_FLAGS[each] for each in lacking)
    verb = "is" if len(lacking) == 1 else "are"
    states = f"{seen.name}: {seen.doubt}" if seen.doubt and RANK in lacking else _facts(seen)
    return f"{states}; {' and '.join(lacking)} {verb} missing: give {flags}, or {_ALONE}"


def _facts(seen: Seen) -> str:
    """A platform with its facts, in words."""
    facts = {RANK: seen.rank, SIZE: seen.nodes, HOST: seen.first_host}
    said = [f"{name} {shown(fact.value)} by {fact.by}" for name, fact in facts.items() if fact is not None]
    return f"{seen.name} states {', '.join(said) or 'nothing of this node'}"


def _place(stated: _Stated, seen: Seen | None, processes: Said[str] | None, attempt: Said[int] | None) -> Place:
    """The place by a complete set, or without a platform.

    Raises:
        ConfigError: variables or flags lack a fact.
    """
    found = seen or Seen("")
    gives_ranks = stated.gives_ranks or (bool(found.endpoint) and stated.rank is None)
    nodes = stated.nodes or found.nodes
    if nodes is None and (bound := stated.rank or stated.first_host) is not None and stated.is_bound:
        said = f"{bound.by} is {shown(bound.value)}"
        raise ConfigError(f"{said}, and the number of nodes is missing: {_more(SIZE)}")
    nodes = nodes or Said(1, DEFAULT)
    rank = stated.rank or found.rank
    if gives_ranks and nodes.value > 1:
        rank = stated.rank
    elif rank is None and nodes.value > 1:
        raise ConfigError(f"{nodes.by} is {nodes.value}, and the node rank is missing: {_more(RANK)}")
    elif rank is None:
        rank = Said(0, nodes.by)
    first_host = stated.host(found) if nodes.value > 1 else stated.first_host or stated.bare
    if first_host is None and nodes.value > 1 and stated.is_bound:
        raise ConfigError(f"{nodes.by} is {nodes.value}, and the first host is missing: {_more(HOST)}")
    return Place(
        nodes,
        rank,
        first_host or Said("", DEFAULT),
        processes or found.processes or Said("", DEFAULT),
        found.job_id or Said("", DEFAULT),
        attempt or found.attempt,
        found.endpoint if gives_ranks and not stated.gives_ranks else "",
        found.name,
    )


def _more(fact: str) -> str:
    return f"give {_FLAGS[fact]}, or {_ALONE}"


def _checked(place: Place) -> Place:
    """The place, if the rank is one of the job."""
    nodes, rank = place.nodes, place.rank
    if rank is not None and not 0 <= rank.value < nodes.value:
        ranks = f"0 to {nodes.value - 1}" if nodes.value > 1 else "0"
        size = "--nnodes" if nodes.by == DEFAULT else nodes.by
        more = "" if rank.by == "--node-rank" else f"; {_ALONE}"
        said = "the node rank in the host name" if rank.by == HOST_NAME else rank.by
        raise ConfigError(f"{said} is {rank.value}; expected {ranks}, as {size} is {nodes.value}{more}")
    return place
