"""Set up the stand-ins and break GPUs, one line a fault."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from slurm_flex.demo.fakegpu.state import FakeNode, bus_of, read_nodes, write_nodes

TOOLS: Final = {"nvidia-smi": "nvidia_smi", "dcgmi": "dcgmi"}
# The system's own: a node of another release has no other that is sure to run there.
_PYTHON: Final = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
_PACKAGE_ROOT: Final = Path(__file__).resolve().parents[3]
_SAID_OF_XID: Final = {
    13: "Graphics Exception: ESR 0x505224=0x00000000",
    31: "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC0 GPCCLIENT_T1_0 faulted",
    43: "Ch 00000008, engmask 00000101",
    45: "Ch 00000008",
    48: "DBE (double bit error) ECC Error: An uncorrectable double bit error has been detected",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: "Row Remapper: Failed to remap row.",
    79: "GPU has fallen off the bus.",
    94: "Contained: SM (0x1). RST: No, D-RST: No",
    119: "Timeout after 45s of waiting for RPC response from GPU3 GSP! Expected function 76",
}


class FakeGpus:
    """The GPUs of a fleet, in one folder: `bin/` (the tools), the state, a kernel log a node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        (self.folder / "bin").mkdir(parents=True, exist_ok=True)
        for tool, module in TOOLS.items():
            self._write_tool(tool, module)
        with self._locked() as nodes:
            nodes.update({})

    def add_node(self, node: str, **values: Any) -> None:
        """A node with healthy GPUs; values are FakeNode's fields (gpus, model, links, dcgm)."""
        with self._locked() as nodes:
            nodes[node] = FakeNode(**values)
            self.kernel_log(node).write_text("", "utf-8")
            self._log(nodes, node, "Linux version 6.8.0 (fake) #1 SMP")

    def node_file(self, node: str) -> dict[str, Any]:
        """What the node's node.json has to say for the checks to use these tools."""
        return {
            "gpus": read_nodes(self.folder)[node].gpus,
            "tools": {tool: str(self.folder / "bin" / tool) for tool in TOOLS},
            "kernel_log": str(self.kernel_log(node)),
        }

    def kernel_log(self, node: str) -> Path:
        """The node's kernel log, in /dev/kmsg's format."""
        return self.folder / f"kmsg-{node}"

    def fell_off_the_bus(self, node: str, gpu: int) -> None:
        """The GPU is gone from one moment to the next, and the kernel says so: Xid 79."""
        self._change(node, lost=lambda fake: (*fake.lost, gpu))
        self.xid(node, gpu, 79)

    def ecc_error(self, node: str, gpu: int, count: int = 1) -> None:
        """Uncorrectable ECC errors since the driver was loaded."""
        self._change(node, ecc=lambda fake: {**fake.ecc, str(gpu): count})

    def row_remap_pending(self, node: str, gpu: int) -> None:
        """A row waits for the GPU's reset to be remapped."""
        self._change(node, remap_pending=lambda fake: (*fake.remap_pending, gpu))

    def row_remap_failed(self, node: str, gpu: int) -> None:
        """A row couldn't be remapped."""
        self._change(node, remap_failed=lambda fake: (*fake.remap_failed, gpu))

    def link_down(self, node: str, gpu: int, link: int) -> None:
        """One NVLink is inactive."""
        key = str(gpu)
        self._change(
            node,
            links_down=lambda fake: {**fake.links_down, key: (*fake.links_down.get(key, ()), link)},
        )

    def dcgm_fails(self, node: str, gpu: int, text: str = "GPU memory is corrupted.") -> None:
        """DCGM's diagnostic fails on a GPU."""
        self._change(node, dcgm_failures=lambda fake: {**fake.dcgm_failures, str(gpu): text})

    def hang(self, node: str, tool: str) -> None:
        """A tool never answers again."""
        self._change(node, hanging=lambda fake: (*fake.hanging, tool))

    def unload_driver(self, node: str) -> None:
        """The driver is gone."""
        self._change(node, driver=lambda _: "")

    def xid(self, node: str, gpu: int, number: int) -> None:
        """The driver writes an Xid into the kernel's log now."""
        where = f"PCI:{bus_of(gpu)[4:-2].lower()}"
        text = _SAID_OF_XID.get(number, "unheard of")
        who = "pid='<unknown>', name=<unknown>, "
        with self._locked() as nodes:
            self._log(nodes, node, f"NVRM: Xid ({where}): {number}, {who}{text}")

    def replaced(self, node: str) -> None:
        """The node has a new VM: its GPUs are well, its kernel log begins anew."""
        with self._locked() as nodes:
            old = nodes[node]
            kept = (old.gpus, old.model, old.links, old.driver or FakeNode.driver, old.dcgm)
            nodes[node] = replace(FakeNode(*kept), log_lines=old.log_lines)
            self.kernel_log(node).write_text("", "utf-8")
            self._log(nodes, node, "Linux version 6.8.0 (fake) #1 SMP")

    def _change(self, node: str, **how: Any) -> None:
        with self._locked() as nodes:
            fake = nodes[node]
            nodes[node] = replace(fake, **{key: change(fake) for key, change in how.items()})

    def _log(self, nodes: dict[str, FakeNode], node: str, text: str) -> None:
        number = nodes[node].log_lines
        microseconds = time.monotonic_ns() // 1000
        with self.kernel_log(node).open("a", encoding="utf-8") as log:
            log.write(f"4,{number},{microseconds},-;{text}\n")
        nodes[node] = replace(nodes[node], log_lines=number + 1)

    @contextmanager
    def _locked(self) -> Iterator[dict[str, FakeNode]]:
        """The nodes, to be changed: written back at the end, one writer at a time."""
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                nodes = read_nodes(self.folder)
            except FileNotFoundError:
                nodes = {}
            yield nodes
            write_nodes(self.folder, nodes)

    def _write_tool(self, tool: str, module: str) -> None:
        path = self.folder / "bin" / tool
        temporary = path.with_name(f".{tool}.{os.urandom(8).hex()}")
        temporary.write_text(
            f"#!{_PYTHON} -IS\n"
            "import sys\n"
            f"sys.path.insert(0, {str(_PACKAGE_ROOT)!r})\n"
            f"from slurm_flex.demo.fakegpu.{module} import main\n"
            f"sys.exit(main(sys.argv[1:], {str(self.folder)!r}))\n",
            "utf-8",
        )
        temporary.chmod(0o755)
        temporary.replace(path)
