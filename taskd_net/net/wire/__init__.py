"""The bytes between two nodes: generated protobuf modules, and the one place that turns bytes into our types.

Read first: `codec` (messages and answers), `requests` (Register and announcements), `batches` (what a batched link
carries), `socket_frames` (frames of a direct link). What comes in is checked here once. `make proto` generates `*_pb2`.

It imports `core` and `base`.
"""
