"""The laboratory for the tests: a mesh for each module, short and long forms of every fault, and the figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.figures import DOCUMENT, ROWS, Figures, Report
from tests.faults.lab import Lab

REPORT = Report("figures", DOCUMENT, ROWS)


@dataclass(frozen=True, slots=True)
class Form:
    """The extent of the faults: short, to check the promises, or long, to measure the table's figures.

    Attributes:
        workers: Workers of the mesh, below two Proxies.
        rounds: times that a kill is repeated.
        away: seconds between a kill and the restart.
        stop, cut, absence, late: seconds of a stop, a cut, an absent Mgr, and the delay of a Mgr that starts last.
        lossy, flood: seconds of a bad network and of a flood.
        chaos, messages: seconds of chaos, and least number of messages with a code by its end.
        crowd: children that rejoin together.
        joins: joins and leaves.
        grace: seconds that a lost child keeps its place.
    """

    name: str
    workers: int
    rounds: int
    away: float
    stop: float
    cut: float
    absence: float
    late: float
    lossy: float
    flood: float
    chaos: float
    messages: int
    crowd: int
    joins: int
    grace: float

    @property
    def long(self) -> bool:
        """True for the long form, whose figures must keep the promises."""
        return self.name == "long"


SHORT = Form(
    name="short",
    workers=4,
    rounds=1,
    away=0.2,
    stop=8.0,
    cut=1.0,
    absence=1.0,
    late=0.5,
    lossy=2.0,
    flood=1.0,
    chaos=5.0,
    messages=200,
    crowd=40,
    joins=40,
    grace=2.0,
)
LONG = Form(
    name="long",
    workers=16,
    rounds=5,
    away=3.0,
    stop=30.0,
    cut=10.0,
    absence=60.0,
    late=10.0,
    lossy=60.0,
    flood=60.0,
    chaos=180.0,
    messages=100_000,
    crowd=500,
    joins=1000,
    grace=30.0,
)


@pytest.fixture(
    scope="module",
    params=[pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=[pytest.mark.long])],
)
def form(request: pytest.FixtureRequest) -> Form:
    """The extent of the faults."""
    form: Form = request.param
    return form


@pytest.fixture(scope="module")
def links(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings of nodes with one kind of link between nodes of ours; `over_links` has the kinds."""
    return {"links": request.param}


def over_links(*pairs: tuple[Form, str]) -> pytest.MarkDecorator:
    """Run a test in these forms, each over a kind of link. The short form over batched links is in `make more`."""
    params = []
    for form, kind in pairs:
        marks = [pytest.mark.long] if form.long else [pytest.mark.more] if kind == "batched" else []
        params.append(pytest.param(form, kind, id=f"{form.name}-{kind}", marks=marks))
    return pytest.mark.parametrize(("form", "links"), params, indirect=True, scope="module")


# The table has the figures of the default kind of link.
EACH_KIND = over_links((SHORT, "direct"), (SHORT, "batched"), (LONG, "direct"))


@pytest.fixture(scope="module")
def lab_settings() -> dict[str, Any]:
    """Settings of a module's laboratory beside the defaults."""
    return {}


@pytest.fixture(scope="module")
def running_lab(form: Form, lab_settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A mesh for all tests of a module."""
    folder: Path = tmp_path_factory.mktemp("lab", numbered=True)
    with Lab(folder, workers=form.workers, **lab_settings) as lab:
        yield lab


@pytest.fixture
def lab(running_lab: Lab) -> Iterator[Lab]:
    """The mesh. After every test it is whole again, and its promises held."""
    try:
        yield running_lab
    finally:
        for member in running_lab.others:
            member.end()
        running_lab.others.clear()
        running_lab.recover()
        running_lab.quiet()
    audit = running_lab.audit()
    running_lab.turn_over()
    assert not audit.broken, audit


@pytest.fixture
def figures(form: Form) -> Figures:
    """The report of a test."""
    return REPORT.of(long=form.long)


def pytest_configure(config: pytest.Config) -> None:
    """Report the figures of a run at its end."""
    config.pluginmanager.register(REPORT)
