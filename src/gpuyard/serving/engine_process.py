"""Processes of inference engines (vLLM, SGLang, llama.cpp): started, watched and stopped.

The main process runs one engine per language model, on a loopback port and with a key that only
the workers know. An engine that exits is started again after a pause; one that exits three times
before it was ever ready stops the server.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuyard.errors import ExternalError, InputError
from gpuyard.registry.bundle import WEIGHTS
from gpuyard.serving.spec import InferenceEngineSpec
from gpuyard.serving.version_sources import ResolvedVersion

log = logging.getLogger("gpuyard.serving")
HOST = "127.0.0.1"
HEALTH = "/health"  # of all three engines: 200 once the model is loaded
FIRST_STARTS = 3
PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
POLL_S = 0.2
KILL_AFTER_S = 10.0
INSTALL = {
    "vllm": "pip install vllm",
    "sglang": "pip install sglang",
    "llama.cpp": "install llama.cpp, which has llama-server",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAddress:
    """Where an engine listens, and its key."""

    model: str  # public name
    port: int
    key: str


class CommandLine(Protocol):
    """The command line of an engine."""

    def __call__(self, program: str, weights: Path, address: EngineAddress) -> list[str]: ...


def _listen_on(address: EngineAddress) -> list[str]:
    return ["--host", HOST, "--port", str(address.port)]


def _vllm(program: str, weights: Path, address: EngineAddress) -> list[str]:
    return [
        program or "vllm",
        "serve",
        str(weights),
        "--served-model-name",
        address.model,
        *_listen_on(address),
    ]


def _sglang(program: str, weights: Path, address: EngineAddress) -> list[str]:
    start = [program] if program else [sys.executable, "-m", "sglang.launch_server"]
    return [
        *start,
        "--model-path",
        str(weights),
        "--served-model-name",
        address.model,
        *_listen_on(address),
        "--api-key",
        address.key,
    ]


def _llama_cpp(program: str, weights: Path, address: EngineAddress) -> list[str]:
    files = sorted(weights.glob("*.gguf"))
    if not files:
        fix = "convert the weights with llama.cpp's convert_hf_to_gguf.py, and register them"
        raise InputError.one(str(weights), "holds no .gguf file, which llama.cpp needs", fix)
    return [
        program or "llama-server",
        "--model",
        str(files[0]),
        "--alias",
        address.model,
        *_listen_on(address),
    ]


COMMANDS: dict[str, CommandLine] = {"vllm": _vllm, "sglang": _sglang, "llama.cpp": _llama_cpp}


def engine_command(
    spec: InferenceEngineSpec, resolved: ResolvedVersion, address: EngineAddress
) -> list[str]:
    """Return the command line of an engine. Raise ExternalError if it is not installed."""
    words = COMMANDS[spec.name](spec.program, resolved.folder / WEIGHTS, address)
    if shutil.which(words[0]) is None:
        raise ExternalError(f"{spec.name}: {words[0]}", "is not installed", INSTALL[spec.name])
    return [*words, *spec.arguments]


def new_address(model: str, port: int) -> EngineAddress:
    """Return an address with a new key."""
    return EngineAddress(model=model, port=port, key=secrets.token_urlsafe(32))


def is_healthy(address: EngineAddress, timeout_s: float = 2.0) -> bool:
    """Return whether an engine has loaded its model."""
    link = http.client.HTTPConnection(HOST, address.port, timeout=timeout_s)
    try:
        link.request("GET", HEALTH, headers={"Authorization": f"Bearer {address.key}"})
        return link.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


class EngineProcess:
    """One engine and the thread that watches it."""

    def __init__(
        self,
        command: list[str],
        address: EngineAddress,
        log_file: Path,
        on_failure: Callable[[], None],
    ) -> None:
        self.address = address
        self.failure = ""  # why it was given up
        self._command = command
        self.log_file = log_file
        self._pid_file = log_file.with_suffix(".pid")
        self._on_failure = on_failure
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="engine", daemon=True)

    def start(self) -> None:
        """Start the engine and watch it."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the engine: SIGTERM, and SIGKILL if it does not end."""
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        starts, was_ready = 0, False
        while not self._stopping.is_set():
            starts += 1
            code, ready = self._run_once()
            was_ready = was_ready or ready
            if self._stopping.is_set():
                return
            log.error("engine of %s exited with code %s", self.address.model, code)
            if not was_ready and starts >= FIRST_STARTS:
                self.failure = f"exited with code {code} before it was ready"
                self._on_failure()
                return
            starts = 0 if ready else starts
            self._stopping.wait(PAUSES_S[min(starts, len(PAUSES_S) - 1)])

    def _run_once(self) -> tuple[int, bool]:
        """Run the engine until it exits; return its exit code and whether it became ready."""
        keys = {"VLLM_API_KEY": self.address.key, "LLAMA_API_KEY": self.address.key}
        with self.log_file.open("ab") as output:
            engine = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | keys,
                start_new_session=True,  # Ctrl-C reaches the main process, which stops it
            )
        self._pid_file.write_text(str(engine.pid), encoding="ascii")
        ready = False
        while engine.poll() is None:
            if not ready and is_healthy(self.address):
                ready = True
                log.info("engine of %s is ready", self.address.model)
            if self._stopping.wait(POLL_S):
                _end(engine)
        self._pid_file.unlink(missing_ok=True)
        return engine.returncode, ready


def _end(engine: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):  # the whole session: engines have workers
        with contextlib.suppress(ProcessLookupError):
            os.killpg(engine.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.wait(KILL_AFTER_S)
            return


def kill_abandoned(folder: Path) -> None:
    """Kill the engines of a main process that was killed itself."""
    for path in folder.glob("engine-*.pid"):
        with contextlib.suppress(OSError, ValueError):
            os.killpg(int(path.read_text(encoding="ascii")), signal.SIGKILL)
        path.unlink(missing_ok=True)
