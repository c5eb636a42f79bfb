"""The contract of language-model trainers, and agreement between frameworks and transformers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuyard.catalog.models import Transformer
from gpuyard.errors import InputError
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.evaluate.fold import predictions_of
from gpuyard.learn.evaluate.intervals import unweighted
from gpuyard.learn.evaluate.language_bundle import language_predictions
from gpuyard.learn.evaluate.metric_table import metrics_named
from gpuyard.learn.fit import fit_data
from gpuyard.learn.metrics_log import MetricsLog, read_metrics
from gpuyard.learn.networks.weights import transformer_weights
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    FittedModel,
    NextTokenModel,
    StoppedError,
    TabularData,
    TokenData,
    TrainingContext,
    TrainingInputs,
)
from gpuyard.learn.trainer_list import trainer_for
from gpuyard.learn.trainers.lora.lora_settings import LoraSpec
from gpuyard.learn.trainers.network_settings import TransformerSpec
from gpuyard.learn.trainers.torch_nets.torch_settings import TorchTransformerSpec
from gpuyard.perf.from_catalog import architecture
from gpuyard.perf.operators import model_flop_per_token
from gpuyard.registry.bundle import ModelBundle, write_bundle

SHAPE = Transformer(layers=2, hidden=16, heads=4, kv_heads=2, ffn=32, vocab=16)
SETTINGS = {"steps": 24, "batch": 8, "learning_rate": 0.02, "warmup": 2}
PACKAGES = {"jax_transformer": "jax", "torch_transformer": "torch", "lora": "transformers"}


def network(name: str, **more: object) -> TrainSpec:
    record = TransformerSpec if name.startswith("jax") else TorchTransformerSpec
    settings = {"shape": SHAPE, **SETTINGS, **more}
    return TrainSpec(log_every=1, checkpoint_every=10, **{name: record(**settings)})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory, need: Callable[[str], None]) -> Path:
    """A tiny Llama as transformers itself saves it."""
    need("transformers")
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=16,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        bos_token_id=None,
        eos_token_id=None,
    )
    folder = tmp_path_factory.mktemp("base")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(params=tuple(PACKAGES))
def spec(request: pytest.FixtureRequest, need: Callable[[str], None]) -> TrainSpec:
    need(PACKAGES[request.param])
    if request.param != "lora":
        return network(request.param)
    folder = request.getfixturevalue("base")
    adapters = LoraSpec(
        base=str(folder), rank=4, targets=("q_proj", "v_proj", "down_proj"), **SETTINGS
    )  # type: ignore[arg-type]
    return TrainSpec(log_every=1, checkpoint_every=10, lora=adapters)


def surprise(folder: Path, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nats of every token but the first and whether it is the likeliest, by transformers from the weights."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder / "weights", local_files_only=True)
    rows = torch.from_numpy(ids.astype(np.int64))
    with torch.no_grad():
        logits = model(rows).logits[:, :-1].float()
    nats: np.ndarray = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), rows[:, 1:], reduction="none"
    ).numpy()
    return nats, (logits.argmax(dim=-1) == rows[:, 1:]).numpy()


@pytest.fixture
def ids(tokens: TokenData) -> np.ndarray:
    return tokens.of(np.arange(len(tokens)))


def test_trainer_learns_and_transformers_loads_its_export(
    spec: TrainSpec, tokens: TokenData, ids: np.ndarray, tmp_path: Path, need: Callable[[str], None]
) -> None:
    need("transformers")
    log = MetricsLog(path=tmp_path / "metrics.jsonl")
    fitted: FittedModel = trainer_for(spec).fit(
        TrainingInputs(train=tokens), TrainingContext(log=log)
    )
    nats = fitted.predict(ids)
    assert nats.shape == (24, 16)
    lines = read_metrics(log.path)
    assert [line.step for line in lines] == list(range(1, 25))
    assert lines[0].loss is not None
    assert lines[-1].loss is not None
    assert lines[-1].loss < lines[0].loss - 0.05
    assert lines[-1].tokens_per_s
    assert fitted.export(tmp_path) is not None
    expected, likeliest = surprise(tmp_path, ids)
    np.testing.assert_allclose(expected, nats, atol=2e-5)
    assert isinstance(fitted, NextTokenModel)
    hits = fitted.hits(ids)
    assert (hits.dtype, 0.0 < hits.mean() < 1.0) == (np.bool_, True)
    assert (hits == likeliest).mean() > 0.99  # all but ties to the last digit


def test_stopped_training_resumes_to_the_same_model(
    spec: TrainSpec, tokens: TokenData, ids: np.ndarray, tmp_path: Path
) -> None:
    uninterrupted = fit_data(spec, tokens)
    run = TrainingContext(checkpoints=Checkpoints(folder=tmp_path))
    stop_requests = iter([False] * 6 + [True])
    with pytest.raises(StoppedError, match="after step 7 of 24"):
        trainer_for(spec).fit(
            TrainingInputs(train=tokens),
            dataclasses.replace(run, stop=lambda: next(stop_requests, False)),
        )
    resumed = trainer_for(spec).fit(TrainingInputs(train=tokens), run)
    assert resumed.summary.resumed_step == 7
    assert np.array_equal(resumed.predict(ids), uninterrupted.predict(ids))


def test_jax_and_torch_take_the_same_steps(tokens: TokenData, need: Callable[[str], None]) -> None:
    need("jax")
    need("torch")
    seen: dict[str, list[tuple[float, float]]] = {"jax_transformer": [], "torch_transformer": []}
    for name, lines in seen.items():
        spec = network(
            name, accumulate=2, steps=8, shape=dataclasses.replace(SHAPE, tied_embeddings=True)
        )
        fit_data(
            spec, tokens, watch=lambda m, lines=lines: bool(lines.append((m.loss, m.gradient_norm)))
        )  # type: ignore[misc]
    first, second = (np.asarray(lines) for lines in seen.values())
    assert first.shape == (8, 2)
    np.testing.assert_allclose(first, second, rtol=2e-5)


@pytest.mark.parametrize("name", ["jax_transformer", "torch_transformer"])
def test_accumulation_recompute_and_bfloat16_change_little(
    name: str, tokens: TokenData, ids: np.ndarray, need: Callable[[str], None]
) -> None:
    need(PACKAGES[name])
    plain = fit_data(network(name, steps=6), tokens).predict(ids)
    parts = fit_data(network(name, steps=6, accumulate=2, recompute=True), tokens).predict(ids)
    np.testing.assert_allclose(parts, plain, rtol=1e-4)
    rough = fit_data(network(name, steps=6, precision="bfloat16"), tokens).predict(ids)
    assert 0 < np.abs(rough - plain).max() < 0.1


def test_model_flops_match_the_performance_model(
    tokens: TokenData, need: Callable[[str], None]
) -> None:
    need("jax")
    summary = fit_data(network("jax_transformer", steps=3), tokens).summary
    assert summary.tokens_per_s is not None
    per_token = model_flop_per_token(architecture(SHAPE, 16, adapters=False))
    assert summary.model_flop_per_step == pytest.approx(8 * 16 * per_token)
    assert summary.flop_per_s == pytest.approx(summary.tokens_per_s * per_token)
    assert (
        summary.parameters_count
        == SHAPE.parameters()
        == sum(w.size for w in transformer_weights(SHAPE, 0).values())
    )


def test_validation_loss_and_tied_embeddings(
    tokens: TokenData, tmp_path: Path, need: Callable[[str], None]
) -> None:
    need("jax")
    spec = network(
        "jax_transformer", shape=dataclasses.replace(SHAPE, tied_embeddings=True), steps=4
    )
    fitted = fit_data(dataclasses.replace(spec, validation_ratio=0.25), tokens)
    assert fitted.summary.validation_loss == pytest.approx(np.log(16), rel=0.2)
    fitted.export(tmp_path)
    assert (
        json.loads((tmp_path / "weights" / "config.json").read_text())["tie_word_embeddings"]
        is True
    )


def test_unsupported_shape_raises_input_error(
    tokens: TokenData, binary: TabularData, need: Callable[[str], None]
) -> None:
    need("jax")
    wrong = dataclasses.replace(SHAPE, vocab=8, gated=False, kv_heads=3, max_context_tokens=4)
    with pytest.raises(InputError) as caught:
        fit_data(network("jax_transformer", shape=wrong), tokens)
    assert [problem.where.rpartition(": ")[2] for problem in caught.value.problems] == [
        "gated",
        "kv_heads",
        "vocab",
        "max_context",
    ]
    with pytest.raises(InputError, match="the data is a table"):
        fit_data(network("jax_transformer"), binary)


def test_adapters_are_saved_in_peft_format(base: Path, tokens: TokenData, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    spec = TrainSpec(
        lora=LoraSpec(base=str(base), rank=4, alpha=8, steps=5, batch=8, learning_rate=0.05)
    )
    fitted = fit_data(spec, tokens)
    fitted.export(tmp_path)
    before, after = (
        load_file(base / "model.safetensors"),
        load_file(tmp_path / "weights" / "model.safetensors"),
    )
    adapters = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 4, 8)
    assert fitted.summary.parameters_count == sum(array.size for array in adapters.values())
    for name, weight in before.items():
        stem = "base_model.model." + name.removesuffix(".weight")
        first, second = adapters.get(f"{stem}.lora_A.weight"), adapters.get(f"{stem}.lora_B.weight")
        if first is None or second is None:
            assert np.array_equal(after[name], weight), name
        else:
            assert name.endswith(("q_proj.weight", "v_proj.weight"))
            np.testing.assert_allclose(after[name], weight + 8 / 4 * second @ first, atol=1e-6)
            assert np.abs(after[name] - weight).max() > 1e-4


def test_invalid_base_model_raises_input_error(
    base: Path, tokens: TokenData, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"no config\.json"):
        fit_data(TrainSpec(lora=LoraSpec(base=str(tmp_path))), tokens)
    with pytest.raises(InputError, match="no layer named nothing"):
        fit_data(TrainSpec(lora=LoraSpec(base=str(base), targets=("nothing",))), tokens)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be loaded"):
        fit_data(TrainSpec(lora=LoraSpec(base=str(tmp_path))), tokens)


@pytest.mark.slow
def test_exported_model_predicts_as_the_trained_one(
    spec: TrainSpec, tokens: TokenData, ids: np.ndarray, tmp_path: Path, need: Callable[[str], None]
) -> None:
    need("transformers")
    fitted = trainer_for(spec).fit(TrainingInputs(train=tokens), TrainingContext())
    exported = fitted.export(tmp_path)
    assert exported is not None
    write_bundle(
        tmp_path,
        ModelBundle(kind="language", trainer="t", inputs=exported.inputs, outputs=exported.outputs),
    )
    predictions = language_predictions(tmp_path, spec, tokens)
    np.testing.assert_allclose(predictions.outputs, fitted.predict(ids), atol=2e-5)
    assert predictions.hits is not None
    assert np.array_equal(predictions.hits, fitted.hits(ids))  # type: ignore[attr-defined]


class HalfMask:
    """The second half of every sequence is labels."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def learned(self, rows: np.ndarray) -> np.ndarray:
        return np.tile(np.arange(self.tokens) >= self.tokens // 2, (len(rows), 1))


def test_masked_tokens_are_no_labels(spec: TrainSpec, tokens: TokenData, tmp_path: Path) -> None:
    half = HalfMask(tokens.sequence_tokens)
    masked = dataclasses.replace(tokens, masks=half)
    inputs = TrainingInputs(train=masked, validation=masked)
    log = MetricsLog(path=tmp_path / "metrics.jsonl")
    fitted = trainer_for(spec).fit(inputs, TrainingContext(log=log))
    first, *_, last = (line.loss for line in read_metrics(log.path))
    assert first is not None
    assert last is not None
    assert last < first
    ids = tokens.of(np.arange(len(tokens)))
    nats, learned = fitted.predict(ids), masked.learned(np.arange(len(tokens)))
    assert learned is not None
    assert fitted.summary.validation_loss == pytest.approx(nats[learned].mean(), rel=1e-4)
    predictions = predictions_of(fitted, masked, None)
    (perplexity,) = metrics_named(("perplexity",), "language")
    assert unweighted(perplexity, predictions) == pytest.approx(np.exp(nats[learned].mean()))
