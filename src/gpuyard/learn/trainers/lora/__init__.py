"""LoRA fine-tuning of a Hugging Face causal language model from local weights."""

from gpuyard.learn.trainers.lora.trainer import make

__all__ = ["make"]
