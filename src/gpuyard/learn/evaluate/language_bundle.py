"""Open the language model that training exported, to evaluate it without training again."""

from __future__ import annotations

from pathlib import Path

from gpuyard.learn.evaluate.fold import predictions_of
from gpuyard.learn.evaluate.predictions import Predictions
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import FittedModel, TokenData, TrainingSummary
from gpuyard.registry.bundle import WEIGHTS, read_bundle

# The run recorded how it trained; the opened model only predicts.
NO_SUMMARY = TrainingSummary(
    steps=0,
    step_s=0.0,
    samples_per_s=0.0,
    memory_bytes=0.0,
    model_flop_per_step=0.0,
    parameters_count=0.0,
    device="cpu",
)


def language_predictions(folder: Path, train: TrainSpec, test: TokenData) -> Predictions:
    """Predict packed tokens with the bundle of a language model, in the framework it came from."""
    read_bundle(folder)
    return predictions_of(_opened(train, folder / WEIGHTS, test), test, None)


def _opened(train: TrainSpec, weights: Path, tokens: TokenData) -> FittedModel:
    if train.jax_transformer is not None:
        from gpuyard.learn.trainers.jax_nets import transformer as jax_transformer

        return jax_transformer.load(weights, train.jax_transformer, tokens, NO_SUMMARY)
    if train.torch_transformer is not None:
        from gpuyard.learn.trainers.torch_nets import transformer as torch_transformer

        return torch_transformer.load(weights, train.torch_transformer, tokens, NO_SUMMARY)
    from gpuyard.learn.trainers.lora.trainer import load_merged

    return load_merged(weights, tokens, NO_SUMMARY)
