"""The cost of the mesh, beside its alternatives. Run it with `taskd-net bench`; see README.md."""
