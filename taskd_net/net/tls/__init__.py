"""Mutual TLS: its files, their checks and rotation, gRPC's credentials, and explanations of failures."""
