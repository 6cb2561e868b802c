"""Random numbers of this package, past the generator of the module `random`, which belongs to the application.

A training that seeds that generator is repeatable only if no one else draws from it. Its ranks often share a seed, too,
and would then wait equally long before they try again.
"""

from __future__ import annotations

import random
from typing import Final

chance: Final = random.SystemRandom()
