"""The list of trainers: frameworks are imported on use, and missing packages are reported."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

import pytest

from gpuyard.errors import ExternalError
from gpuyard.learn.fit import fit_data
from gpuyard.learn.spec import TRAINER_NAMES, TrainSpec
from gpuyard.learn.trainer import TabularData
from gpuyard.learn.trainer_list import TRAINERS, trainer_for
from gpuyard.learn.trainers.network_settings import MlpSpec
from gpuyard.learn.trainers.torch_nets.torch_settings import TorchMlpSpec
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec


def test_every_key_of_the_train_section_has_a_trainer() -> None:
    assert tuple(entry.name for entry in TRAINERS) == TRAINER_NAMES


@pytest.mark.parametrize(
    ("spec", "package", "extra"),
    [
        (TrainSpec(jax_mlp=MlpSpec()), "jax", "jax"),
        (TrainSpec(torch_mlp=TorchMlpSpec()), "torch", "torch"),
        (TrainSpec(trees=TreesSpec()), "lightgbm", "run"),
    ],
)
def test_missing_package_raises_external_error_with_its_extra(
    spec: TrainSpec, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("gpuyard.learn.trainers.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # makes the import fail
    with pytest.raises(ExternalError, match=f"package {package} is not installed") as caught:
        trainer_for(spec)
    assert f"pip install 'gpuyard[{extra}]'" in str(caught.value)


def test_missing_torch_xla_raises_external_error_with_commands(
    binary: TabularData, need: Callable[[str], None]
) -> None:
    need("torch")
    if importlib.util.find_spec("torch_xla") is not None:
        pytest.skip("torch_xla is installed")
    with pytest.raises(ExternalError, match="torch_xla==") as caught:
        fit_data(TrainSpec(torch_mlp=TorchMlpSpec(device="xla")), binary)
    assert "PJRT_DEVICE" in str(caught.value)


def test_missing_cuda_raises_external_error(
    binary: TabularData, need: Callable[[str], None]
) -> None:
    need("torch")
    import torch

    if torch.cuda.is_available():
        pytest.skip("CUDA is available")
    with pytest.raises(ExternalError, match="CUDA is not available"):
        fit_data(TrainSpec(torch_mlp=TorchMlpSpec(device="cuda")), binary)
