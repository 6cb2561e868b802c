"""msrun's workers under the platform's reset files."""

from taskd_net.mindspore import MSRunPlugin

__all__ = ["MSRunPlugin"]
