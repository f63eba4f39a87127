"""``python -m slurm_flex.emulator``: Compute Engine on loopback."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from slurm_flex.emulator.core.knobs import describe
from slurm_flex.emulator.options import EmulatorOptions
from slurm_flex.emulator.server import serve
from slurm_flex.errors import FlexError


def main(argv: list[str] | None = None) -> int:
    """Run the emulator until it is told to end. 0 done, 1 something was wrong, 2 usage."""
    arguments = _parser().parse_args(argv)
    if arguments.list_knobs:
        for knob in describe():
            print(f"{knob['name']} = {json.dumps(knob['default'])}\n    {knob['help']}")
        return 0
    try:
        serve(_options(arguments))
    except FlexError as error:
        print(f"slurm-flex emulator: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slurm-flex emulator",
        description="Compute Engine's managed instance groups, resize requests, instances and "
        "operations on loopback, for google-cloud-compute and google-api-python-client alike. "
        "Point a client at it with api_endpoint=http://127.0.0.1:PORT.",
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="loopback address (default 127.0.0.1)")
    add("--port", type=int, default=0, help="0 (default): a free one, printed at start")
    add("--port-file", type=Path, help="write the port to this file once it listens")
    add(
        "--time-scale",
        type=float,
        default=1.0,
        metavar="N",
        help="emulated time runs N times as fast; delays stay in seconds of the wall clock",
    )
    add(
        "--driver",
        choices=("record", "slurmd"),
        default="record",
        help="what a running VM is: a record (default), or a real slurmd",
    )
    add(
        "--slurmd-argv",
        type=_argv,
        default=(),
        metavar="JSON",
        help="the command of a VM, in the foreground; {name}, {conf}, {id}, {zone}, {project} and "
        '{address} are replaced. Default ["/usr/sbin/slurmd","-D","-b","-N","{name}"]',
    )
    add("--slurmd-conf", default="", metavar="FILE", help="the slurm.conf that {conf} stands for")
    add("--vm-folder", type=Path, metavar="DIR", help="where consoles are kept")
    add("--keep-vms", action="store_true", help="leave slurmd processes alone when ending")
    add("--state", type=Path, metavar="FILE", help="keep the world in this file, across restarts")
    add(
        "--seed",
        type=int,
        help="make ids and names repeatable; guests are told apart by their id, so give no two "
        "emulators with slurmds the same seed",
    )
    add(
        "--knob",
        action="append",
        default=[],
        type=_knob,
        metavar="NAME=VALUE",
        help="set a knob, such as boot_delay=2s or capacity=never; may be repeated; "
        "--list-knobs shows them all",
    )
    add("--list-knobs", action="store_true", help="print all knobs and end")
    add("--access-log", action="store_true", help="print a line for each call")
    return parser  # fmt: skip


def _argv(text: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(part, str) for part in found):
        raise argparse.ArgumentTypeError('a JSON list of strings, such as ["slurmd","-D"]')
    return tuple(found)


def _knob(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _options(arguments: argparse.Namespace) -> EmulatorOptions:
    return EmulatorOptions(
        host=arguments.host,
        port=arguments.port,
        time_scale=arguments.time_scale,
        driver=arguments.driver,
        slurmd_argv=arguments.slurmd_argv,
        slurmd_conf=arguments.slurmd_conf,
        vm_folder=arguments.vm_folder,
        state=arguments.state,
        seed=arguments.seed,
        keep_vms=arguments.keep_vms,
        knobs=dict(arguments.knob),
        port_file=arguments.port_file,
        access_log=arguments.access_log,
    )


if __name__ == "__main__":
    sys.exit(main())
