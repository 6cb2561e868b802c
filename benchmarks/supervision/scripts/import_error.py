"""A script that imports a module which is not there."""

import no_such_module_of_this_training  # type: ignore[import-not-found]  # noqa: F401
