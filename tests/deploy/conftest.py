"""The commands of these tests come from the fork server."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def forked_processes(fork_server: None) -> None:
    """Start the commands of these tests by the fork server."""
