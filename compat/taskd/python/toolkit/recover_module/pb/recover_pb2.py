"""ClusterD's messages."""

from taskd_net.net.wire.recover_pb2 import *  # noqa: F403 - generated
