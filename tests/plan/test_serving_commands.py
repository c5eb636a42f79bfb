"""The start command of every planned service loads the planned format in the planned layout."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import open_workspace
from gpuyard.catalog.load import load_catalog
from gpuyard.plan.engine_commands import OWN_CHECKPOINT
from gpuyard.plan.inference.formats import native
from gpuyard.plan.option import Option, Plan

EXAMPLES = Path(__file__).parents[2] / "examples"
CATALOG = load_catalog()
FORMATS = {row.name: row.format for row in CATALOG.checkpoints}
FLAG = {
    "tp": r"--(?:tensor-parallel-size|tp-size|tp_size) (\d+)",
    "pp": r"--(?:pipeline-parallel-size|pp-size|pp_size) (\d+)",
    "dp": r"--(?:data-parallel-size|dp-size) (\d+)",
    "batch": r"--(?:max-num-seqs|max-running-requests|max_batch_size) (\d+)",
    "tokens": r"--(?:max-num-batched-tokens|chunked-prefill-size|max_num_tokens) (\d+)",
}
NAMES = (
    "inference",
    "inference-experts",
    "inference-long",
    "inference-cloud-run",
    "inference-trace",
)


def flag(name: str, line: str) -> int:
    match = re.search(FLAG[name], line)
    return int(match[1]) if match else 1


def assert_command_loads_the_plan(option: Option, model_name: str) -> None:
    service = option.service
    assert service is not None
    line = service.engine.command[0]
    if service.engine.name == "jetstream":
        return  # loads a checkpoint that was converted before
    checkpoint = service.engine.checkpoint
    assert checkpoint != OWN_CHECKPOINT
    assert checkpoint in line
    published = native(CATALOG.model(model_name), CATALOG.checkpoints)
    online = re.search(r"--quantization (\S+)", line)
    if online and not online[1].startswith("modelopt"):
        assert online[1] == service.weights
        assert FORMATS.get(checkpoint, "bf16") == "bf16"
        assert "16-bit weights" in service.engine.note
    else:
        implied = FORMATS.get(checkpoint) or (published.weights if published else "bf16")
        assert implied == service.weights
    ranks = service.attention_dp
    if service.engine.name.startswith("vllm"):
        assert (flag("tp", line), flag("dp", line)) == (service.tp, ranks)
        assert flag("batch", line) * ranks == service.max_sequences_count
    else:
        assert flag("tp", line) == service.tp * ranks
        whole = "enable_attention_dp: true" in line
        assert whole == (ranks > 1) or service.engine.name == "sglang"
        assert service.engine.name != "tensorrt-llm" or ranks == 1 or service.tp == 1
    assert flag("pp", line) == service.pp
    assert flag("tokens", line) == service.budget_tokens
    assert ("fp8" in "".join(re.findall(r"kv-cache-dtype \S+|dtype: fp8", line))) == (
        service.kv == "fp8"
    )
    free = next(part.value for part in option.memory_parts if part.name == "unused")
    if option.cluster.chip is not None:
        assert free >= 0.0495 * option.memory_capacity_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_command_implies_planned_layout_format_batch_and_memory(name: str) -> None:
    workspace = open_workspace(EXAMPLES / f"{name}.yaml")
    plan = plan_workload(workspace)
    assert isinstance(plan, Plan)
    model = workspace.workload.model
    assert model is not None
    for option in plan.options:
        if option.service is not None and option.service.prefill is None:
            assert_command_loads_the_plan(option, model.name)
