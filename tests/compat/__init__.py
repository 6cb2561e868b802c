"""Tests of `compat/`: the import packages of TaskD and Elastic-Agent."""
