"""Is this node fit for a job? Runs on the compute node: the standard library only, Python 3.9+.

Nothing in this package imports anything of slurm_flex but itself, so that a node needs no more
than a copy of this folder, of `scripts/` and of `etc/health.d/`.
"""
