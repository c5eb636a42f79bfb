"""CPU time and memory of preparing a table, against other engines: `python bench/data.py [--rows 16000000]`.

Every engine runs in processes of its own. CPU seconds are user and system time of all of them, daemons included;
memory is the greatest sum of proportional set sizes. The pipeline of gpuyard is bench/data.yaml; what the others
do is written by hand in bench/data_jobs.py. Outputs are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from data_jobs import CATEGORIES, FLOATS
from data_table import make

HERE = Path(__file__).parent
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: daemons that lose their parent become ours and are counted
ENGINES = ("gpuyard", "duckdb", "daft", "pandas", "gpuyard-ray", "daft-ray", "raydata")
NEEDS = {
    "duckdb": "duckdb",
    "daft": "daft",
    "daft-ray": "daft",
    "pandas": "sklearn",
    "raydata": "ray.data",
    "gpuyard-ray": "ray",
}


def command(
    engine: str, raw: Path, out: Path, python: str, memory: str
) -> tuple[list[str], dict[str, str]]:
    """What runs an engine, and its environment."""
    env = dict(os.environ, RAY_USAGE_STATS_ENABLED="0", RAY_DISABLE_IMPORT_WARNING="1")
    if engine.startswith("gpuyard"):
        spec = raw.parent / "bench.yaml"
        spec.write_text((HERE / "data.yaml").read_text().replace("source: .", f"source: {raw}"))
        where = "ray" if engine.endswith("ray") else "local"
        line = [
            "-m",
            "gpuyard",
            "data",
            "run",
            str(spec),
            "-o",
            str(out),
            "--engine",
            where,
            "--memory",
            memory,
        ]
        return [sys.executable, *line, "--json"], env
    if engine == "daft-ray":
        env["DAFT_RUNNER"] = "ray"
    name = engine.removesuffix("-ray")
    return [python, str(HERE / "data_jobs.py"), name, str(raw), str(out)], env


def imports(python: str, module: str) -> bool:
    """Whether an interpreter has a module."""
    return (
        subprocess.run(
            [python, "-c", f"import {module}"], capture_output=True, check=False
        ).returncode
        == 0
    )


def offspring() -> list[int]:
    """All processes below this one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [os.getpid()]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def shares_bytes(processes: Sequence[int]) -> int:
    """The sum of their proportional set sizes."""
    total = 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def measured(line: list[str], env: dict[str, str]) -> dict[str, object]:
    """Runs a command to the end of all its processes; in a process of its own, for the sake of the counters."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    peak, stop = [0], threading.Event()
    used_s: dict[
        tuple[int, str], float
    ] = {}  # as last seen: Ray's daemons do not count their workers

    def watch() -> None:
        """Notes the most memory, and the CPU time of every process for as long as it lives."""
        while not stop.wait(0.25):
            living = offspring()
            peak[0] = max(peak[0], shares_bytes(living))
            for process in living:
                key = process, born(process)
                used_s[key] = max(used_s.get(key, 0.0), cpu_of(process, children=False))

    watcher = threading.Thread(target=watch, daemon=True)
    begin = time.monotonic()
    watcher.start()
    with tempfile.TemporaryFile() as said:
        code = subprocess.run(
            line, env=env, stdout=subprocess.DEVNULL, stderr=said, check=False
        ).returncode
        said.seek(0)
        output = said.read().decode(errors="replace")[-1500:]
    wall = time.monotonic() - begin
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # daemons end by themselves once their driver is gone
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if process == 0:
            time.sleep(0.1)
    stop.set()
    watcher.join()
    left = offspring()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    counted_s = used.ru_utime + used.ru_stime + sum(cpu_of(process) for process in left)
    cpu_s = max(counted_s, sum(used_s.values()))
    for process in left:  # what did not end by itself
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return {
        "code": code,
        "cpu_s": cpu_s,
        "wall_s": wall,
        "peak_bytes": peak[0],
        "output": output if code else "",
    }


def born(process: int) -> str:
    """When a process began; with its number this names it, as numbers are used again."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""


def cpu_of(process: int, *, children: bool = True) -> float:
    """The CPU seconds of a process that still runs, and of its children that do not."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(int(ticks) for ticks in fields[11 : 15 if children else 13]) / os.sysconf(
        "SC_CLK_TCK"
    )


def facts(out: Path) -> dict[str, float]:
    """What the outputs must agree on: rows, sums, squares, counts, and sums that notice rows mixed up."""
    files = [
        path for path in out.rglob("*.parquet") if path.parent.name not in ("base", "quarantine")
    ]
    table = pl.scan_parquet(files)
    columns = [
        pl.len().alias("rows"),
        pl.col("id").sum().cast(pl.Float64),
        pl.col("label").sum().cast(pl.Float64),
    ]
    weight = pl.col("id").cast(pl.Float64) % 1000 / 1000
    for name in FLOATS:
        value = pl.col(name).cast(pl.Float64)
        columns += [
            (value * value).sum().alias(f"{name} squares"),
            (value * weight).sum().alias(f"{name} by id"),
        ]
    columns += [pl.col(f"category={name}").cast(pl.Float64).sum() for name in CATEGORIES]
    columns += [pl.col(name).cast(pl.Float64).sum() for name in ("f0_bin", "time_hour")]
    return {
        name: float(values[0])
        for name, values in table.select(columns).collect(engine="streaming").to_dict().items()
    }


def same(one: dict[str, float], other: dict[str, float]) -> list[str]:
    """The facts that differ by more than float32 explains."""
    rows = one["rows"]
    return [name for name in one if abs(one[name] - other[name]) > 1e-6 * max(abs(one[name]), rows)]


def main() -> None:
    """Prints one line an engine."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=16_000_000)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "gpuyard-bench-data"
    )
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument(
        "--python", default=sys.executable, help="an interpreter that has daft and ray[data]"
    )
    parser.add_argument("--memory", default="2GB", help="gpuyard's cap")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    raw = arguments.folder / "raw"
    if arguments.one:
        out = arguments.folder / arguments.one
        print(
            json.dumps(
                measured(*command(arguments.one, raw, out, arguments.python, arguments.memory))
            )
        )
        return
    make(raw, arguments.rows)
    size = sum(path.stat().st_size for path in raw.glob("*.parquet"))
    machine = f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}"
    print(f"{arguments.rows:,} rows and 2 % again, {size / 1e9:.2f} GB; {machine}")
    print(f"{'engine':<12} {'CPU s':>8} {'wall s':>8} {'peak MiB':>9}  outputs")
    reference: dict[str, float] | None = None
    for engine in arguments.engines:
        module = NEEDS.get(engine)
        pythons = [sys.executable, *([] if engine.startswith("gpuyard") else [arguments.python])]
        python = next((one for one in pythons if module is None or imports(one, module)), None)
        if python is None:
            print(
                f"{engine:<12} skipped: {module} is not installed; name an interpreter that has it by --python"
            )
            continue
        out = arguments.folder / engine
        shutil.rmtree(out, ignore_errors=True)
        line = [
            sys.executable,
            __file__,
            "--one",
            engine,
            "--folder",
            str(arguments.folder),
            "--python",
            python,
        ]
        done = subprocess.run(
            [*line, "--memory", arguments.memory], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        if found["code"]:
            print(f"{engine:<12} failed:\n{found['output']}")
            continue
        output = facts(out)
        reference = reference or output
        differing = same(reference, output)
        verdict = "equal" if not differing else f"differ in {', '.join(differing[:4])}"
        print(
            f"{engine:<12} {found['cpu_s']:8.1f} {found['wall_s']:8.1f} {found['peak_bytes'] / 2**20:9.0f}  {verdict}",
            flush=True,
        )
        shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
