"""Targets of the job: messages of Agents and Workers, orders of ClusterD, the state of a job."""

from __future__ import annotations

import contextlib
import json
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.codes import ArgumentError, ConfigError, Refusal
from taskd_net.base.position import Position
from taskd_net.base.untrusted import json_line
from taskd_net.job import node_rank, profiling_switch
from taskd_net.job.clusterd import orders, rpcs
from taskd_net.job.decide import epochs, state
from taskd_net.job.decide.events import Reported, Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.plugins.stress_test import read_result
from taskd_net.job.decide.records import read_fault
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import read_count
from taskd_net.job.manager import dispatch
from taskd_net.job.worker import duties
from taskd_net.net.wire import recover_pb2
from taskd_net.observe import job_codec
from taskd_net.observe.fields import document_of

CODES: Final = (0, 201, 202, 204, 205, 210, vocabulary.EPOCH_STATE)
STREAMS: Final = (rpcs.SIGNALS, rpcs.SWITCH_NIC_ORDERS, rpcs.STRESS_TEST_ORDERS, rpcs.PROFILING)


def reports(data: bytes) -> None:
    """Reports of Agents and Workers: a job takes them, decides, and can be stored and read again."""
    text = data.decode("utf-8", "surrogateescape")
    extension = dict.fromkeys((*EXTENSIONS, text[:20]), text)
    config = JobConfig(nodes=2, processes_per_node=2)
    job = Job(config, "u")
    for number, code in enumerate(CODES):
        for src in (Position.agent(0), Position.worker(0, 1), Position("Agent", text[:40], "-1")):
            for msg_type in ("REGISTER", "STATUS", "KEEP_ALIVE", text[:20]):
                job.step(1.0, Reported(src, msg_type, code, text, extension, f"{number}"))
    job.step(2.0, Tick())
    with contextlib.suppress(UnicodeEncodeError):  # a store writes no lone surrogate
        assert Job.from_json(job.to_json(), config).to_json() == job.to_json()
    read_fault(1.0, text, extension)
    part = epochs.read_part("running", dict.fromkeys(EXTENSIONS, text))
    assert part is None or (part.world > 0 and part.local > 0)
    json_line(read_result(text))
    read_count(text)
    body = Body("ACTION", 0, text, extension)
    wanted = partial(dispatch.read_request, Position.agent(1_000_000_000))
    for read in (wanted, node_rank.read_rank, duties.read_switch, lambda body: duties.read_ops(body, 0)):
        with contextlib.suppress(ArgumentError, node_rank.NoRank):
            read(body)


EXTENSIONS: Final = (
    *(vocabulary.EPOCH, vocabulary.WORLD, vocabulary.LOCAL_WORLD, vocabulary.REASON, vocabulary.FAULT_TIME),
    vocabulary.AFTER,
    *(vocabulary.SWITCH_RANKS, vocabulary.SWITCH_OPS, vocabulary.STRESS_OPS, vocabulary.FAULT_RANKS),
)


def clusterd(data: bytes) -> None:
    """ClusterD's orders and answers: an event, or a reason on one short line."""
    for rpc in STREAMS:
        try:
            message = rpc.answer.FromString(data)
            orders.job_of(message)
            event = orders.read(message)
        except (DecodeError, ValueError) as error:
            reason = str(error)
        else:
            reason = ""
            Job(JobConfig(fault_recover="on", clusterd=True), "u").step(1.0, event)
        assert len(reason) < 1000
    with contextlib.suppress(DecodeError):
        recover_pb2.Status.FromString(data)


def documents(data: bytes) -> None:
    """The state of a job as a peer tells it, as it is stored, and the file with the profiling switch."""
    with contextlib.suppress(Refusal):
        view = job_codec.read_job(data)
        told = job_codec.read_job(job_codec.write_job(view))
        assert job_codec.write_job(told) is not None
        json.loads(json_line(document_of(view)))
    with contextlib.suppress(ValueError):
        assert all(rank >= 0 for rank in job_codec.read_stacks_request(data))
    with contextlib.suppress(Refusal):
        stacks = job_codec.read_stacks_answer(data)
        assert job_codec.read_stacks_answer(job_codec.write_stacks_answer(stacks)) == stacks
    text = data.decode("utf-8", "surrogateescape")
    with contextlib.suppress(ArgumentError):
        profiling_switch.read_switch(text)
    with contextlib.suppress(ConfigError):
        state.from_json(text, [])
