"""The built-in checks by name, and the reader of a site's own commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slurm_flex.health import dcgm, gpu, host, nvlink, xid
from slurm_flex.health.checkfile import Rules
from slurm_flex.health.run import Output
from slurm_flex.health.sight import Builtin
from slurm_flex.health.verdict import Finding, bad, ok, one_line, unknown

BUILTINS: Final[Mapping[str, Builtin]] = {
    "nvidia-smi": gpu.NVIDIA_SMI,
    "gpu-count": gpu.GPU_COUNT,
    "gpu-ecc": gpu.GPU_ECC,
    "gpu-row-remap": gpu.GPU_ROW_REMAP,
    "xid": xid.XID,
    "nvlink": nvlink.NVLINK,
    "dcgm": dcgm.DCGM,
    "disk": host.DISK,
    "nic": host.NIC,
    "mounts": host.MOUNTS,
    "load": host.LOAD,
}
OPTIONS: Final = {name: builtin.options for name, builtin in BUILTINS.items()}

_LONGEST_LINE: Final = 4096


def judge_command(output: Output, rules: Rules) -> Finding:
    """A site's own command by its rules: a bad line first, then the exit code, then an ok line."""
    said = one_line(output.first_line(), 160)
    if output.trouble():
        return unknown(output.trouble())
    lines = [line[:_LONGEST_LINE] for line in (output.stdout + "\n" + output.stderr).splitlines()]
    if rules.bad_output:
        match = next((line for line in lines if rules.bad_output.search(line)), None)
        if match is not None:
            return bad(one_line(match, 160))
    if output.status in rules.bad_exit:
        return bad(said or f"exit {output.status}")
    if output.status not in rules.ok_exit:
        return unknown(f"exit {output.status}" + (f": {said}" if said else ""))
    if rules.ok_output and not any(rules.ok_output.search(line) for line in lines):
        return unknown(f"no line says {rules.ok_output.pattern!r:.80}")
    return ok(said or f"exit {output.status}")
