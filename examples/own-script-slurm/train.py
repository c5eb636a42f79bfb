"""A training script that gpuyard runs: it reads its rank from the environment and writes metrics and a checkpoint."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
checkpoint = Path(os.environ["CHECKPOINT_DIR"]) / f"rank-{rank}.json"
state = json.loads(checkpoint.read_text()) if checkpoint.exists() else {"step": 0, "weight": 0.0}

while state["step"] < 20:
    state["step"] += 1
    state["weight"] += 0.3 * (1.0 - state["weight"])  # gradient descent on (1 - weight)^2 / 2
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_text(json.dumps(state))
    if rank == 0:
        with Path(os.environ["GPUYARD_METRICS"]).open("a") as metrics:
            loss = (1.0 - state["weight"]) ** 2 / 2
            metrics.write(json.dumps({"step": state["step"], "time_s": time.time(), "loss": loss}) + "\n")

print(f"rank {rank} of {world}: weight {state['weight']:.6f}")
