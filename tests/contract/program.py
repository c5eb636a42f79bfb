"""What the contract's tasks run: one mode of misbehaviour each."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path

MODE = sys.argv[1]
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ATTEMPT = int(os.environ["GPUYARD_ATTEMPT"])


def say(*words: object) -> None:
    """A line, at once."""
    print(*words, flush=True)


def meet() -> int:
    """The sum of all ranks, by a meeting at the master's address."""
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if RANK:
        while True:
            try:
                with socket.create_connection(place, timeout=300) as line:
                    line.sendall(b"%d\n" % RANK)
                    return int(line.makefile().readline())
            except ConnectionRefusedError:
                time.sleep(0.05)
    with socket.create_server(("", place[1])) as door:
        lines = [door.accept()[0] for _ in range(WORLD - 1)]
        total = sum(int(line.makefile().readline()) for line in lines)
        for line in lines:
            line.sendall(b"%d\n" % total)
            line.close()
        return total


if MODE == "meet":
    for number in range(20):
        say("line", number)
    say(
        "met",
        meet(),
        "local",
        os.environ["LOCAL_RANK"],
        "node",
        os.environ["NODE_RANK"],
        "of",
        os.environ["LOCAL_WORLD_SIZE"],
    )
elif MODE == "fail":
    say("attempt", ATTEMPT)
    sys.exit(7)
elif MODE == "wrong":  # one rank refuses its input; the other would wait for ever
    say("attempt", ATTEMPT)
    if RANK == WORLD - 1:
        sys.exit(2)
    time.sleep(300)
elif MODE == "die" and ATTEMPT == 0:  # one rank is killed; the other would wait for ever
    checkpoint = Path("checkpoint")
    if RANK == WORLD - 1:
        checkpoint.write_text("step 30")
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(300)
elif MODE == "die":
    say("resumed from", Path("checkpoint").read_text(), "in attempt", ATTEMPT)
elif MODE == "copies":
    say("copy", os.environ["GPUYARD_INDEX"], "of", os.environ["GPUYARD_COPIES"])
    Path(f"copy-{os.environ['GPUYARD_INDEX']}").touch()
elif MODE in ("wait", "late") or (MODE == "node" and ATTEMPT == 0):
    signal.signal(signal.SIGTERM, lambda *_: (Path("checkpoint").write_text("last"), sys.exit(143)))
    if os.environ.get("ORPHAN") and os.fork() == 0:  # a child that forgets its parent
        os.setsid()
        Path("orphan").write_text(str(os.getpid()))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("ready")
    time.sleep(300)
