"""The messages and the service of ClusterD."""
