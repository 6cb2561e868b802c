"""Texts that are dear to show: lines of the log, and bodies that a terminal must not see as they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from itertools import count, cycle
from typing import Final
from uuid import uuid4

from taskd_net.base.limits import MESSAGE_BYTES
from taskd_net.net.wire.batches import write_batch
from taskd_net.net.wire.link_pb2 import Batch
from tests.peers.direct_child import DirectChild
from tests.peers.links import LinkChild
from tests.peers.stubs import pb, position
from tests.security.attacks.attack import ALL_BYTES, Attack
from tests.security.bystander.stand import MIB, Stand

TEXTS: Final = ("\x1b", "\x1b[2Jx\n", "\U000f0000", "é\u202e")
"""Control characters, line ends, characters for private use, a change of direction."""

STRIKES: Final = 30
"""Strikes over one stream: their answers, which nobody reads, are not yet so many that it ends."""


async def _lines(stand: Stand, child_at: type[LinkChild] = LinkChild) -> AsyncGenerator[None, None]:
    """Each message, registration and announcement could be a line of the log."""
    garbage = write_batch([b"\xff" * 8] * 200, Batch(patience=[1000] * 200, numbers=range(1, 201)))
    for life in count():
        async with child_at("Worker/80/0") as child:
            await child.join(stand.address)
            if not life:
                yield
            for number in range(life * STRIKES, (life + 1) * STRIKES):
                await child.write(garbage)
                for name in (f"Worker/{'x' * 100_000}/{number}", f"Worker/0/\n{number}", f"Boss{number}/0"):
                    liar = position(name)
                    refused = await child.call("Register", pb.RegisterReq(uuid="u", pos=liar).SerializeToString())
                    assert refused.code
                    announcement = pb.PathDiscoveryReq(uuid="u", proxyPos=liar, path=[liar])
                    assert (await child.call("PathDiscovery", announcement.SerializeToString())).code
                assert stand.log_bytes() < MIB
                yield


async def _printed(to: str, stand: Stand) -> AsyncGenerator[None, None]:
    """A child sends bodies that have to be escaped throughout."""
    bodies = cycle([text * ((MESSAGE_BYTES - 1000) // len(text.encode())) for text in TEXTS])
    async with LinkChild("Worker/80/0") as child:
        await child.join(stand.address)
        yield
        for body in bodies:
            header = pb.MessageHeader(uuid=str(uuid4()), sync=True, src=position(child.place), dst=position(to))
            ack = await child.call("TransferMessage", pb.Message(header=header, body=body).SerializeToString())
            assert ack.code in (0, 5001), ack
            yield


_SENDS: Final = "bodies of 8 MiB of control characters"
ATTACKS: Final[Mapping[str, Attack]] = {
    "log-lines": Attack(
        "unreadable messages, and requests in the names of ever new nodes", "less than 1 MiB of log", _lines,
        command="mgr",
    ),
    "direct-log-lines": Attack(
        "the same over a direct link", "less than 1 MiB of log", partial(_lines, child_at=DirectChild),
    ),
    "printed-by-mgr": Attack(
        f"{_SENDS} to a Mgr, which prints them", "escaped, piece by piece", partial(_printed, "Mgr/0"),
        command="mgr", share=ALL_BYTES,
    ),
    "printed-by-listen": Attack(
        f"{_SENDS} to `taskd-net listen`", "escaped, piece by piece", partial(_printed, "Worker/90/901"),
        command="listen", share=ALL_BYTES,
    ),
}  # fmt: skip
