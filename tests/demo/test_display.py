"""The display of a report."""

import io
import sys

import pytest

from taskd_net import Position
from taskd_net.demo import display
from taskd_net.demo.report import DemoReport, Sends


def report(workers: int) -> DemoReport:
    proxy = Position.proxy(0)
    below = [Position.worker(0, rank) for rank in range(workers)]
    made = DemoReport(expected=workers + 2, replaced=proxy, addresses={Position.mgr(): "[::1]:1", proxy: "127.0.0.1:2"})
    made.tree = {Position.mgr(): [proxy], proxy: below[::-1]}
    made.add(Sends.of("worker_to_mgr", "Worker → Mgr", 0, [0], [999.4]))
    made.add(Sends.of("bad", "bad [red]role[/]", 4003, [7], [1234.0]))
    return made


def lines(monkeypatch: pytest.MonkeyPatch, shown: DemoReport, encoding: str = "utf-8") -> list[str]:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    console = display.console()
    console.print(display.tree(shown))
    console.print(display.table(shown))
    sys.stdout.flush()
    return [line.rstrip() for line in raw.getvalue().decode(encoding).splitlines()]


def test_the_tree_is_drawn_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, report(3))[:5] == [
        " Mgr/0  [::1]:1",
        " └── Proxy/0  127.0.0.1:2  was killed and started again",
        "     ├── Worker/0/0",
        "     ├── Worker/0/1",
        "     └── Worker/0/2",
    ]


def test_a_large_node_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, report(12))[8:10] == [
        "     ├── Worker/0/6",
        "     └── … and 5 more, up to Worker/0/11",
    ]


def test_the_table_shows_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, good, bad = [line.split() for line in lines(monkeypatch, report(1)) if line]
    assert good == ["✓", "Worker", "→", "Mgr", "1", "0", "0", "999", "µs", "999", "µs"]
    assert bad == ["✗", "bad", "[red]role[/]", "1", "7", "4003", "1.2", "ms", "1.2", "ms"]


def test_an_encoding_without_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = lines(monkeypatch, report(12), "ascii")
    assert "     `-- ... and 5 more, up to Worker/0/11" in shown
    assert any("Worker -> Mgr" in line and "999 us" in line for line in shown)
