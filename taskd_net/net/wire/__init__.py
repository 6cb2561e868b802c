"""The bytes between two nodes: generated protobuf modules, and the one place that turns bytes into our types."""
