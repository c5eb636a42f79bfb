"""Direct preference optimisation (Rafailov et al. 2023, arXiv 2305.18290).

The policy learns from pairs of replies without a reward model. The implicit reward of a reply is
how much likelier the policy finds it than the frozen reference does:

    reward(x, y) = β (log π(y|x) − log π_ref(y|x))
    loss = −log σ(reward(x, chosen) − reward(x, rejected))        the Bradley-Terry likelihood
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from gpuyard.learn.trainer import TokenData
from gpuyard.learn.trainers.lora.lora_settings import DpoSpec
from gpuyard.learn.trainers.torch_nets.devices import TorchDevice

Nats = Callable[[torch.Tensor], torch.Tensor]
EVALUATE_PAIRS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewards:
    """Implicit rewards of the pairs of a batch."""

    chosen: torch.Tensor  # [batch]
    rejected: torch.Tensor

    @property
    def margins(self) -> torch.Tensor:
        return self.chosen - self.rejected


def dpo_loss(rewards: Rewards, label_smoothing: float = 0.0) -> torch.Tensor:
    """Return the mean loss; with smoothing, that of labels which are wrong with this probability.

    Source of the smoothing: Mitchell 2023, "A note on DPO with noisy preferences" (cDPO).
    """
    margins = rewards.margins
    right, wrong = functional.logsigmoid(margins), functional.logsigmoid(-margins)
    return -((1.0 - label_smoothing) * right + label_smoothing * wrong).mean()


def reply_log_likelihoods(
    nats: Nats, ids: torch.Tensor, learned: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log π of the chosen and the rejected replies, [batch] each.

    `ids` [batch, 2 s] holds the chosen conversation, then the rejected one; `learned`
    [batch, 2 s - 1] says which tokens but the first belong to replies.
    """
    size = ids.shape[1] // 2
    both = torch.cat([ids[:, :size], ids[:, size:]])
    labels = torch.cat([learned[:, : size - 1], learned[:, size:]])
    sums = -(nats(both) * labels).sum(dim=1)
    chosen, rejected = sums.chunk(2)
    return chosen, rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceScores:
    """Loss and rewards of held-out pairs."""

    loss: float
    accuracy: float
    margin: float


class Preference(nn.Module):  # type: ignore[misc]
    """A policy and its reference; returns the loss when called with pairs."""

    def __init__(self, policy: nn.Module, nats: Nats, reference: Nats, spec: DpoSpec) -> None:
        super().__init__()
        self.policy = policy
        self._nats, self._reference, self.spec = nats, reference, spec
        self.seen = torch.zeros(3)  # pairs, correctly ordered ones, sum of margins
        self.held_out: PreferenceScores | None = None

    def rewards(self, ids: torch.Tensor, learned: torch.Tensor) -> Rewards:
        """Return the implicit rewards of pairs."""
        ids = ids.long()
        chosen, rejected = reply_log_likelihoods(self._nats, ids, learned)
        with torch.no_grad():
            base = reply_log_likelihoods(self._reference, ids, learned)
        return Rewards(
            chosen=self.spec.beta * (chosen - base[0]),
            rejected=self.spec.beta * (rejected - base[1]),
        )

    def forward(self, ids: torch.Tensor, learned: torch.Tensor) -> torch.Tensor:
        rewards = self.rewards(ids, learned)
        margins = rewards.margins.detach()
        counts = [float(len(margins)), float((margins > 0).sum()), float(margins.sum())]
        self.seen = self.seen + torch.tensor(counts)
        return dpo_loss(rewards, self.spec.label_smoothing)

    def metrics(self, place: TorchDevice) -> tuple[tuple[str, float], ...]:
        """Return accuracy and margin of the rewards since the last call, over all processes."""
        pairs, right, margin = place.sum_of(self.seen.tolist())
        held_out, self.held_out, self.seen = self.held_out, None, torch.zeros(3)
        metrics = []
        if pairs:
            metrics = [("reward_accuracy", right / pairs), ("reward_margin", margin / pairs)]
        if held_out is not None:
            metrics.append(("validation_reward_accuracy", held_out.accuracy))
            metrics.append(("validation_reward_margin", held_out.margin))
        return tuple(metrics)

    def validate(self, pairs: TokenData, device: torch.device) -> float:
        """Return the loss of held-out pairs; their rewards are among the next metrics."""
        self.held_out = held_out_scores(self, pairs, device)
        return self.held_out.loss


def held_out_scores(model: Preference, pairs: TokenData, device: torch.device) -> PreferenceScores:
    """Score held-out pairs, a few at a time."""
    losses, margins = [], []
    with torch.no_grad():
        for start in range(0, len(pairs), EVALUATE_PAIRS):
            rows = np.arange(start, min(start + EVALUATE_PAIRS, len(pairs)))
            batch = tuple(torch.from_numpy(part).to(device) for part in pairs.batch(rows, np.int64))
            rewards = model.rewards(*batch)
            losses.append(float(dpo_loss(rewards, model.spec.label_smoothing)) * len(rows))
            margins.append(rewards.margins.cpu())
    margin = torch.cat(margins)
    return PreferenceScores(
        loss=sum(losses) / len(pairs),
        accuracy=float((margin > 0).float().mean()),
        margin=float(margin.mean()),
    )
