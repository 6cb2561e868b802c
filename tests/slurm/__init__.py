"""Launchers under a real Slurm, MPICH's hydra and Open MPI (`make slurm`)."""
