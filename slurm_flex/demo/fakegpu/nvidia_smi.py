"""What nvidia-smi prints, for the calls that checks and people make.

The formats are those of driver branches 535 to 570. Where branches differ in what they print for a
GPU that is gone (the other GPUs too, or the error alone), the state file says which.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from slurm_flex.demo.fakegpu.state import FakeNode, bus_of, this_node, uuid_of

_NO_DRIVER: Final = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
_INVALID: Final = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"
_HANGS_FOR: Final = 600

Column = Callable[[str, FakeNode, int], str]
_COLUMNS: Final[dict[str, Column]] = {
    "index": lambda _name, _node, gpu: str(gpu),
    "pci.bus_id": lambda _name, _node, gpu: bus_of(gpu),
    "gpu_bus_id": lambda _name, _node, gpu: bus_of(gpu),
    "uuid": lambda name, _node, gpu: uuid_of(name, gpu),
    "gpu_uuid": lambda name, _node, gpu: uuid_of(name, gpu),
    "name": lambda _name, node, _gpu: node.model,
    "gpu_name": lambda _name, node, _gpu: node.model,
    "driver_version": lambda _name, node, _gpu: node.driver,
    "ecc.mode.current": lambda _name, _node, _gpu: "Enabled",
    "ecc.errors.corrected.volatile.total": lambda _name, _node, _gpu: "0",
    "ecc.errors.uncorrected.volatile.total": lambda _name, node, gpu: str(
        node.ecc.get(str(gpu), 0)
    ),
    "mig.mode.current": lambda _name, _node, _gpu: "Disabled",
    "temperature.gpu": lambda _name, _node, _gpu: "34",
    "utilization.gpu": lambda _name, _node, _gpu: "0",
}


def main(arguments: Sequence[str], folder: str) -> int:
    """Exit codes are nvidia-smi's own."""
    name, node = this_node(Path(folder), os.environ)
    if "nvidia-smi" in node.hanging:
        time.sleep(_HANGS_FOR)
    if not node.driver:
        sys.stdout.write(_NO_DRIVER)
        return 9
    if not node.gpus:
        sys.stdout.write("No devices were found\n")
        return 6
    for gpu in node.lost:
        where = bus_of(gpu)[4:]
        numbered = "" if node.lost_alone else f"{gpu}: "
        sys.stdout.write(
            f"Unable to determine the device handle for GPU{numbered}{where}: Unknown Error\n"
        )
    if node.lost and node.lost_alone:
        return 255
    return _print(list(arguments), name, node)


def _print(arguments: list[str], name: str, node: FakeNode) -> int:
    if arguments == ["-L"]:
        for gpu in node.answering():
            sys.stdout.write(f"GPU {gpu}: {node.model} (UUID: {uuid_of(name, gpu)})\n")
        return 0
    if arguments[:1] == ["nvlink"]:
        _print_nvlink(name, node)
        return 0
    query = next((a[12:] for a in arguments if a.startswith("--query-gpu=")), None)
    if query is not None:
        layout = next((a[9:] for a in arguments if a.startswith("--format=")), "")
        return _print_query(query.split(","), layout.split(","), name, node)
    if arguments[:2] == ["-q", "-d"] and arguments[2:] == ["ROW_REMAPPER"]:
        _print_row_remapper(node)
        return 0
    sys.stdout.write(_INVALID)
    return 2


def _print_query(fields: list[str], layout: list[str], name: str, node: FakeNode) -> int:
    for field in fields:
        if field not in _COLUMNS:
            sys.stdout.write(f'Field "{field}" is not a valid field to query.\n\n')
            return 2
    if "noheader" not in layout:
        sys.stdout.write(", ".join(fields) + "\n")
    for gpu in node.answering():
        sys.stdout.write(", ".join(_COLUMNS[f](name, node, gpu) for f in fields) + "\n")
    return 0


def _print_row_remapper(node: FakeNode) -> None:
    now = time.strftime("%a %b %e %H:%M:%S %Y", time.gmtime())
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        f"Timestamp                                 : {now}",
        f"Driver Version                            : {node.driver}",
        "CUDA Version                              : 12.8",
        "",
        f"Attached GPUs                             : {node.gpus}",
    ]
    for gpu in node.answering():
        pending = "Yes" if gpu in node.remap_pending else "No"
        failed = "Yes" if gpu in node.remap_failed else "No"
        lines += [
            f"GPU {bus_of(gpu)}",
            "    Remapped Rows",
            "        Correctable Error                 : 0",
            f"        Uncorrectable Error               : {int(pending == 'Yes')}",
            f"        Pending                           : {pending}",
            f"        Remapping Failure Occurred        : {failed}",
            "        Bank Remap Availability Histogram",
            "            Max                           : 640 bank(s)",
            "            High                          : 0 bank(s)",
            "            Partial                       : 0 bank(s)",
            "            Low                           : 0 bank(s)",
            "            None                          : 0 bank(s)",
            "",
        ]
    sys.stdout.write("\n".join(lines) + "\n")


def _print_nvlink(name: str, node: FakeNode) -> None:
    for gpu in node.answering():
        sys.stdout.write(f"GPU {gpu}: {node.model} (UUID: {uuid_of(name, gpu)})\n")
        down = node.links_down.get(str(gpu), ())
        for link in range(node.links):
            state = "<inactive>" if link in down else "26.562 GB/s"
            sys.stdout.write(f"\t Link {link}: {state}\n")
