"""`python -m slurm_flex.demo.fakegpu FOLDER FAULT NODE [GPU [NUMBER]]`: break a GPU by hand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from slurm_flex.demo.fakegpu.fleet import FakeGpus

Fault = Callable[[FakeGpus, str, int, int], None]
_FAULTS: dict[str, Fault] = {
    "add": lambda gpus, node, _gpu, _number: gpus.add_node(node),
    "replaced": lambda gpus, node, _gpu, _number: gpus.replaced(node),
    "off-the-bus": lambda gpus, node, gpu, _number: gpus.fell_off_the_bus(node, gpu),
    "ecc": lambda gpus, node, gpu, number: gpus.ecc_error(node, gpu, number),
    "remap-pending": lambda gpus, node, gpu, _number: gpus.row_remap_pending(node, gpu),
    "remap-failed": lambda gpus, node, gpu, _number: gpus.row_remap_failed(node, gpu),
    "link-down": lambda gpus, node, gpu, number: gpus.link_down(node, gpu, number),
    "xid": lambda gpus, node, gpu, number: gpus.xid(node, gpu, number),
    "dcgm": lambda gpus, node, gpu, _number: gpus.dcgm_fails(node, gpu),
    "hang": lambda gpus, node, _gpu, _number: gpus.hang(node, "nvidia-smi"),
    "hang-dcgmi": lambda gpus, node, _gpu, _number: gpus.hang(node, "dcgmi"),
    "unload-driver": lambda gpus, node, _gpu, _number: gpus.unload_driver(node),
}


def main() -> int:
    """Exit 0 when done, 2 on usage."""
    parser = argparse.ArgumentParser(prog="python -m slurm_flex.demo.fakegpu")
    parser.add_argument("folder", type=Path, help="where the stand-ins and their state live")
    parser.add_argument("fault", choices=sorted(_FAULTS))
    parser.add_argument("node")
    parser.add_argument("gpu", type=int, nargs="?", default=0, help="index, from 0")
    parser.add_argument("number", type=int, nargs="?", default=1, help="Xid, link or error count")
    options = parser.parse_args()
    try:
        _FAULTS[options.fault](FakeGpus(options.folder), options.node, options.gpu, options.number)
    except KeyError:
        parser.error(f"there is no node {options.node} in {options.folder}; add it first")
    return 0


if __name__ == "__main__":
    sys.exit(main())
