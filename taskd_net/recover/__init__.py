"""The client of ClusterD, which decides on the recovery of a job."""

from __future__ import annotations
