"""The engines of a server: started by its main process, addressed by its workers."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import ExternalError, InputError
from gpuyard.serving.engine_process import (
    HOST,
    EngineAddress,
    EngineProcess,
    engine_command,
    new_address,
)
from gpuyard.serving.spec import ServerSettings
from gpuyard.serving.version_sources import ResolvedVersion

VARIABLE = "GPUYARD_SERVE_ENGINES"  # their addresses, in the environment of the workers


def start_engines(
    settings: ServerSettings, versions: Sequence[ResolvedVersion]
) -> tuple[EngineProcess, ...]:
    """Start an engine for every language model, and pass the addresses to the workers."""
    for name in engine_variables():
        del os.environ[name]
    if settings.engine is None:
        return ()
    engines = []
    for version in versions:
        if version.bundle.kind == "language":
            address = new_address(version.name, _free_port())
            command = engine_command(settings.engine, version, address)
            log_file = Path(settings.folder) / f"engine-{version.name}.log"
            engines.append(EngineProcess(command, address, log_file, _stop_this_process))
    if not engines:
        fix = "leave it out, or serve a language model"
        raise InputError.one("--engine", "no language model is served", fix)
    for engine in engines:
        os.environ[f"{VARIABLE}_{engine.address.model}"] = dump_json(engine.address)
        engine.start()
    return tuple(engines)


def engine_addresses() -> Mapping[str, EngineAddress]:
    """Return the engines that the main process has started, by model."""
    rows = (load_json(os.environ[name], EngineAddress, name) for name in engine_variables())
    return {row.model: row for row in rows}


def engine_variables() -> tuple[str, ...]:
    """Return the names of the environment variables that hold addresses."""
    return tuple(name for name in os.environ if name.startswith(f"{VARIABLE}_"))


def check_engines(engines: Sequence[EngineProcess]) -> None:
    """Raise ExternalError if an engine never worked."""
    for engine in engines:
        if engine.failure:
            what, fix = engine.failure, f"see {engine.log_file}"
            raise ExternalError(f"engine of {engine.address.model}", what, fix)


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind((HOST, 0))
        return int(trial.getsockname()[1])


def _stop_this_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
