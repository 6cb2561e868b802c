"""A package of TaskD's import paths."""
