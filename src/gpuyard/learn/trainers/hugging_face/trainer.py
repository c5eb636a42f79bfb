"""Fine-tuning by the Trainer of transformers, over accelerate: DDP, FSDP2 or DeepSpeed.

The Trainer runs the steps, shards the model and writes checkpoints. This module gives it the
prepared tokens, records its metrics, and exports a bundle.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import typing
from pathlib import Path

import numpy as np
import torch
import transformers

from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array, Hits
from gpuyard.learn.memory import peak_bytes
from gpuyard.learn.networks.inputs import tokens_of
from gpuyard.learn.networks.order import Order, order_of
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    Exported,
    StoppedError,
    TokenData,
    TrainingContext,
    TrainingInputs,
    TrainingSummary,
)
from gpuyard.learn.trainers.hugging_face.callback import RunCallback, last_checkpoint
from gpuyard.learn.trainers.hugging_face.hugging_face_settings import TransformersSpec
from gpuyard.learn.trainers.lora.trainer import (
    Causal,
    FittedLora,
    export_weights,
    flop_of,
    load,
)

WHERE = "train: transformers"
IGNORED = -100  # label of tokens that have no loss
SCHEDULES = {
    "constant": "constant_with_warmup",
    "linear": "linear",
    "cosine": "cosine",
}


class TokenRows(torch.utils.data.Dataset):  # type: ignore[misc]
    """Sequences with their labels, as the Trainer reads them."""

    def __init__(self, tokens: TokenData) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        rows = np.array([row])
        ids = self.tokens.of(rows)[0].astype(np.int64)
        labels, learned = ids.copy(), self.tokens.learned(rows)
        if learned is not None:
            labels[1:][~learned[0]] = IGNORED
        return {"input_ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels)}


class HuggingFaceTrainer:
    """Trains a causal language model with transformers, and adapters with peft."""

    def __init__(self, train: TrainSpec, spec: TransformersSpec) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedTransformers:
        """Train, resuming from the newest complete checkpoint."""
        tokens, spec, ranks = tokens_of(data.train, WHERE), self.spec, run.ranks
        order = order_of(
            spec, rows=len(tokens), seed=self.train.seed, part=ranks.rank, parts=ranks.world
        )
        transformers.utils.logging.disable_progress_bar()
        transformers.set_seed(self.train.seed)
        model = load(Path(spec.base), WHERE)
        if model.config.vocab_size < tokens.vocab:
            what = f"the data has {tokens.vocab} tokens, the model {model.config.vocab_size}"
            raise InputError.one(WHERE, what, "prepare the text with the tokenizer of the model")
        parameters = sum(parameter.numel() for parameter in model.parameters())
        model = with_adapters(model, spec)
        callback = RunCallback(
            run=run,
            order=order,
            log_every=self.train.log_every,
            sequence_tokens=tokens.sequence_tokens - 1,
            flop_per_step=flop_of(
                Path(spec.base),
                order.batch,
                tokens.sequence_tokens,
                parameters,
                adapters=spec.peft is not None,
            ),
        )
        with tempfile.TemporaryDirectory(prefix="gpuyard-transformers-") as temporary:
            folder = run.checkpoints.folder if run.checkpoints else Path(temporary)
            arguments = self._arguments(folder, order, run, has_validation=bool(data.validation))
            held_out = None if data.validation is None else tokens_of(data.validation, WHERE)
            trainer = transformers.Trainer(
                model=model,
                args=arguments,
                train_dataset=TokenRows(tokens),
                eval_dataset=None if held_out is None else TokenRows(held_out),
                data_collator=transformers.default_data_collator,
                callbacks=[callback],
            )
            trainer.remove_callback(transformers.PrinterCallback)
            checkpoint = last_checkpoint(folder) if run.checkpoints else None
            if checkpoint is not None:
                callback.resumed(checkpoint)
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        if callback.stopped:
            done = trainer.state.global_step
            raise StoppedError(f"stopped after step {done} of {order.steps}; checkpoint saved")
        state = trainer.accelerator.get_state_dict(trainer.model)  # gathered on rank 0
        trained = sum(item.numel() for item in model.parameters() if item.requires_grad)
        summary = self._summary(trainer, callback, tokens, float(trained))
        return FittedTransformers(self._whole(state if ranks.first else {}), spec, tokens, summary)

    def _arguments(
        self, folder: Path, order: Order, run: TrainingContext, *, has_validation: bool
    ) -> typing.Any:
        spec, ranks = self.spec, run.ranks
        on_cpu = spec.device == "cpu" or not torch.cuda.is_available()
        if on_cpu and ranks.local_world > 1:  # processes share the cores
            torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks.local_world))
        settings: dict[str, typing.Any] = {
            "output_dir": str(folder),
            "per_device_train_batch_size": order.batch // order.accumulate // order.parts,
            "per_device_eval_batch_size": order.batch // order.accumulate // order.parts,
            "gradient_accumulation_steps": order.accumulate,
            "max_steps": order.steps,
            "learning_rate": spec.learning_rate,
            "lr_scheduler_type": SCHEDULES[spec.schedule],
            "warmup_steps": spec.warmup,
            "weight_decay": spec.weight_decay,
            "adam_beta1": spec.beta1,
            "adam_beta2": spec.beta2,
            "max_grad_norm": spec.clip or 0.0,
            "bf16": spec.precision == "bfloat16",
            "gradient_checkpointing": spec.recompute,
            "logging_steps": self.train.log_every,
            "logging_first_step": True,
            "logging_nan_inf_filter": False,
            "disable_tqdm": True,
            "report_to": "none",
            "save_strategy": "steps" if run.checkpoints else "no",
            "save_steps": self.train.checkpoint_every,
            "save_total_limit": None if run.checkpoints is None else run.checkpoints.keep,
            "dataloader_drop_last": True,
            "dataloader_pin_memory": not on_cpu,
            "seed": self.train.seed,
            "use_cpu": on_cpu,
        }
        if has_validation:
            settings |= {"eval_strategy": "steps", "eval_steps": order.steps_per_epoch}
        if spec.parallel == "fsdp" and ranks.world > 1:
            settings["fsdp"] = True
        if spec.parallel == "deepspeed":
            settings["deepspeed"] = deepspeed_settings(spec)
        return transformers.TrainingArguments(**settings)

    def _summary(
        self, trainer: typing.Any, callback: RunCallback, tokens: TokenData, trained: float
    ) -> TrainingSummary:
        step_s = statistics.median(callback.step_s[1:] or callback.step_s or [0.0])
        samples = callback.order.batch / step_s if step_s > 0 else 0.0
        cuda = trainer.args.device.type == "cuda"
        return TrainingSummary(
            steps=trainer.state.global_step,
            step_s=step_s,
            samples_per_s=samples,
            tokens_per_s=samples * (tokens.sequence_tokens - 1),
            memory_bytes=float(torch.cuda.max_memory_allocated()) if cuda else peak_bytes(),
            model_flop_per_step=callback.flop_per_step,
            parameters_count=trained,
            device=str(torch.cuda.get_device_name()) if cuda else "cpu",
            loss=callback.loss,
            validation_loss=callback.validation_loss,
            resumed_step=callback.resumed_step,
        )

    def _whole(self, state: dict[str, torch.Tensor]) -> typing.Any:
        """Return the trained model on the CPU with its adapters; other ranks have its base."""
        model = with_adapters(load(Path(self.spec.base), WHERE), self.spec)
        if state:
            weights = {name: value.float().cpu() for name, value in state.items()}
            missing, unexpected = model.load_state_dict(weights, strict=False)
            tied = {name for name in missing if name.endswith("lm_head.weight")}
            assert not unexpected
            assert set(missing) == tied
        return model.eval()


class FittedTransformers:
    """A fine-tuned model on the CPU."""

    def __init__(
        self, model: typing.Any, spec: TransformersSpec, tokens: TokenData, summary: TrainingSummary
    ) -> None:
        self.model, self.spec, self.tokens, self._summary = model, spec, tokens, summary
        device = torch.device("cpu")
        self._predictor = FittedLora(Causal(model), None, tokens, summary, device)

    @property
    def summary(self) -> TrainingSummary:
        return self._summary

    def predict(self, rows: Array) -> Array:
        """Return the nats of every token but the first, [n, s - 1]."""
        return self._predictor.predict(rows)

    def hits(self, rows: Array) -> Hits:
        """Return whether the top token was right, for every token but the first."""
        return self._predictor.hits(rows)

    def export(self, folder: Path) -> Exported:
        """Write weights/, with adapters merged, and adapter/ as peft saves them."""
        model = self.model
        if self.spec.peft is not None:
            model.save_pretrained(folder / "adapter")
            model = model.merge_and_unload()
            self._predictor = FittedLora(
                Causal(model), None, self.tokens, self._summary, torch.device("cpu")
            )
        return export_weights(model, Path(self.spec.base), self.tokens, folder)


def with_adapters(model: typing.Any, spec: TransformersSpec) -> typing.Any:
    """Return the model, wrapped by peft if the spec has adapters."""
    if spec.peft is None:
        return model
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=spec.peft.rank,
        lora_alpha=spec.peft.alpha,
        lora_dropout=spec.peft.dropout,
        target_modules=list(spec.peft.targets) or "all-linear",
        task_type="CAUSAL_LM",
    )
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        raise InputError.one(
            f"{WHERE}: peft.targets", str(error).splitlines()[0], "name linear layers of the model"
        ) from error


def deepspeed_settings(spec: TransformersSpec) -> dict[str, typing.Any]:
    """Return DeepSpeed's configuration; `auto` takes the Trainer's value."""
    return {
        "zero_optimization": {"stage": int(spec.zero_stage), "overlap_comm": True},
        "bf16": {"enabled": "auto"},
        "gradient_clipping": "auto",
        "gradient_accumulation_steps": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }


def make(spec: TrainSpec) -> HuggingFaceTrainer:
    """Return the trainer of a spec."""
    assert spec.transformers is not None
    return HuggingFaceTrainer(spec, spec.transformers)
