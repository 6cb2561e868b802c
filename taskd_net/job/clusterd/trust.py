"""Trust in ClusterD's certificate."""

from __future__ import annotations

import ssl

import grpc

from taskd_net.base import limits
from taskd_net.base.bounded_file import read_file
from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown


def credentials(cert_path: str) -> grpc.ChannelCredentials:
    """Credentials for TLS to ClusterD.

    Args:
        cert_path: PEM file with the certificate to trust; empty for those that the system trusts.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = cert_path or ssl.get_default_verify_paths().cafile
    if not path:
        return grpc.ssl_channel_credentials()  # gRPC brings some with it
    try:
        content = read_file(path, limits.CONFIG_BYTES, limits.CONFIG_READ_S)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cert_path is {shown(path)}; it cannot be read: {error}") from None
    return grpc.ssl_channel_credentials(content.data)
