"""Scenes whose every event and decision is written down in `golden/`; `pytest --rewrite-golden` writes them anew.

A change of a transcript is a change of behaviour: read it before it is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.stage import Stage

GOLDEN = Path(__file__).parent / "golden"


def join(stage: Stage) -> None:
    """Nodes join in the worst order, from the leaves up."""
    stage.enter("Mgr/0", "Proxy/0", "Worker/0/0", "Worker/0/1")
    stage.say("A Worker joins a Proxy that has no upstream yet: 4999, and the Worker tries again.")
    stage.join("Worker/0/0", "Proxy/0", depth=2)
    stage.say("A message that it sends meanwhile cannot go on from the Proxy: it waits.")
    stage.send("Worker/0/0", "Mgr/0", "m1")
    stage.settle()
    stage.say("One that the Proxy's own application sends waits for the join.")
    stage.send("Proxy/0", "Mgr/0", "m2")
    stage.say("The Proxy joins the Mgr and announces everything below it.")
    stage.join("Proxy/0", "Mgr/0", depth=1)
    stage.say("The Worker's next attempt is answered by the Mgr.")
    stage.announce("Worker/0/0")
    stage.say("Another Worker joins; now its announcement goes all the way up before it is answered.")
    stage.join("Worker/0/1", "Proxy/0", depth=2)
    stage.say("The Mgr sends down; each hop waits less than the one above it.")
    stage.send("Mgr/0", "Worker/0/1", "m3")
    stage.settle()
    stage.say("Worker to Worker of one node: the Mgr never sees it.")
    stage.send("Worker/0/0", "Worker/0/1", "m4")
    stage.settle()
    stage.say("A message to nobody goes up to the root and no further.")
    stage.send("Worker/0/0", "Worker/7/70", "m5")
    stage.settle()


def rejoin(stage: Stage) -> None:
    """Streams are lost and come back."""
    stage.enter("Mgr/0", "Proxy/0", "Worker/0/0", "Worker/0/1", ack_timeout=3.0)
    stage.say("A Mgr, a Proxy and two Workers.")
    stage.join("Proxy/0", "Mgr/0", depth=1)
    stage.join("Worker/0/0", "Proxy/0", depth=2)
    stage.join("Worker/0/1", "Proxy/0", depth=2)
    stage.wait_until(100.0)
    stage.say("The stream between Mgr and Proxy breaks under a message that was written: 6001.")
    stage.send("Mgr/0", "Worker/0/0", "m1")
    stage.cut("Proxy/0")
    stage.say("Until it is back: 6002 at once from above. What a Worker sends up waits, and is tried again.")
    stage.send("Mgr/0", "Worker/0/0", "m2")
    stage.send("Worker/0/0", "Mgr/0", "m3")
    stage.settle()
    stage.say("A Worker dies meanwhile. Its place is kept for 30 s; the Mgr cannot be told.")
    stage.wait_until(101.0)
    stage.cut("Worker/0/1", silent=True)
    stage.say("The Proxy rejoins and announces everything below it. The first message is sent again.")
    stage.wait_until(102.0)
    stage.join("Proxy/0", "Mgr/0", depth=1)
    stage.send("Mgr/0", "Worker/0/0", "m1")
    stage.settle()
    stage.say("And once more: it is acknowledged, not delivered twice.")
    stage.send("Mgr/0", "Worker/0/0", "m1")
    stage.settle()
    stage.say("The dead Worker is forgotten, and withdrawn from the Mgr.")
    stage.wait_until(140.0)
    stage.send("Mgr/0", "Worker/0/1", "m4")
    stage.settle()
    stage.say("A second node claims the position of the living one: the newcomer wins.")
    stage.enter("Worker/0/0")
    stage.join("Worker/0/0", "Proxy/0", depth=2)
    stage.say("A Proxy that was restarted knows only who has joined it since; COMPLETE says that this is all.")
    stage.cut("Worker/0/0", silent=True)
    stage.cut("Proxy/0", silent=True)
    stage.enter("Proxy/0")
    stage.join("Proxy/0", "Mgr/0", depth=1)
    stage.send("Mgr/0", "Worker/0/0", "m5")
    stage.settle()


def broadcast(stage: Stage) -> None:
    """One message for many."""
    stage.enter("Mgr/0", "Proxy/0", "Proxy/1", "Worker/0/0", "Worker/0/1", "Worker/1/2")
    stage.enter("Worker/1/3", inbox=1)
    stage.say("A Mgr, and two Proxies with two Workers each. Worker/1/3 has an inbox for one message.")
    for proxy in (0, 1):
        stage.join(f"Proxy/{proxy}", "Mgr/0", depth=1)
        for rank in (2 * proxy, 2 * proxy + 1):
            stage.join(f"Worker/{proxy}/{rank}", f"Proxy/{proxy}", depth=2)
    stage.say("From a Worker to all Workers: once over each link, and not back to the sender.")
    stage.send("Worker/0/0", "Worker/All/All", "m1")
    stage.settle()
    stage.say("The next one finds an inbox full: after 10 ms the answer is 5001, and who reported it.")
    stage.send("Mgr/0", "Worker/All/All", "m2")
    stage.wait_until(1.0)
    stage.say("Sent again with the same uuid when there is room: who has it already says so, and only the one gets it.")
    stage.take("Worker/1/3")
    stage.send("Mgr/0", "Worker/All/All", "m2")
    stage.settle()
    stage.say("Nobody waits for a posted one beyond the first hop; the full inbox keeps it in line.")
    stage.send("Mgr/0", "Worker/1/All", "m3", sync=False)
    stage.settle()
    stage.take("Worker/1/3")
    stage.say("A list of which everybody is below the Proxy stays below it.")
    stage.send("Worker/0/0", "Worker/0/0,1", "m4")
    stage.settle()
    stage.say("A list that names somebody who does not exist: the others get it, and the answer is 5002.")
    stage.send("Worker/0/0", "Worker/All/1,2,9", "m5")
    stage.settle()
    stage.say("To all of whom there are none: 5002.")
    stage.send("Worker/0/0", "Agent/All", "m6")
    stage.settle()
    stage.say("To all Proxies, from one of them.")
    stage.send("Proxy/0", "Proxy/All", "m7")
    stage.settle()


@pytest.mark.parametrize("scene", [join, rejoin, broadcast])
def test_transcript(scene: Callable[[Stage], None], request: pytest.FixtureRequest) -> None:
    stage = Stage()
    scene(stage)
    file = GOLDEN / f"{scene.__name__}.txt"
    if request.config.getoption("--rewrite-golden"):
        file.write_text(stage.transcript(), "utf-8")
    assert stage.transcript() == file.read_text("utf-8")
