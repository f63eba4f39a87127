"""Stand-ins for nvidia-smi and dcgmi, for tests and the demo: no GPU needed to break one.

    gpus = FakeGpus(folder)
    gpus.add_node("c1-gx-1")
    gpus.fell_off_the_bus("c1-gx-1", 3)

The tools print the real ones' formats for the node that SLURMD_NODENAME names, and the node's
kernel log gets the line that a real driver would write.
"""

from slurm_flex.demo.fakegpu.fleet import FakeGpus

__all__ = ["FakeGpus"]
