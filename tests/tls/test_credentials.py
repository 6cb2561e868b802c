"""Names in certificates, as gRPC hands them over."""

from __future__ import annotations

from pathlib import Path

import grpc.aio
import pytest

from taskd_net.core.certificate_name import CertificateName
from taskd_net.net.tls.certificates import read
from taskd_net.net.tls.credentials import ServerCredentials, channel_credentials, peer_names
from tests.peers.certificates import Folder
from tests.peers.mesh import soon

pytestmark = pytest.mark.timeout(180)


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_the_names_of_a_peer_over_a_real_connection(tmp_path: Path) -> None:
    server_files = Folder(tmp_path / "server")
    client_files = Folder(tmp_path / "client", server_files.authority)
    uris = ["taskd://job/Worker/0/3", "spiffe://cluster/worker", "taskd://job/*/7/*", "taskd://job/nobody"]
    client_files.issue(*uris)
    seen = []

    async def answer(data: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        seen.append(peer_names(context.auth_context()))
        return data

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Test", {"Call": handler}),))
    port = server.add_secure_port("127.0.0.1:0", ServerCredentials(read(server_files.listening())).credentials)
    plain = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    credentials = channel_credentials(read(client_files.connecting()))
    async with (
        grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as secure,
        grpc.aio.insecure_channel(f"127.0.0.1:{plain}") as insecure,
    ):
        for channel in (secure, insecure):
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/Test/Call")
            await soon(call(b"x"))
    await server.stop(None)
    names = tuple(CertificateName.parse(uri) for uri in (uris[0], uris[2]))
    assert seen == [names, ()]


def test_bytes_that_are_no_text_are_no_name() -> None:
    assert (
        peer_names({"peer_uri": [b"taskd://\xff/Mgr/0"], "x509_subject_alternative_name": [b"taskd://a/Mgr/0"]}) == ()
    )
