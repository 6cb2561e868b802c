"""What the mesh costs, measured beside what else one could use. Run it with `taskd-net bench`; see README.md."""
