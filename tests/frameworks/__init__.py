"""Tests of the training frameworks: the registry, and the functions of each, called as it expects."""
