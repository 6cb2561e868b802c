"""Platforms of launchers: complete, incomplete, beside each other. In no environment two nodes become two trainings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from taskd_net.base.codes import ConfigError
from taskd_net.job.platforms import display
from taskd_net.job.platforms.facts import Said
from taskd_net.job.platforms.place import DEFAULT, Flags, Place, settle
from taskd_net.job.platforms.slurm import first_name
from taskd_net.job.platforms.torchrun import greatest
from tests.jobs import environments
from tests.jobs.environments import COMPLETE, DOMAIN, Environment

NONE = Flags()
ALONE = "--standalone for one node"


def place(name: str, nodes: int = 2, rank: int = 1, flags: Flags = NONE, **more: str) -> Place:
    environment, host = COMPLETE[name](nodes, rank)
    return settle(flags, environment | more, host)


def refused(environment: Environment, host: str = "here", flags: Flags = NONE) -> str:
    with pytest.raises(ConfigError) as error:
        settle(flags, environment, host)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "first", "processes", "job_id", "attempt"),
    [
        ("slurm", "n2", "", "41.0", 2),
        ("jobset", f"train-node-0-0.{DOMAIN}", "", "", None),
        ("trainer", "train-node-0-0.train", "2", "", None),
        ("jax", "train-node-0-0.train", "", "", None),
        ("pytorchjob", "train-master-0", "4", "", None),
        ("pytorchjob_workers", "train-worker-0", "4", "", None),
        ("volcano", "train-worker-0.train", "", "", None),
        ("volcano_tasks", "train-master-0.train", "", "", None),
        ("volcano_pytorch", "train-master-0.train", "", "", None),
        ("volcano_pytorch_named", "train-chief-0.train", "", "", None),
        ("open_mpi", "n1", "", "prterun-head-712@1", None),
        ("hydra", "n1", "", "", None),
        ("skypilot", "10.0.0.5", "8", "sky-managed-2026-11-01_train-0", None),
        ("dstack", "10.0.0.5", "", "quick-fox-1", None),
        ("variables", "first", "", "", 3),
    ],
)
def test_complete_set_has_all_facts(name: str, first: str, processes: str, job_id: str, attempt: int | None) -> None:
    for nodes, rank in ((2, 0), (2, 1), (3, 2), (12, 10)):
        found = place(name, nodes, rank)
        assert found.rank is not None and (found.rank.value, found.nodes.value) == (rank, nodes)
        assert (found.first_host.value, found.processes.value, found.job_id.value) == (first, processes, job_id)
        assert (found.attempt and found.attempt.value) == attempt and not found.endpoint


@pytest.mark.parametrize("name", COMPLETE)
def test_one_node_is_node_0_of_this_host(name: str) -> None:
    found = place(name, 1, 0)
    assert found.rank is not None and (found.rank.value, found.nodes.value) == (0, 1)
    assert found.first_host.value == {"pytorchjob": "train-master-0", "variables": "first"}.get(
        name,
        {
            "volcano_pytorch": "train-master-0.train",
            "volcano_pytorch_named": "train-chief-0.train",
            "open_mpi": "n1",
            "hydra": "n1",
        }.get(name, ""),
    )


def test_elastic_job_has_ranks_by_the_manager_and_its_greatest_size() -> None:
    found = place("pytorchjob_elastic", 3)
    assert (found.rank, found.nodes.value, found.endpoint) == (None, 3, "train-worker-0:23456")
    assert found.first_host.value == "train-worker-0"
    given_ = place("pytorchjob_elastic", 3, flags=Flags(rank=2))
    assert given_.rank == Said(2, "--node-rank") and not given_.endpoint
    environment, host = environments.pytorchjob_elastic(2, 0)
    assert settle(NONE, environment | {"PET_RDZV_ID": "j"}, host).job_id == Said("j", "PET_RDZV_ID")
    assert settle(NONE, environment | {"PET_RDZV_ID": "none"}, host).job_id == Said("", DEFAULT)
    del environment["PET_NNODES"]
    assert "number of nodes is missing" in refused(environment, host)


RANK = "--node-rank or TASKD_NET_NODE_RANK"
SIZE = "--nnodes or TASKD_NET_NNODES"
HOST = "--master-addr or TASKD_NET_MASTER_ADDR"
BATCH = {"SLURM_JOB_ID": "4", "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_NNODES": "2"}
MPIRUN = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
FURTHER = (
    "Kubernetes indexed Job: JOB_COMPLETION_INDEX is 0 within its Job, and by the host name 'train-node-1-0' a JobSet "
    "may have several"
)
BY_NAME = f"node rank 1 by JOB_COMPLETION_INDEX, first host 'train-0.{DOMAIN}' by the host name"


@pytest.mark.parametrize(
    ("environment", "host", "states", "missing"),
    [
        ({"JOB_COMPLETION_INDEX": "1"}, f"train-1.{DOMAIN}", f"Kubernetes indexed Job states {BY_NAME}", [SIZE]),
        (
            {"JOB_COMPLETION_INDEX": "0"},
            "train-0",
            "Kubernetes indexed Job states node rank 0 by JOB_COMPLETION_INDEX",
            [SIZE, HOST],
        ),
        (
            # The second Job of a JobSet: its index 0 is another node than that of the first Job.
            {"JOB_COMPLETION_INDEX": "0", "TASKD_NET_NNODES": "2"},
            f"train-node-1-0.{DOMAIN}",
            FURTHER,
            [RANK, HOST],
        ),
        (
            {"JOB_COMPLETION_INDEX": "0", "TASKD_NET_NNODES": "2", "TASKD_NET_MASTER_ADDR": "train-node-0-0.train"},
            "train-node-1-0",
            FURTHER,
            [RANK],
        ),
        (
            {"PET_NNODES": "2"},
            "node-a",
            "torchrun's environment states number of nodes 2 by PET_NNODES",
            [RANK, HOST],
        ),
        (
            {"PET_NODE_RANK": "0", "PET_MASTER_ADDR": "a"},
            "node-a",
            "torchrun's environment states node rank 0 by PET_NODE_RANK, first host 'a' by PET_MASTER_ADDR",
            [SIZE],
        ),
        (
            MPIRUN,
            "n1",
            "Open MPI states node rank 0 by OMPI_COMM_WORLD_RANK, number of nodes 2 by OMPI_COMM_WORLD_SIZE",
            [HOST],
        ),
        (
            {"PMIX_RANK": "1", "PMIX_NAMESPACE": "x", "PRTE_LAUNCHED": "1"},
            "n1",
            "prterun states node rank 1 by PMIX_RANK",
            [SIZE, HOST],
        ),
        ({"VC_TASK_INDEX": "1"}, "train-worker-1", "Volcano states nothing of this node", [RANK, SIZE, HOST]),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, dict) else "",
)
def test_incomplete_set_stops_the_start_in_one_line(
    environment: Environment, host: str, states: str, missing: list[str]
) -> None:
    said = refused(environment, host)
    assert said.startswith(f"{states}; ") and said.endswith(f" missing: give {', '.join(missing)}, or {ALONE}")
    one_node(environment, host)


def one_node(environment: Environment, host: str) -> None:
    """Check that --standalone is one node, whatever the environment states."""
    alone = settle(Flags(standalone=True), environment, host)
    assert alone.rank is not None and (alone.nodes.value, alone.rank.value, alone.first_host.value) == (1, 0, "")


@pytest.mark.parametrize(
    ("environment", "states", "missing"),
    [
        ({"TASKD_NET_NNODES": "2"}, "TASKD_NET_NNODES is 2, and the node rank is missing", RANK),
        ({"TASKD_NET_NODE_RANK": "0"}, "TASKD_NET_NODE_RANK is 0, and the number of nodes is missing", SIZE),
        (
            {"TASKD_NET_NODE_RANK": "0", "TASKD_NET_NNODES": "2"},
            "TASKD_NET_NNODES is 2, and the first host is missing",
            HOST,
        ),
        (
            {"TASKD_NET_MASTER_ADDR": "a\x1b"},
            "TASKD_NET_MASTER_ADDR is 'a\\x1b', and the number of nodes is missing",
            SIZE,
        ),
    ],
)
def test_incomplete_variables_stop_the_start_in_one_line(environment: Environment, states: str, missing: str) -> None:
    assert refused(environment) == f"{states}: give {missing}, or {ALONE}"
    one_node(environment, "here")


def test_batch_script_outside_of_srun_is_told_to_use_it() -> None:
    said = "Slurm batch script outside of srun: SLURM_NNODES is 2: start it with srun --ntasks-per-node=1"
    assert refused(BATCH) == f"{said}, or give {ALONE}"
    one_node(BATCH, "here")


SIGNS = {("pytorchjob_workers", "PET_NNODES"), ("hydra", "MPI_LOCALNRANKS")}
"""The only variables by which these platforms are known."""


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        (name, variable)
        for name, make in COMPLETE.items()
        for variable in make(2, 0)[0]
        if (name, variable) not in SIGNS
    ],
)
def test_set_without_any_one_variable_is_complete_or_stops(name: str, removed: str) -> None:
    for rank in (0, 1):
        environment, host = COMPLETE[name](2, rank)
        del environment[removed]
        try:
            found = settle(NONE, environment, host)
        except ConfigError:
            continue
        # The plugin pytorch orders its tasks otherwise than their names.
        by_name = name == "volcano_pytorch_named" and removed in ("RANK", "WORLD_SIZE", "MASTER_ADDR")
        expected = 1 - rank if by_name else rank
        assert found.nodes.value == 2 and (found.rank is None or found.rank.value == expected), found


@pytest.mark.parametrize(
    ("environment", "flags"),
    [
        ({"JOB_COMPLETION_INDEX": "1"}, Flags(nodes=2)),
        ({"JOB_COMPLETION_INDEX": "1", "TASKD_NET_NNODES": "2"}, NONE),
    ],
)
def test_one_flag_or_variable_completes_a_set(environment: Environment, flags: Flags) -> None:
    found = settle(flags, environment, f"train-1.{DOMAIN}")
    assert found.rank is not None and (found.rank.value, found.nodes.value) == (1, 2)
    assert found.first_host.value == f"train-0.{DOMAIN}" and found.platform == "Kubernetes indexed Job"


def test_jobset_of_several_jobs_is_completed_by_the_variables_of_its_manifest() -> None:
    hosts = {}
    for rank in range(4):
        environment, host = environments.jobset_of_jobs(4, rank)
        found = settle(NONE, environment, host)
        assert found.rank == Said(rank, "TASKD_NET_NODE_RANK") and found.nodes == Said(4, "TASKD_NET_NNODES")
        assert found.first_host == Said("train-node-0-0.train", "TASKD_NET_MASTER_ADDR")
        hosts[host] = environment["JOB_COMPLETION_INDEX"]
        del environment["TASKD_NET_NODE_RANK"]
        if rank > 1:
            assert refused(environment, host).endswith(f"; node rank is missing: give {RANK}, or {ALONE}")
    assert sorted(hosts.values()) == ["0", "0", "1", "1"]


def test_job_whose_name_may_be_that_of_a_further_job_has_a_rank_by_flag_or_in_the_order_of_arrival() -> None:
    environment = {"JOB_COMPLETION_INDEX": "1"}
    for flags in (Flags(nodes=2, rank=1, first_host="a"), Flags(nodes=2, first_host="a", gives_ranks=True)):
        found = settle(flags, environment, f"exp-2-1.{DOMAIN}")
        assert found.rank == (None if flags.gives_ranks else Said(1, "--node-rank"))
    assert RANK in refused(environment, f"exp-2-1.{DOMAIN}", Flags(nodes=2, first_host="a"))
    # Inside of it, the Trainer knows the rank; and a rank of another node is one, whatever the Job.
    environment, _ = environments.trainer(2, 1)
    assert settle(NONE, environment, "exp-2-1").rank == Said(1, "PET_NODE_RANK")
    assert "node rank is 0 by PET_NODE_RANK" in refused(environment | {"PET_NODE_RANK": "0"}, "exp-2-1")


@pytest.mark.parametrize("backend", [False, True])
def test_one_node_by_a_flag_beside_a_step_of_two_is_refused_also_with_an_endpoint(backend: bool) -> None:
    flags = Flags(nodes=1, first_host="h" if backend else "", gives_ranks=backend)
    for rank in (0, 1):
        said = refused(*environments.slurm(2, rank), flags)
        size = "number of nodes is 2 by SLURM_STEP_NUM_NODES (Slurm step), and --nnodes is 1"
        assert said == f"{size}: give {RANK}, too, or {ALONE}" and len(said) < 200
    assert settle(flags, {}, "here").rank == Said(0, "--nnodes")
    assert settle(Flags(first_host="h", gives_ranks=True), *environments.slurm(2, 1)).rank is None


HETEROGENEOUS = "SLURM_HET_SIZE is 2, and a step states no size of all: give --nnodes, --node-rank and --master-addr"


def test_step_of_a_heterogeneous_job_is_refused_unless_flags_decide() -> None:
    for environment, host in (environments.heterogeneous(rank) for rank in range(3)):
        for flags in (NONE, Flags(nodes=1), Flags(nodes=3), Flags(nodes=3, gives_ranks=True)):
            assert refused(environment, host, flags) == (
                f"Slurm step is of a heterogeneous job: {HETEROGENEOUS}, or {ALONE}"
            )
        assert refused(environment, host, Flags(rank=1)) == f"Slurm step: {HETEROGENEOUS}, or give {ALONE}"
        assert settle(Flags(nodes=3, rank=1, first_host="a"), environment, host).rank == Said(1, "--node-rank")
        assert settle(Flags(nodes=3, first_host="a", gives_ranks=True), environment, host).rank is None
        one_node(environment, host)
    batch = BATCH | {"SLURM_NNODES": "1", "SLURM_HET_SIZE": "2"}
    assert refused(batch).startswith("Slurm batch script outside of srun: SLURM_HET_SIZE is 2: start it with srun ")
    one = environments.heterogeneous(1)[0] | {"SLURM_HET_SIZE": "1"}
    assert settle(NONE, one, "n2").rank == Said(1, "SLURM_NODEID")


def test_host_that_is_set_precedes_one_that_follows_from_the_own_name() -> None:
    assert place("jobset", MASTER_ADDR="other").first_host == Said("other", "MASTER_ADDR")
    assert place("slurm", MASTER_ADDR="head-of-the-allocation").first_host.by == "SLURM_STEP_NODELIST"
    assert place("slurm", TASKD_NET_MASTER_ADDR="mine").first_host == Said("mine", "TASKD_NET_MASTER_ADDR")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            COMPLETE["slurm"](2, 0)[0] | {"SLURM_STEP_NUM_TASKS": "4"},
            "SLURM_STEP_NUM_TASKS is 4, and SLURM_STEP_NUM_NODES is 2: expected srun --ntasks-per-node=1",
        ),
        (
            COMPLETE["open_mpi"](4, 0)[0] | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            "OMPI_COMM_WORLD_LOCAL_SIZE is 2: expected mpirun --map-by ppr:1:node",
        ),
        (COMPLETE["hydra"](4, 0)[0] | {"MPI_LOCALNRANKS": "2"}, "MPI_LOCALNRANKS is 2: expected mpiexec -ppn 1"),
    ],
)
def test_several_launchers_on_a_node_are_refused(environment: Environment, said: str) -> None:
    assert refused(environment).endswith(f" starts several launchers on a node: {said}")
    ranked = settle(Flags(nodes=2, rank=1, first_host="a"), environment, "here")
    assert (ranked.rank, ranked.platform) == (Said(1, "--node-rank"), "")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (environments.salloc(), ""),
        (environments.salloc() | {"SLURM_HET_SIZE": "2"}, ""),
        (environments.srun_pty(), "Slurm step"),
        # A batch script of one node.
        ({"SLURM_JOB_ID": "4", "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_NNODES": "1"}, ""),
        # Any program of srun with the plugin pmi2; a pod that mpirun has not started; a pod of a Deployment.
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, ""),
        ({"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "OMPI_MCA_plm_rsh_agent": "ssh"}, ""),
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, ""),
        # Three meanings, so none.
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "NODE_RANK": "1", "LOCAL_RANK": "0"}, ""),
        ({"PET_NNODES": "1"}, "torchrun's environment"),
        ({"TASKD_NET_JOB_ID": "j"}, ""),
        ({"JOB_COMPLETION_INDEX": "", "TASKD_NET_NNODES": " "}, ""),
    ],
)
def test_traps_are_one_node(environment: Environment, expected: str) -> None:
    found = settle(NONE, environment, "here")
    assert found.rank is not None and (found.nodes.value, found.rank.value) == (1, 0)
    assert found.platform == expected


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NODEID": "²"},
            "SLURM_NODEID is '²'; expected a whole number",
        ),
        ({"PET_NNODES": "2:1"}, "PET_NNODES is '2:1'; expected a number of nodes, 1 to 65536, such as 2"),
        (
            {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "0"},
            "OMPI_COMM_WORLD_SIZE is '0'; expected a whole number",
        ),
        ({"TASKD_NET_NNODES": "many"}, "TASKD_NET_NNODES is 'many'; expected a whole number"),
        ({"TASKD_NET_ATTEMPT": "-1"}, "TASKD_NET_ATTEMPT is '-1'; expected a whole number"),
        (
            {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NODELIST": "n[1-2"},
            "SLURM_STEP_NODELIST is 'n[1-2'; expected names of hosts, such as n[1-2]",
        ),
        (
            {"PET_NNODES": "2", "PET_NODE_RANK": "2", "PET_MASTER_ADDR": "a"},
            f"PET_NODE_RANK is 2; expected 0 to 1, as PET_NNODES is 2; {ALONE}",
        ),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, dict) else "",
)
def test_value_of_no_use_is_one_line(environment: Environment, said: str) -> None:
    assert refused(environment).startswith(said)


def test_two_platforms_that_differ_stop_the_start_and_both_are_named() -> None:
    environment = environments.open_mpi(2, 1)[0] | environments.slurm(1, 0)[0]
    said = refused(environment)
    assert said == (
        "number of nodes is 2 by OMPI_COMM_WORLD_SIZE (Open MPI), and 1 by SLURM_STEP_NUM_NODES (Slurm step); "
        f"expected --nnodes and --node-rank, or {ALONE}"
    )
    assert refused(environment, flags=Flags(nodes=2)).endswith(
        f", and --nnodes is 2: give --node-rank or TASKD_NET_NODE_RANK, too, or {ALONE}"
    )
    assert "number of nodes" in refused(environment, flags=Flags(rank=1))
    other = environments.open_mpi(2, 1)[0] | environments.slurm(2, 0)[0]
    assert refused(other, flags=Flags(nodes=2)).endswith(f"; expected --nnodes and --node-rank, or {ALONE}")
    decided = settle(Flags(nodes=2, rank=1), environment | {"MASTER_ADDR": "n1"}, "n2")
    assert (decided.nodes.value, decided.rank, decided.first_host.value) == (2, Said(1, "--node-rank"), "n1")


IN_A_STEP = ("bash", "slurmstepd")
BY_MPIRUN = ("prterun", "slurm_script", "slurmstepd-wlm")
BY_ITS_DAEMON = ("prted", "prted", "slurmstepd-wlm")
BY_HYDRA = ("hydra_pmi_proxy", "slurmstepd")


@pytest.mark.parametrize("nodes", [2, 3])
def test_mpi_in_a_job_of_slurm_places_the_node_where_its_program_is_the_nearest(nodes: int) -> None:
    for rank in range(nodes):
        environment, host = environments.mpirun_in_a_job(nodes, rank)
        above = BY_ITS_DAEMON if rank else BY_MPIRUN
        found = settle(NONE, environment, host, above)
        assert found.rank is not None and (found.rank.value, found.nodes.value) == (rank, nodes)
        assert (found.platform, found.first_host, found.attempt) == ("Open MPI", Said("n1", "MASTER_ADDR"), None)
        del environment["MASTER_ADDR"]
        with pytest.raises(ConfigError, match=r"^Open MPI states node rank .*; first host is missing: give "):
            settle(NONE, environment, host, above)
        if rank:
            assert "(Open MPI), and " in refused(environment, host) and "(Slurm step); " in refused(environment, host)


@pytest.mark.parametrize("size", [2, 3])
def test_variables_of_mpi_that_a_step_has_inherited_count_for_nothing(size: int) -> None:
    inherited, _ = environments.open_mpi(size, 0)
    for rank in (0, 1):
        environment, host = environments.slurm(2, rank)
        found = settle(NONE, inherited | environment, host, IN_A_STEP)
        assert found.rank == Said(rank, "SLURM_NODEID") and (found.platform, found.job_id.value) == (
            *("Slurm step", "41.0"),
        )
    with pytest.raises(ConfigError, match=r"^Slurm batch script outside of srun: "):
        settle(NONE, inherited | BATCH, "n1", BY_MPIRUN[1:])


def test_platforms_that_agree_complete_each_other_whichever_is_the_nearest() -> None:
    environment, host = environments.slurm(2, 1)
    environment |= {"MPI_LOCALNRANKS": "1"}
    for above in (BY_HYDRA, IN_A_STEP, ()):
        found = settle(NONE, environment, host, above)
        assert found.rank is not None and (found.rank.value, found.first_host.value, found.platform) == (
            *(1, "n2", "Slurm step"),
        )


def test_program_of_a_platform_that_is_not_seen_changes_nothing() -> None:
    assert settle(NONE, *environments.slurm(2, 1), BY_ITS_DAEMON) == settle(NONE, *environments.slurm(2, 1))
    assert settle(NONE, *environments.trainer(2, 1), BY_ITS_DAEMON) == settle(NONE, *environments.trainer(2, 1))


def test_only_node_of_one_platform_and_second_node_of_another_stop_the_start() -> None:
    said = refused({"PET_NNODES": "1", "JOB_COMPLETION_INDEX": "1"})
    assert said.startswith("node rank is 0 by PET_NNODES (torchrun's environment), and 1 by JOB_COMPLETION_INDEX (")


def test_flags_precede_variables_which_precede_platforms() -> None:
    both = COMPLETE["slurm"](4, 3)[0] | {"TASKD_NET_NNODES": "3", "TASKD_NET_NODE_RANK": "2"}
    found = settle(Flags(nodes=2, rank=0, processes="4"), both, "n5")
    assert (found.nodes, found.rank) == (Said(2, "--nnodes"), Said(0, "--node-rank"))
    assert found.processes == Said("4", "--nproc-per-node") and found.first_host.value == "n2"
    found = settle(NONE, both, "n5")
    assert (found.nodes, found.rank) == (Said(3, "TASKD_NET_NNODES"), Said(2, "TASKD_NET_NODE_RANK"))
    whole = settle(Flags(nodes=2, rank=0, first_host="a"), both, "n5")
    assert not whole.platform and not whole.job_id.value and whole.attempt is None
    assert settle(Flags(nodes=2, first_host="a", gives_ranks=True), COMPLETE["slurm"](4, 3)[0], "n5").rank is None
    assert settle(Flags(nodes=2, rank=1), {}, "here").first_host == Said("", DEFAULT)
    # Its size comes from the platform, and its ranks by the rendezvous of the flag.
    assert settle(Flags(first_host="a", gives_ranks=True), COMPLETE["slurm"](4, 3)[0], "n5").rank is None


def test_processes_of_a_node_follow_devices_unless_torchruns_variable_is_set() -> None:
    assert place("slurm", SLURM_GPUS_ON_NODE="4").processes == Said("4", "SLURM_GPUS_ON_NODE")
    assert place("slurm", SLURM_GPUS_ON_NODE="4", PET_NPROC_PER_NODE="auto").processes.value == "auto"
    assert place("dstack").processes == Said("", DEFAULT)
    assert settle(Flags(standalone=True), {"PET_NPROC_PER_NODE": "2"}, "a").processes.value == "2"


@pytest.mark.parametrize(
    ("listed", "first"),
    [
        ("n[1-2]", "n1"),
        ("n[01-12,14]", "n01"),
        ("n3,n[1-2]", "n3"),
        ("r[2-3]n[5,7-9]-ib,x", "r2n5-ib"),
        ("n1", "n1"),
        ("n[1-2]-a,b", "n1-a"),
        ("10.0.0.7", "10.0.0.7"),
        (",", None),
    ],
)
def test_first_name_of_slurms_list(listed: str, first: str | None) -> None:
    assert first_name(Said(listed, "L")) == (None if first is None else Said(first, "L"))


@pytest.mark.parametrize(
    ("nodes", "most"), [("2", 2), ("1:3", 3), (" 2 ", 2), ("0", None), ("3:2", None), ("a:2", None)]
)
def test_greatest_number_of_nodes(nodes: str, most: int | None) -> None:
    assert greatest(nodes) == most


def test_worker_of_a_number_without_end_has_no_rank() -> None:
    assert "node rank is missing" in refused({"PET_NNODES": "2"}, f"a-worker-{'9' * 40}")


def test_worker_of_a_number_that_the_job_does_not_have_stops() -> None:
    said = "the node rank in the host name is 2; expected 0 to 1, as PET_NNODES is 2"
    assert refused({"PET_NNODES": "2"}, "a-worker-2") == f"{said}; {ALONE}"


def test_volcanos_pod_whose_task_is_unknown_has_no_rank() -> None:
    environment, _ = environments.volcano_tasks(3, 1)
    assert "node rank is missing" in refused(environment, "elsewhere")
    del environment["VC_WORKER_NUM"]
    found = settle(NONE, environment, "train-worker-0")
    assert found.rank is not None and (found.rank.value, found.nodes.value) == (1, 3)
    environment["VC_PS_NUM"] = "1"
    assert settle(NONE, environment, "train-worker-0").nodes.value == 4
    del environment["VC_PS_NUM"]
    environment["VC_PS_HOSTS"] = " "
    assert "number of nodes is missing" in refused(environment, "train-worker-0")


def test_tasks_of_volcanos_plugin_pytorch_have_the_names_of_its_arguments() -> None:
    """With `--master=chief --worker=actor` the order of the plugin is not that of the names."""
    for with_index in (True, False):
        for rank in range(3):
            environment, host = environments.volcano_pytorch_named(3, rank)
            if not with_index:
                environment, host = environments.without_index((environment, host))
            found = settle(NONE, environment, host)
            assert (found.rank, found.nodes) == (Said(rank, "RANK"), Said(3, "WORLD_SIZE"))
            assert found.first_host == Said("train-chief-0.train", "MASTER_ADDR")
            # Without one of the three it is no plugin's, and all pods have the order of the names.
            del environment["WORLD_SIZE"]
            assert settle(NONE, environment, host).rank == Said((2, 0, 1)[rank], found_by(environment))


def found_by(environment: Environment) -> str:
    return "VC_TASK_INDEX" if "VC_TASK_INDEX" in environment else "the host name"


def test_volcanos_plugin_pytorch_that_contradicts_the_lists_is_refused_in_one_short_line() -> None:
    environment, host = environments.volcano_pytorch_named(3, 1)
    assert refused(environment | {"WORLD_SIZE": "24"}, host) == (
        "number of nodes is 24 by WORLD_SIZE (Volcano's plugin pytorch), and 3 by VC_CHIEF_NUM + VC_ACTOR_NUM (Volcano)"
        f"; expected --nnodes and --node-rank, or {ALONE}"
    )
    said = refused(environment | {"RANK": "0"}, host)
    assert said.startswith("node rank is 0 by RANK (Volcano's plugin pytorch), and 1 by VC_TASK_INDEX (Volcano); ")
    for line in (said, refused(environment | {"WORLD_SIZE": "24"}, host)):
        assert len(line) < 200


def test_volcanos_index_that_is_not_the_position_of_the_host_is_no_rank() -> None:
    environment, host = environments.volcano(3, 1)
    assert "; node rank is missing: " in refused(environment | {"VC_TASK_INDEX": "2"}, host)
    assert settle(NONE, environment | {"VC_TASK_INDEX": "2"}, "machine-7").rank == Said(2, "VC_TASK_INDEX")


def test_volcanos_task_without_replicas_has_no_hosts() -> None:
    for more in ({"VC_PS_NUM": "0"}, {"VC_PS_NUM": "0", "VC_PS_HOSTS": ""}):
        for rank in range(3):
            environment, host = environments.volcano_tasks(3, rank)
            found = settle(NONE, environment | more, host)
            assert found.rank is not None and (found.rank.value, found.nodes.value) == (rank, 3)


def test_volcanos_plugin_pytorch_brings_svc_with_it_and_no_index() -> None:
    for rank in range(3):
        found = settle(NONE, *environments.volcano_pytorch_alone(3, rank))
        assert found.platform == "Volcano's plugin pytorch"
        assert (found.rank, found.nodes) == (Said(rank, "RANK"), Said(3, "WORLD_SIZE"))


@pytest.mark.parametrize("name", ["volcano", "volcano_tasks"])
def test_volcanos_pod_without_an_index_has_the_rank_of_its_host_or_stops(name: str) -> None:
    for rank in range(3):
        environment, host = environments.without_index(COMPLETE[name](3, rank))
        assert settle(NONE, environment, host).rank == Said(rank, "the host name")
        assert "node rank is missing" in refused(environment, "elsewhere")


def outcome(flags: Flags, environment: Environment, host: str, above: Sequence[str] = ()) -> Place | None:
    try:
        return settle(flags, environment, host, above)
    except ConfigError:
        return None


def is_one_training(places: list[Place]) -> bool:
    """True where all nodes of these places meet: one size, one address, and ranks that differ or the Manager gives."""
    ranks = [each.rank.value for each in places if each.rank is not None]
    common = {(each.nodes.value, each.first_host.value, each.job_id.value, each.endpoint) for each in places}
    return len(common) == 1 and len(set(ranks)) == len(ranks) and len(ranks) in (0, len(places))


ALL = COMPLETE | {
    make.__name__: make
    for make in (environments.volcano_svc, environments.volcano_pytorch_alone, environments.jobset_of_jobs)
}
"""Also the environments of platforms that others have with more variables."""


@pytest.mark.parametrize(("one", "other"), list(product(ALL, ALL)))
def test_two_nodes_of_a_pair_of_platforms_are_one_training_or_stop(one: str, other: str) -> None:
    for order in ((0, 1), (1, 0)):
        places = []
        for rank in (0, 1):
            inner, host = ALL[one](2, rank)
            outer, _ = ALL[other](2, order[rank])
            places.append(outcome(NONE, outer | inner, host))
        found = [each for each in places if each is not None]
        assert len(found) < 2 or is_one_training(found), found


OF_TORCHRUN = {"trainer", "pytorchjob", "pytorchjob_workers", "pytorchjob_elastic"}
"""Environments with the same variables, which no node has of two of them."""

NAMES = st.sampled_from(sorted(ALL))
PROGRAMS = {"slurm": "slurmstepd", "open_mpi": "prted", "hydra": "hydra_pmi_proxy"}
"""Programs that start launchers, by platform."""


@settings(max_examples=500)
@given(
    inner=NAMES,
    outer=NAMES,
    inside=st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 2)),
    outside=st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 2)),
    removed=st.sets(st.integers(0, 40), max_size=1),
    size=st.sampled_from([None, 2, 3]),
    shows=st.booleans(),
)
def test_two_nodes_in_any_environments_are_never_two_trainings(
    inner: str,
    outer: str,
    inside: tuple[int, int, int],
    outside: tuple[int, int, int],
    removed: set[int],
    size: int | None,
    shows: bool,
) -> None:
    """Each node has a place in both platforms. It is another one in the inner one.

    It is another one in the outer one, too, where that is all that is left, and in a manifest's variables. The programs
    above a launcher are those of the inner one, and then of the outer one.
    """
    above = [PROGRAMS[name] for name in (inner, outer) if name in PROGRAMS] if shows else []
    assume(inner == outer or not {inner, outer} <= OF_TORCHRUN)
    if inside[1] == inside[2] or max(inside[1:]) >= inside[0]:
        inside = (max(2, inside[0]), 0, 1)
    if max(outside[1:]) >= outside[0]:
        outside = (outside[0], 0, 0)
    if (removed or outer in ("variables", "jobset_of_jobs")) and outside[1] == outside[2]:
        outside = (2, 1, 0)
    places = []
    for number in (1, 2):
        environment, host = ALL[inner](inside[0], inside[number])
        environment = ALL[outer](outside[0], outside[number])[0] | environment
        names = sorted(set(environment) - {sign for _, sign in SIGNS})
        for each in removed:
            environment.pop(names[each % len(names)], None)
        places.append(outcome(Flags(nodes=size), environment, host, above))
    found = [each for each in places if each is not None]
    assert len(found) < 2 or is_one_training(found), found


@given(name=NAMES, data=st.data(), value=st.text(), host=st.text())
def test_any_text_in_a_variable_is_a_place_or_one_line(name: str, data: st.DataObject, value: str, host: str) -> None:
    environment, _ = ALL[name](2, 1)
    environment[data.draw(st.sampled_from(sorted(environment)))] = value
    line = ""
    try:
        found = settle(NONE, environment, host)
    except ConfigError as error:
        line = str(error)
    else:
        assert found.rank is None or 0 <= found.rank.value < found.nodes.value
    assert len(line) < 1000 and line.isprintable()


def test_place_is_shown_with_its_sources() -> None:
    found = place("slurm")
    assert display.lines(found, 8) == [
        "platform    Slurm step",
        "node rank   1           SLURM_NODEID",
        "nodes       2           SLURM_STEP_NUM_NODES",
        "first host  n2          SLURM_STEP_NODELIST",
        "processes   8           default",
        "job id      41.0        SLURM_JOB_ID.SLURM_STEP_ID",
        "attempt     2           SLURM_RESTART_COUNT",
    ]
    shown = json.loads(display.document(found, 8))
    assert (shown["platform"], shown["node_rank"], shown["sources"]["nodes"]) == (
        "Slurm step",
        1,
        "SLURM_STEP_NUM_NODES",
    )
    assert display.sources(found, 8).startswith("node_rank by SLURM_NODEID, nodes by SLURM_STEP_NUM_NODES, ")
    odd = replace(found, rank=None, attempt=None, first_host=Said("a\x1b[31m", "x"))
    assert "a\\u001b[31m" in display.lines(odd, 1)[3] and json.loads(display.document(odd, 1))["node_rank"] is None
