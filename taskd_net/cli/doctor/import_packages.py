"""Checks of the import packages of TaskD and Elastic-Agent: whose they are."""

from __future__ import annotations

from taskd_net.base.distributions import COMPAT, PACKAGES, Distribution, owners, remove, separate, shared
from taskd_net.cli.doctor.finding import Finding, ok, skipped, warning, wrong
from taskd_net.version import __version__


def check() -> list[Finding]:
    """One finding for each import package."""
    return [_of_package(package, owners(package)) for package in PACKAGES]


def _of_package(package: str, found: list[Distribution]) -> Finding:
    ours = next((each for each in found if each.ours), None)
    others = [each for each in found if not each.ours]
    if ours is None:
        if not others:
            return skipped(package, f"no installed distribution has it; {COMPAT} would bring it")
        text = f"{', '.join(map(str, others))} has it, and not {COMPAT}"
        return wrong(package, text, f"{remove(others)}; then install {COMPAT}.")
    if mixed := [other for other in others if other.folder == ours.folder]:
        return wrong(package, shared(package, ours, mixed), f"{separate(mixed)}.")
    if others:
        text = f"{found[0]} in {found[0].folder} has it; {found[-1]} in {found[-1].folder} has it too"
        return (warning if found[0].ours else wrong)(package, text, f"{remove(others)}.")
    if gone := ours.missing:
        text = f"{ours} has lost {len(gone)} of {len(ours.files)} files, such as {gone[0]}"
        return wrong(package, text, f"Install it again: pip install --force-reinstall --no-deps {COMPAT}.")
    if ours.version != __version__:
        text = f"it comes from {ours}, and taskd-net is {__version__}"
        return wrong(package, text, f"Install {COMPAT} {__version__}.")
    return ok(package, f"it comes from {ours}, and from nothing else")
