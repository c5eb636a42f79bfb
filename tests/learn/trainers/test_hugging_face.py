"""Fine-tuning by transformers: labels, metrics, resuming, adapters, processes, bundles."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.evaluate.language_bundle import language_predictions
from gpuyard.learn.metrics_log import MetricsLog, read_events, read_metrics
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import StoppedError, TokenData, TrainingContext, TrainingInputs
from gpuyard.learn.trainer_list import trainer_for
from gpuyard.learn.trainers.hugging_face.hugging_face_settings import PeftSpec, TransformersSpec
from gpuyard.registry.bundle import ModelBundle, write_bundle

VOCAB, SIZE = 16, 8


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, need: Callable[[str], None]) -> Path:
    """A tiny Llama with random weights."""
    for package in ("transformers", "accelerate", "peft"):
        need(package)
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
        bos_token_id=None,
        eos_token_id=None,
    )
    folder = tmp_path_factory.mktemp("base")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def tokens(rows: int = 32) -> TokenData:
    """Sequences that count up, from a random start."""
    starts = np.random.default_rng(0).integers(0, VOCAB, size=(rows, 1))
    return TokenData(ids=(starts + np.arange(SIZE)) % VOCAB, vocab=VOCAB)


def settings(base: Path, **more: object) -> TrainSpec:
    fixed = {"base": str(base), "steps": 12, "batch": 8, "learning_rate": 0.02, "device": "cpu"}
    spec = TransformersSpec(**{**fixed, **more})  # type: ignore[arg-type]
    return TrainSpec(log_every=4, checkpoint_every=4, transformers=spec)


def context(folder: Path, stop: Callable[[], bool] = bool) -> TrainingContext:
    log = MetricsLog(path=folder / "metrics.jsonl")
    return TrainingContext(
        log=log, checkpoints=Checkpoints(folder=folder / "checkpoints", log=log), stop=stop
    )


def test_training_is_recorded_and_its_bundle_scores_the_same(base: Path, tmp_path: Path) -> None:
    data = TrainingInputs(train=tokens(), validation=tokens(8))
    fitted = trainer_for(settings(base)).fit(data, context(tmp_path))
    rows = {row.step: row for row in read_metrics(tmp_path / "metrics.jsonl")}
    assert set(rows) == {1, 4, 8, 12}
    assert rows[1].loss == pytest.approx(math.log(VOCAB), rel=0.1)
    assert rows[12].loss is not None
    assert rows[12].validation_loss is not None
    assert rows[12].validation_loss < rows[4].validation_loss  # type: ignore[operator]
    summary = fitted.summary
    assert (summary.steps, summary.device) == (12, "cpu")
    assert summary.model_flop_per_step > 0
    rows_of_test = np.asarray(tokens(8).ids)
    nats = fitted.predict(rows_of_test)
    assert nats.mean() == pytest.approx(summary.validation_loss, rel=1e-4)

    bundle = tmp_path / "bundle"
    exported = fitted.export(bundle)
    write_bundle(
        bundle,
        ModelBundle(
            kind="language",
            trainer="transformers",
            inputs=exported.inputs,
            outputs=exported.outputs,
        ),
    )
    judged = language_predictions(bundle, settings(base), tokens(8))
    assert judged.outputs == pytest.approx(nats, rel=1e-4)


def test_masked_tokens_have_no_loss(base: Path) -> None:
    from gpuyard.learn.trainers.hugging_face.trainer import TokenRows

    class Masks:
        def learned(self, rows: np.ndarray) -> np.ndarray:
            return np.tile(np.arange(SIZE) >= SIZE - 2, (len(rows), 1))

    data = TokenData(ids=tokens().ids, vocab=VOCAB, masks=Masks())
    labels = TokenRows(data)[0]["labels"].tolist()
    assert labels[1:-2] == [-100] * (SIZE - 3)
    assert labels[-2:] == TokenRows(data)[0]["input_ids"].tolist()[-2:]


def test_stopped_training_resumes_to_the_same_weights(base: Path, tmp_path: Path) -> None:
    import torch

    whole = trainer_for(settings(base)).fit(
        TrainingInputs(train=tokens()), context(tmp_path / "whole")
    )
    polls = iter([False] * 5 + [True] * 100)
    with pytest.raises(StoppedError, match="after step 6 of 12"):
        trainer_for(settings(base)).fit(
            TrainingInputs(train=tokens()), context(tmp_path / "cut", lambda: next(polls))
        )
    torn = tmp_path / "cut" / "checkpoints" / "checkpoint-9"  # as a kill leaves it
    torn.mkdir()
    resumed = trainer_for(settings(base)).fit(
        TrainingInputs(train=tokens()), context(tmp_path / "cut")
    )
    assert resumed.summary.resumed_step == 6
    assert ("resumed", 6, "") in read_events(tmp_path / "cut" / "metrics.jsonl")
    for name, value in whole.model.state_dict().items():  # type: ignore[attr-defined]
        assert torch.equal(value, resumed.model.state_dict()[name]), name  # type: ignore[attr-defined]


def test_adapters_are_merged_and_saved_for_peft(base: Path, tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    spec = settings(base, peft=PeftSpec(rank=4, targets=("q_proj", "v_proj", "down_proj")))
    fitted = trainer_for(spec).fit(TrainingInputs(train=tokens()), context(tmp_path))
    whole = sum(item.numel() for item in AutoModelForCausalLM.from_pretrained(base).parameters())
    assert fitted.summary.parameters_count < whole
    rows = np.asarray(tokens(4).ids)
    before = fitted.predict(rows)
    fitted.export(tmp_path / "bundle")
    assert fitted.predict(rows) == pytest.approx(before, rel=1e-4)
    import torch

    ids = torch.from_numpy(rows)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "bundle" / "weights")
    plain = AutoModelForCausalLM.from_pretrained(base)
    adapted = PeftModel.from_pretrained(plain, str(tmp_path / "bundle" / "adapter"))
    with torch.no_grad():
        assert merged(ids).logits == pytest.approx(adapted(ids).logits, abs=1e-4)


def test_wrong_bases_targets_and_tokens_are_refused(base: Path, tmp_path: Path) -> None:
    data = TrainingInputs(train=tokens())
    with pytest.raises(InputError, match="has no config"):
        trainer_for(settings(tmp_path)).fit(data, TrainingContext())
    spec = settings(base, peft=PeftSpec(targets=("nothing",)))
    with pytest.raises(InputError, match="targets"):
        trainer_for(spec).fit(data, TrainingContext())
    more = TrainingInputs(train=TokenData(ids=tokens().ids, vocab=VOCAB + 1))
    with pytest.raises(InputError, match="the model 16"):
        trainer_for(settings(base)).fit(more, TrainingContext())


PROCESS = """
import sys
from pathlib import Path
import numpy as np
import torch
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.metrics_log import MetricsLog
from gpuyard.learn.ranks import ranks_of
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainers.hugging_face.hugging_face_settings import TransformersSpec
from gpuyard.learn.trainer import TokenData, TrainingContext, TrainingInputs
from gpuyard.learn.trainer_list import trainer_for
from gpuyard.learn.worker import leave

base, out, parallel = sys.argv[1:]
spec = TransformersSpec(base=base, steps=4, batch=8, learning_rate=0.02, device="cpu", parallel=parallel)
ids = (np.arange(32)[:, None] + np.arange(8)) % 16
ranks, out = ranks_of(), Path(out)
log = MetricsLog(path=out / "metrics.jsonl") if ranks.first else None
run = TrainingContext(ranks=ranks, log=log, checkpoints=Checkpoints(folder=out / "checkpoints", log=log))
train = TrainSpec(log_every=2, checkpoint_every=2, transformers=spec)
fitted = trainer_for(train).fit(TrainingInputs(train=TokenData(ids=ids, vocab=16)), run)
if ranks.first:
    np.save(out / "nats.npy", fitted.predict(ids))
torch.distributed.barrier()
leave(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_learn_as_one(base: Path, tmp_path: Path, parallel: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(base), str(tmp_path), parallel],
            env=os.environ
            | {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": "2",
                "LOCAL_WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors)
    assert [row.step for row in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2, 4]
    assert (tmp_path / "checkpoints" / "checkpoint-4" / "complete.json").is_file()
    nats = np.load(tmp_path / "nats.npy")
    assert nats.mean() < math.log(VOCAB)
