"""Frameworks are loaded on use, and what is missing is named."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

import pytest

from gpuyard.errors import RefusedError
from gpuyard.learn import Table, TrainSpec, fit_data, trainer_for
from gpuyard.learn.spec import NAMES, Mlp, TorchMlp, Trees
from gpuyard.learn.trainer import ADAPTERS


def test_every_key_has_an_adapter() -> None:
    assert tuple(adapter.name for adapter in ADAPTERS) == NAMES


@pytest.mark.parametrize(
    ("spec", "package", "extra"),
    [(TrainSpec(jax_mlp=Mlp()), "jax", "jax"), (TrainSpec(torch_mlp=TorchMlp()), "torch", "torch"),
     (TrainSpec(trees=Trees()), "lightgbm", "run")],
)  # fmt: skip
def test_a_missing_package_names_its_extra(
    spec: TrainSpec, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("gpuyard.learn.trainers.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # as Python says that there is none
    with pytest.raises(RefusedError, match=f"package {package} is not installed") as caught:
        trainer_for(spec)
    assert f"pip install 'gpuyard[{extra}]'" in str(caught.value)


def test_xla_says_how_to_make_its_environment(binary: Table, need: Callable[[str], None]) -> None:
    need("torch")
    if importlib.util.find_spec("torch_xla") is not None:
        pytest.skip("torch_xla is installed")
    with pytest.raises(RefusedError, match="torch_xla==") as caught:
        fit_data(TrainSpec(torch_mlp=TorchMlp(device="xla")), binary)
    assert "PJRT_DEVICE" in str(caught.value)


def test_cuda_that_is_not_there_is_refused(binary: Table, need: Callable[[str], None]) -> None:
    need("torch")
    import torch

    if torch.cuda.is_available():
        pytest.skip("CUDA is here")
    with pytest.raises(RefusedError, match="CUDA is not available"):
        fit_data(TrainSpec(torch_mlp=TorchMlp(device="cuda")), binary)
