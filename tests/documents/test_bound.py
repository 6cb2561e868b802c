"""Figures, keys, variables and codes in the documents match the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import grpc
import pytest

from taskd_net import Code
from taskd_net.base import distributions, limits
from taskd_net.cli.commands import LAB
from taskd_net.cli.settings import COMMANDS, CONFIG
from taskd_net.core import admission, links, router
from taskd_net.core.ready import Kind
from taskd_net.faces import side_port
from taskd_net.faces.page.paces import PACES
from taskd_net.job import exchange
from taskd_net.job.agent import agent as shell
from taskd_net.job.decide import job, outbox, snapshot
from taskd_net.job.decide.plugins import profiling, stop_train
from taskd_net.job.frameworks.mindspore import scheduler
from taskd_net.job.frameworks.mindspore import settings as msrun_settings
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.manager import changed_file, outlook, watching
from taskd_net.job.worker import disk, reporting
from taskd_net.mindspore import launcher as reset_launcher
from taskd_net.net.joining import channel
from taskd_net.net.links import batched, batched_kind, direct, grpc_status, ordered_acks, peer
from taskd_net.net.wire import batches, codec, requests
from taskd_net.observe import history, job_view, reporter, service, status_codec, view
from taskd_net.observe.view import ViewBounds
from tests.documents.pages import PAGES, ROOT

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout")


def _seconds(value: float) -> str:
    return f"{value:g} s"


_MIB: Final = 1024 * 1024
_ETCD: Final = EtcdLimits()
_NESTED: Final = ", ".join(_seconds(limits.ACK_TIMEOUT_S * router.ACK_TIMEOUT_PER_LEVEL**level) for level in range(3))

FIGURES: Final = {
    "README.md": [
        f"Mgr  0                      listens :{9601}",
        f"`send_all` sends any number with back-pressure, {limits.SEND_ALL_IN_FLIGHT} at a time",
        f"a report to a dead Manager within {_seconds(limits.ACK_TIMEOUT_S)}, later ones at once",
    ],
    "docs/high-availability.md": [
        f"under a lease of {_seconds(_ETCD.lease_s)} that it renews every {_seconds(_ETCD.renew_s)}",
        f"sending {_seconds(_ETCD.margin_s)} before its lease may have ended",
        f"looks at the lease every {_seconds(_ETCD.look_s)}",
        f"leaves the lease to others for {_seconds(_ETCD.yields_s)} after that",
        f"After {_seconds(outlook.UNSURE_S)}\nwithout a lease",
        f"after {_seconds(outlook.ALONE_S)} without any child",
        f"waits up to {_seconds(_ETCD.gone_s)} for the lease",
        f"goes to the next one after {_seconds(_ETCD.member_s)}",
        f"and round for {_seconds(_ETCD.call_s)} while the others elect",
        f"leave it after {_seconds(limits.NOT_ANSWERING_S)} without a sign of life",
    ],
    "docs/api.md": [
        f"again every {_seconds(exchange.REGISTER_EVERY_S)}",
        f"after `timeout`, {_seconds(limits.ACK_TIMEOUT_S)} by default, retries included",
        f"{reporting.REPORTS_WAITING} wait at most",
        "gives what still waits one second" if limits.CLOSE_GRACE_S == 1.0 else "",
        f"{_seconds(limits.HANDLER_GRACE_S)} more for a handler that does not return",
        f"does not return within {_seconds(limits.HANDLER_GRACE_S)}",
        f"in the Worker's inbox ({limits.INBOX['Worker']})",
        "every rank looks once a minute" if disk.PRUNE_S == 60.0 else "",
        f"the newest {disk.FILES_KEPT} of each rank stay",
        f"up to {_seconds(shell.GRACE_EXIT_S)} for them to end",
        f"no join within {_seconds(shell.JOIN_S)}",
        f"no go within {_seconds(shell.GO_S)} after the join",
        f"seconds, {shell.FAULT_TIMEOUT_S[0]} to {shell.FAULT_TIMEOUT_S[1]}, for an answer",
        f"| {msrun_settings.RESTART_PAUSE_S:g} with an NPU",
        f"at 209 the same, but {msrun_settings.RESTART_RANKS_PAUSE_S:g} at most",
        f"`TASKD_NET_FINISH_PAUSE` | {msrun_settings.FINISH_PAUSE_S:g} |",
        f"**201** asks for the go every {_seconds(exchange.REGISTER_EVERY_S)}",
        f"to a Manager of this package also every {_seconds(exchange.REGISTER_EVERY_S)}",
        f"**REGISTER** is repeated every {_seconds(exchange.REGISTER_EVERY_S)}",
        "looks at its workers once a second" if shell.LOOK_S == 1.0 else "",
        f"up to {outbox.COMMAND_ATTEMPTS} times, {_seconds(outbox.COMMAND_RETRY_S)} apart",
        f"A file of {limits.LOG_FILE_BYTES // _MIB} MiB is renamed to `….1`; {limits.LOG_FILES} files are kept",
    ],
    "docs/mindspore.md": [
        f"SIGKILL after {_seconds(scheduler.GRACE_S)}",
        (
            f"{_seconds(msrun_settings.RESTART_PAUSE_S)} for all, "
            f"{_seconds(msrun_settings.RESTART_RANKS_PAUSE_S)} for some"
        ),
        f"the Agent stays for {_seconds(msrun_settings.FINISH_PAUSE_S)}",
        f"larger than {changed_file.FILE_BYTES // _MIB} MiB",
        "Once a second it looks" if reset_launcher.LOOK_S == 1.0 else "",
        f"waits until all workers have ended, {_seconds(shell.GRACE_EXIT_S)} at most",
        f"looks every {_seconds(reset_launcher.RESET_LOOK_AGAIN_S)}",
        f"leaves with 1 after {_seconds(reset_launcher.RESET_START_S)}",
        f"leaves with 1 after {_seconds(reset_launcher.FAILURE_PAUSE_S)}",
        f"restart it alone, after {_seconds(reset_launcher.REPLACE_S)}",
        f"`TASKD_NET_RESTART_PAUSE` | {msrun_settings.RESTART_PAUSE_S:g} with an NPU",
        f"`TASKD_NET_FINISH_PAUSE` | {msrun_settings.FINISH_PAUSE_S:g} |",
        f"`TASKD_NET_START_WAIT` | {reset_launcher.RESET_START_S:g} |",
        f"`TASKD_NET_REPLACE_WAIT` | {reset_launcher.REPLACE_S:g} |",
        f"`TASKD_NET_FAILURE_PAUSE` | {reset_launcher.FAILURE_PAUSE_S:g} |",
        f"`TASKD_NET_EXIT_WAIT` | {shell.GRACE_EXIT_S:g} |",
    ],
    "docs/configuration.md": [
        f"0 to {limits.TIMEOUT_MAX_S:.0f}",
        f"At most {limits.LOG_FILE_BYTES * limits.LOG_FILES // _MIB} MiB for each node",
        f"more\nthan {limits.CONFIG_BYTES // _MIB} MiB, or cannot be read within {_seconds(limits.CONFIG_READ_S)}",
        f"A child of this package has up to {limits.SHARED_IN_FLIGHT:,}",
        f"At least {limits.MESSAGE_BYTES}, the largest message",
    ],
    "docs/contract.md": [
        f"up to {limits.MESSAGE_BYTES:,} bytes passes",
        f"({limits.MAX_CHILDREN:,} by default)",
        f"holds its place for {_seconds(limits.REGISTRATION_HOLD_S)} without a stream",
        f"doubles from {limits.BACKOFF_INITIAL_S * 1000:g} ms to a second" if limits.BACKOFF_MAX_S < 1.0 else "",
        f"every {_seconds(limits.POSITION_TAKEN_PAUSE_S)} at most",
        f"at once after {_seconds(limits.NOT_ANSWERING_S)} without a sign",
        "{Mgr:,} messages for a Mgr, {Proxy} for a Proxy, {Agent} for an Agent or a Worker".format(**limits.INBOX),
        f"After {limits.INBOX_WAIT_S * 1000:g} ms without room",
        f"this package for {_seconds(limits.SEEN_S)}, and the last {limits.DEDUP_WINDOW:,}",
        f"the Mgr waits {_seconds(limits.ACK_TIMEOUT_S)} by default",
        f"{limits.LINK_MESSAGES:,} messages and {limits.LINK_BYTES // _MIB} MiB wait on a link",
    ],
    "docs/mesh.md": [
        f"`ack_timeout` × {router.ACK_TIMEOUT_PER_LEVEL} per level below the Mgr ({_NESTED} …)",
        f"it spends {admission.ACK_BUDGET_PER_HOP:.0%} of what its child has left".replace("%", " %"),
        f"full jitter, {limits.BACKOFF_INITIAL_S * 1000:g} ms to {_seconds(limits.BACKOFF_MAX_S)}",
        f"it has {_seconds(limits.CONNECT_S)} to connect",
        f"requests of at most {limits.ANNOUNCE_POSITIONS:,} positions",
        f"At most {batches.BATCH_MESSAGES} messages and {batched.BATCH_BYTES // 1024} KiB in a batch",
        "the other is at most four ahead" if batched.BATCHES_AHEAD == 4 else "",
        "waits for the announcement, for a second" if limits.QUARANTINE_S == 1.0 else "",
        f"a list of more than {limits.RANKS_PER_LIST:,} ranks",
        f"A receive limit of {limits.RECEIVE_BYTES // _MIB} MiB at both ends",
    ],
    "docs/glossary.md": [
        f"{_seconds(limits.GRACE_S)} by default (`grace`)",
    ],
    "docs/interop.md": [
        f"within {_seconds(limits.FIGHT_S)}, doubling up to {_seconds(limits.FIGHT_PAUSE_MAX_S)}",
        f"{_seconds(limits.FIGHT_PAUSE_S)} after a position has changed hands",
        f"wait up to {_seconds(limits.ORIGINAL_WAIT_S)} for each",
        f"drop the connection over more than {limits.ORIGINAL_DOWN_BYTES:,} bytes",
        f"6001 within {_seconds(limits.ORIGINAL_ANSWER_S)} if there is none",
        f"in the first case after {_seconds(limits.POSITION_TAKEN_PAUSE_S)} at the earliest",
        f"send up more than {limits.MESSAGE_BYTES // _MIB} MiB",
    ],
    "docs/manager.md": [
        f"shows up to {job_view.AGENTS_SHOWN:,} Agents and {job_view.DECISIONS_SHOWN} decisions",
        f"Agents by rank, {job_view.AGENTS_SHOWN:,} at most",
        f"its report of a fault, {job_view.RANKS_SHOWN} at most",
        f"the last ones, oldest first, {job_view.DECISIONS_SHOWN} at most",
        f"its first commands, {job_view.MESSAGES_SHOWN} at most",
        f"the isolated ones first, {job_view.DEVICES_SHOWN} at most",
        f"its message, cut to {job_view.SHOWN_CHARS} characters",
        f"{job.TICK_PAUSE_S * 1000:g} ms after the last one if something changed",
        f"A change is seen within {2 * watching.STEP_MS / 1000:g} s",
        f"sent up to {outbox.COMMAND_ATTEMPTS} times, {_seconds(outbox.COMMAND_RETRY_S)} apart",
        f"changeStrategy, killMaster, {stop_train.STOP_TRAIN_S / 60:g} minutes",
        f"lets go after {stop_train.STOP_TRAIN_S / 60:g} minutes",
        f"a fault of Agent 0 is {snapshot.MASTER_FAULT_S / 60:g} minutes old",
        f"the switch is new or was sent {_seconds(profiling.AGAIN_S)} ago",
        f"204 lost; {limits.SWITCH_NIC_S / 60:g} minutes",
        f"all have a result, or {limits.STRESS_TEST_S / 60:g} minutes",
        f"silent for {_seconds(snapshot.SILENT_LEAST_S)}, or {snapshot.SILENT_SNAPSHOTS} intervals",
    ],
    "docs/operations.md": [
        f"it tries again, at most every {_seconds(limits.POSITION_TAKEN_PAUSE_S)}",
        f"frozen for {_seconds(limits.SILENT_S)}",
        f"over gRPC {_seconds(limits.KEEPALIVE_TIME_S + limits.KEEPALIVE_TIMEOUT_S)}",
        f"larger than {limits.MESSAGE_BYTES // _MIB} MiB",
        "`PULSE_S`" if hasattr(ordered_acks, "PULSE_S") else "",
        f"{limits.LOG_PEER_LINES} lines at once and then one a minute" if limits.LOG_PEER_REFILL_S == 60.0 else "",
        f"{limits.LOG_WARNINGS} (below warning {limits.LOG_CHANGES}) at once and then one in {limits.LOG_REFILL_S:g} s",
        f"cut to {limits.LOG_VALUE_CHARS} characters",
        "for `seconds`; every 5 minutes until it is" if limits.NOT_JOINED_LOG_S == 300.0 else "",
    ],
    "docs/performance.md": [
        "at most four batches ahead of the other end (`BATCHES_AHEAD`)" if batched.BATCHES_AHEAD == 4 else "",
    ],
    "docs/reliability.md": [
        f"After {_seconds(limits.NOT_ANSWERING_S)} without a sign of life",
        f"routes for {_seconds(limits.SILENT_S)}",
        f"detected after {_seconds(limits.KEEPALIVE_TIMEOUT_S)} with data under way",
        f"pinged after {_seconds(limits.KEEPALIVE_TIME_S)} of silence",
        f"detected after {_seconds(limits.KEEPALIVE_TIME_S + limits.KEEPALIVE_TIMEOUT_S)}",
        f"counts as lost after {_seconds(limits.KEEPALIVE_TIME_S + limits.KEEPALIVE_TIMEOUT_S)}",
        f"at most {_seconds(limits.BACKOFF_MAX_S)}",
        f"each link holds {limits.LINK_MESSAGES:,} messages or {limits.LINK_BYTES // _MIB} MiB",
        f"a link has at most {limits.SHARED_IN_FLIGHT:,} messages in flight",
    ],
    "docs/security.md": [
        f"more than {links.ANNOUNCEMENTS_PER_S:,} announcements a second",
        f"an announcement with more than {requests.PATH_POSITIONS:,} positions",
        f"a list of more than {limits.RANKS_PER_LIST:,} ranks",
        f"a uuid of more than {codec.UUID_CHARS} characters",
        f"a message of more than {limits.MESSAGE_BYTES:,} bytes",
        f"more than {channel.METADATA_BYTES // 1024} KiB of metadata",
        f"every {_seconds(limits.CERTIFICATES_LOOK_S)} the files are read",
        f"within {_seconds(limits.RENEWAL_SPREAD_S)} so that not all come at once",
        f"up to {_seconds(limits.RENEWAL_S)}. Then it leaves the old stream",
        f"is not heard of {_seconds(limits.STRANGERS_HEARD_S)} later",
        f"above {limits.RECEIVE_BYTES // _MIB} MiB gRPC refuses the call",
        "4002 after a second without an announcement" if limits.QUARANTINE_S == 1.0 else "",
    ],
    "docs/status-page.md": [
        "A page asks once a second" if PACES.ask == 1.0 else "",
        "twice a second for all pages together" if PACES.look == 0.5 else "",
        f"{PACES.load:.0%} of its time".replace("%", " %"),
        f"At most {side_port.BOUNDS.connections} connections",
        f"does not read for {_seconds(side_port.BOUNDS.patience)}",
        f"at most {side_port.BOUNDS.answers_per_s} answers a second",
        f"a sample of each node every {_seconds(history.SAMPLE_S)} for one hour",
        f"looks are {_seconds(PACES.history_look)} apart",
        f"a look every {_seconds(PACES.history_look)} and after each change",
        f"{PACES.history_load:.0%} of the node's time at most".replace("%", " %"),
        f"its last {history.EVENTS_EACH} events",
        f"messages have waited for it for {_seconds(history.STRAINED_S)}",
        f"{history.HISTORY_S / history.SAMPLE_S:g} samples of each",
        f"of each of {history.NODES:,} nodes",
        f"{history.EVENTS_EACH} events of a node and {history.EVENTS:,} of all",
        f"{limits.STATUS_REASON_BYTES} bytes of one text",
        f"one text and {history.TEXT_BYTES // _MIB} MiB of all",
    ],
    "docs/status.md": [
        f"all that happens within {_seconds(reporter.URGENT_S)}",
        f"go every {_seconds(limits.STATUS_FIGURES_S)}",
        f"gets {service.REPORTS_PER_S} reports a second at most",
        f"more than {service.REPORTS_PER_S * limits.STATUS_FIGURES_S:g} reporting children",
        f"{1000 / service.REPORTS_PER_S:g} s for 1,000 Proxies",
        f"A report has at most {status_codec.REPORT_NODES} nodes",
        f"the parent keeps its place for the grace time ({_seconds(limits.GRACE_S)})",
        "it is shown for one hour" if ViewBounds().gone_s == 3600.0 else "",
        f"no answer in the last {_seconds(view.LATELY_S)}",
    ],
    "SECURITY.md": [
        f"some {_seconds(limits.KEEPALIVE_TIME_S + limits.KEEPALIVE_TIMEOUT_S)}",
        f"up to {limits.RECEIVE_BYTES // _MIB} MiB of an incomplete message",
    ],
    "deploy/README.md": [
        f"each link at most {limits.LINK_BYTES // _MIB} MiB (`link_bytes`)",
    ],
}  # fmt: skip
"""Limits and pauses in the documents, by the modules of limits. Empty where a value in words has changed."""


@pytest.mark.parametrize("page", FIGURES)
def test_limits_and_pauses_are_those_of_the_code(page: str) -> None:
    # Line ends do not matter.
    text = " ".join((ROOT / page).read_text().split())
    sentences = [" ".join(sentence.split()) for sentence in FIGURES[page]]
    assert [sentence for sentence in sentences if sentence not in text or not sentence] == []


def _texts(*folders: str) -> Iterator[str]:
    """The texts in the code."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def _table(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading."""
    section = (ROOT / page).read_text().partition(f"# {heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table is not None, heading
    return [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table[0].splitlines()[2:]]


def test_every_extension_key_has_a_row_with_its_values() -> None:
    texts = _texts("taskd_net")
    known = {text for text in texts if re.fullmatch(r"taskd-net-[a-z-]+", text)} - {distributions.COMPAT, LAB}
    values = {
        peer.LINKS_KEY: {batched_kind.OFFER},
        direct.KEY: {"1 PORT TOKEN"},
        **{key: {value} for key, value in (peer.PROBES, peer.REPORTS, peer.CONTINUES)},
        peer.ROUTES_KEY: {kind.value for kind in Kind} - {Kind.ADD.value},
    }
    said: dict[str, set[str]] = {}
    for row in _table("docs/mesh.md", "Extensions between our own nodes"):
        for key, value in re.findall(r"`(taskd-net-[a-z-]+)(?:: ([^`]+))?`", row[1]):
            said.setdefault(key, set()).update({value} if value else ())
    assert set(said) == known
    assert {key: found for key, found in said.items() if key in values} == values


def test_every_service_of_our_own_is_named() -> None:
    own = {path.stem for path in (ROOT / "proto").glob("*.proto")} - {"tasknet"}
    text = (ROOT / "docs" / "mesh.md").read_text() + (ROOT / "docs" / "status.md").read_text()
    assert {name for name in own if f"proto/{name}.proto" not in text} == set()


def test_every_variable_of_ours_is_documented_and_none_that_is_not_there() -> None:
    pattern = re.compile(r"\bTASKD_[A-Z_]*[A-Z]\b")
    known = {text for text in _texts("taskd_net") if pattern.fullmatch(text)}
    known |= {variable for settings in COMMANDS.values() for setting in settings for variable in setting.variables}
    known = {name for name in known if name.startswith("TASKD_")} | {str(CONFIG.envvar)}
    pages = [path for path in PAGES if path.name != "CHANGELOG.md"]
    named = {name for path in pages for name in pattern.findall(path.read_text())}
    assert named - known == set(), "documented, and not there"
    assert known - named == set(), "not documented"


def _statuses() -> Iterator[tuple[grpc.StatusCode, str, bool, int]]:
    """The statuses of docs/interop.md: the status, its text, whether it answers a broadcast, the code."""
    for said, code in _table("docs/interop.md", "Their statuses"):
        kind = grpc.StatusCode.OK
        for part in said.split(";"):
            if named := re.search(r"\b([A-Z_]{5,})\b", re.sub(r"`[^`]*`", "", part)):
                kind = grpc.StatusCode[named[1]]
            for text in re.findall(r"`([^`]+)`", part) or [""]:
                of_broadcast = "broadcast" in part and "`broadcast" not in part
                number = re.match(r"\d+", code)
                assert number is not None, code
                yield kind, text.removesuffix("…").removeprefix("… "), of_broadcast, int(number[0])


def test_statuses_of_the_original_have_the_codes_that_the_document_gives_them() -> None:
    rows = [row for row in _statuses() if row[0] is not grpc.StatusCode.OK]
    assert len(rows) > 10
    for status, text, broadcast, code in rows:
        if status is grpc.StatusCode.UNAVAILABLE:
            continue  # by whether the own stream stands: tests/scenarios/test_original_parents.py
        assert grpc_status.read_original(status, text, broadcast) == code, (status, text)
    assert grpc_status.read_original(grpc.StatusCode.DATA_LOSS, "", False) == Code.NET_ERR
