"""ClusterD's service."""

from taskd_net.job.clusterd.stub import RecoverServicer, RecoverStub, add_RecoverServicer_to_server

__all__ = ["RecoverServicer", "RecoverStub", "add_RecoverServicer_to_server"]
