"""ClusterD's messages."""

from taskd_net.wire.recover_pb2 import *  # noqa: F403 - generated
