"""Reading a workload: resolved, frozen, the same in any order, and the same again from JSON."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.models import Model
from gpuyard.document.encode import dump_json, load_json, plain
from gpuyard.document.frozen_json import plain_tree
from gpuyard.document.read import read_yaml
from gpuyard.errors import InputError
from gpuyard.workload.read import own_catalogs, parse_workload, read_workload
from gpuyard.workload.where import InventoryItem
from gpuyard.workload.workload import Workload

from .rows import CATALOG, LLAMA_70B

EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("*.yaml"))
PRE = "task: pretraining\nmodel: llama-3-70b\ndata: {tokens: 15T, sequence: 8192}\n"
INF = "task: inference\nmodel: llama-3-70b\ntraffic: {input: 1000, output: 200}\nrequirements: {requests: 20/s}\n"


def parse(text: str, file: str = "w.yaml") -> Workload:
    return parse_workload(text, file, CATALOG)


def test_read_converts_quantities_and_resolves_names() -> None:
    workload = parse(
        PRE
        + "requirements: {deadline: 30d, budget: $4M, availability: 99%}\ntraining: {global_batch: 2k}\n"
    )
    assert workload.task == "pretraining"
    assert workload.model is not None
    assert workload.model.transformer == LLAMA_70B
    assert workload.data is not None
    assert (workload.data.tokens, workload.data.sequence_tokens, workload.data.epochs) == (
        15 * 10**12,
        8192,
        1,
    )
    assert workload.requirements.deadline_s == 30 * 86400
    assert workload.requirements.budget_usd == 4e6
    assert workload.requirements.availability_ratio == pytest.approx(0.99)
    assert workload.training is not None
    assert workload.training.global_batch_count == 2000
    assert workload.where.provider == "google"
    with pytest.raises(dataclasses.FrozenInstanceError):
        workload.task = "hpc"  # type: ignore[misc]


def test_name_defaults_to_file_and_region_to_zone() -> None:
    assert parse(PRE, "runs/big run (2).yaml").name == "big-run-2"
    assert parse(PRE, "…").name == "workload"
    assert parse(PRE + "name: other\n", "runs/big.yaml").name == "other"
    assert parse(PRE + "where: {zone: us-east5-b}\n").where.region == "us-east5"


def test_model_is_resolved_by_alias() -> None:
    model = parse(PRE).model
    assert parse(PRE.replace("llama-3-70b", "Meta-Llama/Meta-Llama-3-70B")).model == model


def test_shape_becomes_custom_model_with_counted_parameters() -> None:
    shape = "{layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 28672, vocab: 128256, max_context: 8192}"
    model = parse(PRE.replace("llama-3-70b", shape)).model
    assert model is not None
    assert (model.name, model.kind, model.transformer) == ("custom", "decoder", LLAMA_70B)
    assert model.parameters_count == LLAMA_70B.parameters()
    experts = shape.replace("}", ", moe: {experts: 8, top_k: 2, expert_ffn: 28672}}")
    model = parse(PRE.replace("llama-3-70b", experts)).model
    assert model is not None
    assert model.active_parameters_count is not None
    assert model.active_parameters_count < model.parameters_count


def test_model_is_read_from_config_next_to_file(tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    folder.mkdir()
    config = {
        "model_type": "llama",
        "num_hidden_layers": 80,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "intermediate_size": 28672,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
    }
    (folder / "config.json").write_text(json.dumps(config))
    for written in ("./ours", "./ours/config.json", "ours/config.json", str(folder)):
        file = tmp_path / "w.yaml"
        file.write_text(PRE.replace("llama-3-70b", written))
        workload = read_workload(file, CATALOG)
        assert workload.model is not None
        assert workload.model.transformer == LLAMA_70B
        assert load_json(dump_json(workload), Workload) == workload
        with pytest.raises(InputError, match="needs a workload file"):
            parse(file.read_text())
    (folder / "config.json").write_text("{}")
    with pytest.raises(InputError) as caught:
        read_workload(file, CATALOG)
    assert str(caught.value).startswith(f"error: {file}:2: model: ")


def test_own_catalogs_lists_files_before_workload_is_read(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(PRE + "where: {catalog: [ours.toml, shared/]}\n")
    with pytest.raises(InputError) as caught:
        own_catalogs(file)
    assert [problem.where for problem in caught.value.problems] == [
        f"{file}:4: where.catalog[0]",
        f"{file}:4: where.catalog[1]",
    ]
    (tmp_path / "ours.toml").touch()
    (tmp_path / "shared").mkdir()
    assert own_catalogs(file) == (tmp_path / "ours.toml", tmp_path / "shared")
    assert read_workload(file, CATALOG).where.catalog == ("ours.toml", "shared/")
    for text in (
        PRE,
        PRE + "where: 3\n",
        "[1]",
        PRE + "where: {catalog: x}\n",
        PRE + "where: {catalog: [[x]]}\n",
    ):
        file.write_text(text)
        assert own_catalogs(file) == ()


def test_missing_file_raises_input_error() -> None:
    with pytest.raises(InputError, match="no such file"):
        read_workload(Path("nowhere.yaml"), CATALOG)


def test_inventory_has_short_and_long_form() -> None:
    short = PRE + "where: {provider: onprem, inventory: {dgx-h100: 16, dgx-h200: 2}}\n"
    long = (
        PRE
        + "where: {provider: onprem, inventory: [{name: dgx-h100, count: 16}, {name: dgx-h200, count: 2}]}\n"
    )
    assert parse(short) == parse(long)
    assert parse(short).where.inventory == (
        InventoryItem(name="dgx-h100", count=16),
        InventoryItem(name="dgx-h200", count=2),
    )


def shuffled(tree: object, rng: random.Random) -> object:
    """The same tree with the keys of every mapping in another order."""
    if isinstance(tree, dict):
        keys = list(tree)
        rng.shuffle(keys)
        return {key: shuffled(tree[key], rng) for key in keys}
    return [shuffled(item, rng) for item in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_pass_with_builtin_catalog(path: Path) -> None:
    catalog = load_catalog()
    workload = read_workload(path, catalog)
    assert isinstance(workload.model, Model) == (
        workload.task in ("pretraining", "finetuning", "inference")
    )
    saved = dump_json(workload)
    assert load_json(saved, Workload) == workload
    assert hash(workload) == hash(load_json(saved, Workload))
    tree = plain_tree(read_yaml(path.read_text(), path.name).root)
    for seed in range(5):
        text = json.dumps(shuffled(tree, random.Random(seed)))
        again = parse_workload(text, path.name, catalog)
        assert dump_json(again) == saved


def test_every_task_has_example() -> None:
    tasks = {read_workload(path, load_catalog()).task for path in EXAMPLES}
    assert tasks == {"pretraining", "finetuning", "inference", "graphics", "hpc"}


def test_saved_workload_preserves_pipeline() -> None:
    workload = parse(PRE + "pipeline: {data: {split: [0.9, 0.1], since: 2026-01-01}, deploy: {}}\n")
    saved = plain(workload)
    assert isinstance(saved, dict)
    assert saved["pipeline"] == {"data": {"since": "2026-01-01", "split": [0.9, 0.1]}, "deploy": {}}
    assert load_json(dump_json(workload), Workload) == workload
