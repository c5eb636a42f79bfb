"""DPO: the loss against values by hand, and adapters that learn to prefer."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.fit import fit_data
from gpuyard.learn.metrics_log import MetricsLog, read_metrics
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import TokenData, TrainingContext, TrainingInputs
from gpuyard.learn.trainer_list import trainer_for
from gpuyard.learn.trainers.lora.lora_settings import DpoSpec, LoraSpec

VOCAB, SIZE = 16, 6


class Masks:
    """The last two tokens of both conversations are replies."""

    def learned(self, rows: np.ndarray) -> np.ndarray:
        mask = np.zeros((len(rows), 2 * SIZE), dtype=np.bool_)
        mask[:, SIZE - 2 : SIZE] = mask[:, -2:] = True
        return mask


def pairs(count: int = 16) -> TokenData:
    """Prompts of one token and filler; the chosen reply is 3 3, the rejected one 5 5."""
    generator = np.random.default_rng(0)
    ids = np.full((count, 2 * SIZE), 1)
    ids[:, 0] = ids[:, SIZE] = generator.integers(6, VOCAB, size=count)
    ids[:, SIZE - 2 : SIZE], ids[:, -2:] = 3, 5
    return TokenData(ids=ids, vocab=VOCAB, masks=Masks(), pairs=True)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, need: Callable[[str], None]) -> Path:
    need("transformers")
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
        bos_token_id=None,
        eos_token_id=None,
    )
    folder = tmp_path_factory.mktemp("base")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def adapters(base: Path, **more: object) -> TrainSpec:
    settings = {"base": str(base), "rank": 4, "steps": 12, "batch": 8, "learning_rate": 0.02}
    spec = LoraSpec(**settings, dpo=DpoSpec(beta=0.5), **more)  # type: ignore[arg-type]
    return TrainSpec(log_every=4, checkpoint_every=4, lora=spec)


def test_loss_is_the_value_by_hand() -> None:
    torch = pytest.importorskip("torch")
    from gpuyard.learn.trainers.torch_nets.preferences import Rewards, dpo_loss

    # log-ratios 0.8 and -0.4 with beta 0.5: rewards 0.4 and -0.2, margin 0.6
    rewards = Rewards(chosen=torch.tensor([0.4, 0.0]), rejected=torch.tensor([-0.2, 1.0]))
    right, wrong = math.log(1 + math.exp(-0.6)), math.log(1 + math.exp(1.0))
    assert float(dpo_loss(rewards)) == pytest.approx((right + wrong) / 2, rel=1e-6)
    flipped = [math.log(1 + math.exp(0.6)), math.log(1 + math.exp(-1.0))]
    smooth = 0.9 * (right + wrong) / 2 + 0.1 * sum(flipped) / 2
    assert float(dpo_loss(rewards, 0.1)) == pytest.approx(smooth, rel=1e-6)


def test_log_likelihoods_sum_the_labels_of_each_reply() -> None:
    torch = pytest.importorskip("torch")
    from gpuyard.learn.trainers.torch_nets.preferences import reply_log_likelihoods

    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])  # replies: 3 of (1 2 3), and 5 6 of (4 5 6)
    learned = torch.tensor([[0.0, 1.0, 0.0, 1.0, 1.0]])
    chosen, rejected = reply_log_likelihoods(lambda both: both[:, 1:].float(), ids, learned)
    assert (chosen.tolist(), rejected.tolist()) == ([-3.0], [-11.0])


def test_first_loss_is_log_two_and_training_prefers_the_chosen(base: Path, tmp_path: Path) -> None:
    log = MetricsLog(path=tmp_path / "metrics.jsonl")
    run = TrainingContext(log=log, checkpoints=Checkpoints(folder=tmp_path / "c", log=log))
    data = TrainingInputs(train=pairs(), validation=pairs(4))
    fitted = trainer_for(adapters(base)).fit(data, run)
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert rows[0].loss == pytest.approx(math.log(2), abs=1e-5)  # the policy is the reference
    last = dict(rows[-1].others)
    assert last["reward_accuracy"] == 1.0
    assert last["reward_margin"] > dict(rows[0].others)["reward_margin"] + 0.1
    assert last["validation_reward_accuracy"] == 1.0
    assert rows[-1].validation_loss is not None
    assert rows[-1].validation_loss < math.log(2)
    assert fitted.summary.loss is not None
    assert fitted.summary.loss < math.log(2)


def test_loss_equals_transformers_own_likelihoods(base: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    data = pairs(8)
    fitted = fit_data(adapters(base), data)
    fitted.export(tmp_path)
    margins = []
    ids = torch.from_numpy(data.of(np.arange(8)))
    for folder in (tmp_path / "weights", base):
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
        sides = []
        for side in (ids[:, :SIZE], ids[:, SIZE:]):
            with torch.no_grad():
                scores = model(side).logits.log_softmax(-1)[:, :-1]
            picked = scores.gather(2, side[:, 1:, None])[..., 0]
            sides.append(picked[:, -2:].sum(dim=1))
        margins.append(sides[0] - sides[1])
    by_hand = -torch.nn.functional.logsigmoid(0.5 * (margins[0] - margins[1])).mean()

    from gpuyard.learn.trainers.lora.trainer import preference_of

    causal = fitted.causal  # type: ignore[attr-defined]
    score = preference_of(causal, DpoSpec(beta=0.5)).validate(data, torch.device("cpu"))
    assert score == pytest.approx(float(by_hand), rel=1e-4)


def test_trainers_and_data_that_do_not_fit_are_refused(base: Path) -> None:
    plain = TrainSpec(lora=LoraSpec(base=str(base)))
    with pytest.raises(InputError, match="pairs of replies"):
        fit_data(plain, pairs())
    texts = TokenData(ids=np.ones((4, SIZE), dtype=np.int64), vocab=VOCAB)
    with pytest.raises(InputError, match="no pairs of replies"):
        fit_data(adapters(base), texts)
