"""``python -m slurm_flex.emulator.reference``: the tables of docs/emulator.md that follow from the
code: knobs, faults, and methods by client."""

from __future__ import annotations

import json

from slurm_flex.durations import format_duration
from slurm_flex.emulator.core.faults import FAULTS
from slurm_flex.emulator.core.knobs import Knobs, describe
from slurm_flex.emulator.web.service import ENDPOINTS


def knobs() -> str:
    """All knobs: name, default, what it sets, how well the default is known."""
    lines = ["| knob | default | what it sets | known |", "|---|---|---|---|"]
    for knob in describe():
        present = getattr(Knobs(), knob["name"])
        if hasattr(present, "total_seconds"):
            shown = format_duration(present)
        else:
            shown = present if isinstance(present, str) else json.dumps(present)
        choices = f" ({' or '.join(knob['choices'])})" if knob["choices"] else ""
        text = str(knob["help"]) + choices
        lines.append(f"| {knob['name']} | `{_cell(shown)}` | {_cell(text)} | {knob['known']} |")
    return "\n".join(lines)


def faults() -> str:
    """All faults: name, what happens, what narrows it, its parameters."""
    lines = ["| fault | what happens | where | with |", "|---|---|---|---|"]
    for fault in FAULTS.values():
        params = "; ".join(f"{name}: {text}" for name, text in fault.params.items())
        name = f"{fault.name} (event)" if fault.event else fault.name
        where = ", ".join(fault.where)
        lines.append(f"| {name} | {_cell(fault.text)} | {where} | {_cell(params)} |")
    return "\n".join(lines)


def methods() -> str:
    """All methods of the Compute API that are served, by the clients that are tested with them."""
    lines = ["| method | google-cloud-compute | google-api-python-client |", "|---|---|---|"]
    lines += [f"| {name} | yes | yes |" for name in sorted({item.name for item in ENDPOINTS})]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(f"{knobs()}\n\n{faults()}\n\n{methods()}")
