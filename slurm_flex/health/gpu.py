"""The GPUs, by nvidia-smi: there, sound, and linked. Nothing here touches a running job.

Utilisation is never judged: an idle GPU is no broken one (slurm-gcp#223).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Optional

from slurm_flex.health import schema
from slurm_flex.health.node import Node
from slurm_flex.health.run import Output
from slurm_flex.health.schema import Field
from slurm_flex.health.sight import Builtin, Judged, Options, Sight, of_this_moment
from slurm_flex.health.state import boot_id
from slurm_flex.health.verdict import Finding, bad, ok, one_line, skipped, unknown

# The name comes last: it is the only value that may hold a comma.
_COLUMNS: Final = "index,pci.bus_id,uuid,ecc.errors.uncorrected.volatile.total,name"
_BROKEN_VALUES: Final = ("GPU is lost", "GPU requires reset", "Unknown Error")
_ABSENT_VALUES: Final = ("N/A", "Not Supported", "Not Available")
_NO_HANDLE: Final = re.compile(
    r"Unable to determine the device handle for GPU\s*(?:\d{1,2}:\s+)?([0-9A-Fa-f:.]+): *(.*)"
)
# nvidia-smi's own exit codes (man nvidia-smi, RETURN VALUE).
_NO_DEVICES: Final = 6
_DRIVER_AWAY: Final = {9: "the NVIDIA driver is not loaded", 12: "the NVML library is not found"}
_OFF_THE_BUS: Final = 15


@dataclass(frozen=True)
class Gpu:
    """One row of the query: as nvidia-smi prints it, brackets taken off."""

    index: str
    bus_id: str
    uuid: str
    ecc: str

    def broken(self) -> str:
        """Why this GPU is listed and yet doesn't work; empty if it does."""
        values = (self.bus_id, self.uuid, self.ecc)
        return next((word for word in _BROKEN_VALUES if word in values), "")


def parse_query(text: str) -> tuple[list[Gpu], list[str]]:
    """The GPUs that were listed, and a line for each that nvidia-smi says it can't reach."""
    gpus, lost = [], []
    for line in text.splitlines():
        match = _NO_HANDLE.search(line)
        if match:
            lost.append(f"{match[1]} ({one_line(match[2], 60).rstrip('.') or 'no handle'})")
            continue
        values = [value.strip().strip("[]") for value in line.split(",", 4)]
        if len(values) == 5 and values[0].isdigit():
            gpus.append(Gpu(*values[:4]))
    return gpus, lost


def _query(node: Node, options: Options) -> Optional[tuple[str, ...]]:
    tool = node.tool("nvidia-smi") if options.get("expect") or node.expected_gpus() else None
    return (tool, f"--query-gpu={_COLUMNS}", "--format=csv,noheader,nounits") if tool else None


def _no_answer(sight: Sight) -> Optional[Finding]:
    """Why there is nothing to read; None if there is. What to do about it is nvidia-smi's check."""
    if sight.output is None:
        if not sight.node.expected_gpus():
            return skipped("no GPU is expected here")
        return unknown("nvidia-smi is missing")
    if sight.output.trouble():
        return unknown(f"nvidia-smi: {sight.output.trouble()}")
    if sight.output.status in _DRIVER_AWAY:
        return unknown(_DRIVER_AWAY[sight.output.status])
    return None


def _said(output: Output) -> str:
    return one_line(output.first_line(), 120) or f"exit {output.status}, and nothing said"


def _judge_tool(sight: Sight, options: Options) -> Judged:
    cursor = sight.cursor.in_boot(boot_id(sight.node.root))
    expected, output = sight.node.expected_gpus(), sight.output
    if not expected:
        return Judged(skipped("no GPU is expected here"), cursor.hung(False))
    if output is None:
        how = bad if options["missing"] == "bad" else unknown
        return Judged(how(f"nvidia-smi is missing, {expected} GPUs expected"), cursor.hung(False))
    if output.hung:
        after = cursor.hung(True)
        text = f"nvidia-smi hangs: {output.trouble()}"
        if options["hangs"] and after.hangs >= options["hangs"]:
            return Judged(bad(f"{text}, {after.hangs} looks in a row"), after)
        return Judged(unknown(text), after)
    after = cursor.hung(False)
    if output.status in _DRIVER_AWAY:
        return Judged(bad(_DRIVER_AWAY[output.status]), after)
    if output.trouble():
        return Judged(unknown(f"nvidia-smi: {output.trouble()}"), after)
    return Judged(ok(f"nvidia-smi answers in {output.seconds:.1f} s"), after)


def _judge_count(sight: Sight, options: Options) -> Finding:
    no_answer = _no_answer(sight)
    expected = options["expect"] or sight.node.expected_gpus() or 0
    output = sight.output
    if no_answer or output is None:
        return no_answer or unknown("nvidia-smi is missing")
    gpus, lost = parse_query(output.stdout + "\n" + output.stderr)
    if not gpus and not lost and not _says_there_are_none(output):
        return unknown(f"nvidia-smi: {_said(output)}")
    lost += [f"{gpu.bus_id} ({gpu.broken()})" for gpu in gpus if gpu.broken()]
    well = sum(1 for gpu in gpus if not gpu.broken())
    if lost:
        return bad(f"{well} of {expected} GPUs answer, but not {', '.join(lost)}")
    if well < expected:
        return bad(f"{well} of {expected} GPUs answer")
    if well > expected:
        return ok(f"{well} GPUs answer", f"{well} GPUs answer, only {expected} are expected")
    return ok(f"{well} of {expected} GPUs answer")


def _says_there_are_none(output: Output) -> bool:
    said = (output.stdout + output.stderr).strip().lower()
    return output.status in {_NO_DEVICES, _OFF_THE_BUS} or said.startswith("no devices")


def _judge_ecc(sight: Sight, options: Options) -> Finding:
    no_answer = _no_answer(sight)
    if no_answer or sight.output is None:
        return no_answer or unknown("nvidia-smi is missing")
    gpus, _ = parse_query(sight.output.stdout)
    if not gpus:
        return unknown(f"nvidia-smi: {_said(sight.output)}")
    above = [g for g in gpus if g.ecc.isdigit() and int(g.ecc) > options["most"]]
    if above:
        first = above[0]
        more = f", and {len(above) - 1} more GPUs" if len(above) > 1 else ""
        return bad(
            f"GPU {first.index} ({first.bus_id}) has {first.ecc} uncorrectable ECC errors{more}"
        )
    odd = [g for g in gpus if not g.ecc.isdigit() and g.ecc not in _ABSENT_VALUES]
    if odd:
        return unknown(f"GPU {odd[0].index}: the ECC count reads {one_line(odd[0].ecc, 40)}")
    if not any(gpu.ecc.isdigit() for gpu in gpus):
        return skipped("these GPUs count no ECC errors, or ECC is off")
    return ok("no uncorrectable ECC errors")


_BLOCK: Final = re.compile(r"GPU ([0-9A-Fa-f]{4,}:[0-9A-Fa-f:.]+)\s*\Z")
_ENTRY: Final = re.compile(r"\s*([^:]+?)\s*: (.*?)\s*\Z")
_YES_NO: Final = {"yes": True, "1": True, "no": False, "0": False}


def parse_row_remapper(text: str) -> dict[str, dict[str, str]]:
    """`nvidia-smi -q -d ROW_REMAPPER`: for each PCI address, the entries of its block."""
    blocks: dict[str, dict[str, str]] = {}
    current: Optional[dict[str, str]] = None
    for line in text.splitlines():
        block, entry = _BLOCK.match(line), _ENTRY.match(line)
        if block:
            current = blocks.setdefault(block[1], {})
        elif entry and current is not None:
            current[entry[1].lower()] = entry[2]
    return blocks


def _remap_query(node: Node, options: Options) -> Optional[tuple[str, ...]]:  # noqa: ARG001
    tool = node.tool("nvidia-smi") if node.expected_gpus() else None
    return (tool, "-q", "-d", "ROW_REMAPPER") if tool else None


def _judge_remap(sight: Sight, options: Options) -> Finding:
    no_answer = _no_answer(sight)
    if no_answer or sight.output is None:
        return no_answer or unknown("nvidia-smi is missing")
    blocks = parse_row_remapper(sight.output.stdout)
    if not blocks:
        return unknown(f"nvidia-smi: {_said(sight.output)}")
    failed, pending, unread, known = [], [], [], 0
    for bus_id, entries in blocks.items():
        if entries.get("remapped rows", "") in _ABSENT_VALUES:
            continue
        values = [entries.get(key, "") for key in ("remapping failure occurred", "pending")]
        if all(value in _ABSENT_VALUES for value in values):
            continue
        flags = [_YES_NO.get(value.lower()) for value in values]
        known += None not in flags
        failed += [bus_id] if flags[0] else []
        pending += [bus_id] if flags[1] else []
        unread += [bus_id] if None in flags else []
    if failed:
        return bad(f"row remapping failed on GPU {', '.join(failed)}")
    if pending and options["pending"] == "fail":
        return bad(f"a row remap is pending on GPU {', '.join(pending)}")
    notes = [f"a row remap is pending on GPU {', '.join(pending)}"] if pending else []
    if unread:
        return unknown(f"GPU {unread[0]}: its row remap state is not understood", *notes)
    if not known:
        return skipped("these GPUs remap no rows")
    return ok("no row remap is pending or failed", *notes)


NVIDIA_SMI = Builtin(
    about="nvidia-smi is there and answers",
    options={
        "missing": Field(
            schema.choice("bad", "unknown"), "a node that should have GPUs has no nvidia-smi", "bad"
        ),
        "hangs": Field(
            schema.integer(0, 100),
            "so many looks in a row that hung are a failure, fewer are unknown; 0: always unknown",
            2,
        ),
    },
    probe=_query,
    judge=_judge_tool,
)
GPU_COUNT = Builtin(
    about="as many GPUs answer as Slurm has configured",
    options={
        "expect": Field(schema.integer(1, 64), "how many; by default node.json's or the PCI bus's")
    },
    probe=_query,
    judge=of_this_moment(_judge_count),
)
GPU_ECC = Builtin(
    about="no uncorrectable ECC errors since the driver was loaded",
    options={"most": Field(schema.integer(0, 2**31), "how many are put up with", 0)},
    probe=_query,
    judge=of_this_moment(_judge_ecc),
)
GPU_ROW_REMAP = Builtin(
    about="no row remap has failed or waits for a reset",
    options={
        "pending": Field(schema.choice("fail", "note"), "what a pending remap is worth", "fail")
    },
    probe=_remap_query,
    judge=of_this_moment(_judge_remap),
)
