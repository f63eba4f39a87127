"""Running the emulator: the clock, the world, the driver and the socket put together."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from pathlib import Path

from slurm_flex.emulator.core.clock import ScaledClock
from slurm_flex.emulator.core.cloud import Cloud
from slurm_flex.emulator.core.knobs import Knobs, change
from slurm_flex.emulator.core.world import World
from slurm_flex.emulator.drivers.base import Driver, RecordDriver
from slurm_flex.emulator.drivers.slurmd import DEFAULT_ARGV, SlurmdDriver
from slurm_flex.emulator.options import EmulatorOptions
from slurm_flex.emulator.store import Store
from slurm_flex.emulator.web.fault_methods import check_methods
from slurm_flex.emulator.web.service import Service
from slurm_flex.errors import FlexError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(options: EmulatorOptions) -> None:
    """Serve until SIGTERM or SIGINT. Raises FlexError where that can't begin."""
    import uvicorn  # noqa: PLC0415 - the emulator's extra

    from slurm_flex.emulator.web.app import make_app  # noqa: PLC0415
    from slurm_flex.emulator.web.connections import TrackedProtocol  # noqa: PLC0415

    if options.host not in LOOPBACK:
        raise FlexError(
            f"{options.host} is not loopback: the emulator has no authentication",
            where="--host", fix="use 127.0.0.1",
        )  # fmt: skip
    with contextlib.closing(_bind(options)) as listener:
        port = listener.getsockname()[1]
        service = make_service(options)
        if options.port_file:
            _write_port(options.port_file, port)
        print(f"slurm-flex emulator on http://{options.host}:{port}", flush=True)
        config = uvicorn.Config(
            make_app(service),
            http=TrackedProtocol,
            ws="none",
            log_level="info" if options.access_log else "warning",
            access_log=options.access_log,
            timeout_graceful_shutdown=2,
            loop="asyncio",
        )
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            service.settle()
            if not options.keep_vms and options.state is None:
                service.driver.end(list(service.cloud.world.instances))


def make_service(options: EmulatorOptions) -> Service:
    """A fresh world as the options say. Raises FlexError."""
    if options.time_scale <= 0:
        raise FlexError("the time scale must be more than 0", where="--time-scale")
    clock = ScaledClock(options.time_scale)
    knobs = change(Knobs(), options.knobs)
    world = World(clock.now(), knobs=knobs, scale=options.time_scale, seed=options.seed)
    driver = make_driver(options)
    if options.state is None:
        return Service(Cloud(world, clock), driver)
    store = Store(options.state)
    if store.load(clock, world, options.knobs):
        for fault in world.fault_table:  # set under a release that took any
            check_methods({"name": fault.name, **fault.where})
        _adopt(world, driver)
    return Service(Cloud(world, clock), driver, save=lambda: store.save(clock, world))


def _adopt(world: World, driver: Driver) -> None:
    """Take over the guests that outlived the last run; end those whose VM is over."""
    alive = [instance for instance in world.instances if instance.guest]
    over = {bill.id for bill in world.bills} - {instance.id for instance in alive}
    driver.adopt(alive, over)


def make_driver(options: EmulatorOptions) -> Driver:
    """The driver that the options name. Raises FlexError."""
    if options.driver == "record":
        return RecordDriver()
    if options.driver == "slurmd":
        folder = options.vm_folder or Path(tempfile.mkdtemp(prefix="slurm-flex-vms-"))
        argv = options.slurmd_argv or DEFAULT_ARGV
        if options.slurmd_conf and not any("{conf}" in part for part in argv):
            argv = (*argv, "-f", "{conf}")
        return SlurmdDriver(folder, argv=argv, conf=options.slurmd_conf)
    raise FlexError(f"there is no driver {options.driver!r}", fix="record or slurmd")


def _bind(options: EmulatorOptions) -> socket.socket:
    # The protocol is named so that asyncio sets TCP_NODELAY; else each answer waits 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host, options.port))
    except OSError as error:
        listener.close()
        raise FlexError(
            f"can't listen on {options.host}:{options.port}: {error.strerror}",
            fix="choose another --port, or 0 for a free one",
        ) from None
    listener.listen(512)
    return listener


def _write_port(path: Path, port: int) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(f"{port}\n")
    Path(name).replace(path)
