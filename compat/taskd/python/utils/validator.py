"""Checks of values from outside."""

from taskd_net.job.api.validators import (
    ClassValidator,
    DirectoryValidator,
    FileValidator,
    IntValidator,
    MapValidator,
    RankSizeValidator,
    StringValidator,
    Validator,
)

__all__ = [
    "ClassValidator",
    "DirectoryValidator",
    "FileValidator",
    "IntValidator",
    "MapValidator",
    "RankSizeValidator",
    "StringValidator",
    "Validator",
]
