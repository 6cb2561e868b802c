"""gRPC: the four calls of the TaskNet service, served to children and made to the parent. grpc lives here alone.

`parent` is the side that serves, `child` the side that joins; `link` is the one writer that every stream has, `peer`
what kind of node is at the other end, `channel` the settings of gRPC and what its statuses mean.
"""
