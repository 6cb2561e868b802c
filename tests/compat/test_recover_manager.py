"""ClusterD's client in Elastic-Agent's form."""

from __future__ import annotations

import inspect
from pathlib import Path

import grpc
import pytest

from mindx_elastic.recover_manager import DLRecoverManager
from taskd_net.job.clusterd import ClusterdError, pb
from taskd_net.net.wire import recover_pb2 as wire
from tests.peers import certificates
from tests.peers.clusterd import ClusterD

pytestmark = pytest.mark.oldest

INFO = pb.ClientInfo(ip="10.0.0.1", port="1", taskId="T", role="master agent")


def test_signature_is_the_documented_one() -> None:
    parameters = inspect.signature(DLRecoverManager).parameters.values()
    assert [(each.name, each.default) for each in parameters][2:] == [("secure_conn", True), ("cert_path", "")]


@pytest.mark.parametrize("info", [INFO, wire.ClientInfo(jobId="T", role="master agent")])
def test_tls_is_on_in_either_form_of_the_sender(info: pb.ClientInfo, tmp_path: Path) -> None:
    files = certificates.Folder(tmp_path)
    pair = (Path(files.key).read_bytes(), Path(files.crt).read_bytes())
    with ClusterD(grpc.ssl_server_credentials([pair])) as clusterd:
        manager = DLRecoverManager(info, clusterd.address, cert_path=files.ca)
        plain = DLRecoverManager(info, clusterd.address, False)
        try:
            assert manager.register(info).code == 0
            assert clusterd.calls == [("Register", wire.ClientInfo(jobId="T", role="master agent"))]
            with pytest.raises(ClusterdError, match="UNAVAILABLE"):
                plain.register(info)
        finally:
            manager.close()
            plain.close()
