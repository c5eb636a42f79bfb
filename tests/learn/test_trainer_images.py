"""The contract of image trainers: fit, predict, export, resume, transfer, augmentation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import sklearn.datasets

from gpuyard.errors import InputError
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.fit import fit_data
from gpuyard.learn.networks.images import augmented
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import ImageData, StoppedError, TrainingContext, TrainingInputs
from gpuyard.learn.trainer_list import trainer_for
from gpuyard.learn.trainers.torch_images.image_settings import TorchCnnSpec, TorchVitSpec

CNN = TorchCnnSpec(channels=6, stages=2, blocks=2, epochs=4, batch=16, learning_rate=5e-3)
VIT = TorchVitSpec(
    patch=2, hidden=16, layers=1, heads=2, epochs=8, batch=16, learning_rate=5e-3, clip=1.0
)
SPECS = {"torch_cnn": TrainSpec(torch_cnn=CNN), "torch_vit": TrainSpec(torch_vit=VIT)}


class Stack:
    """Images in memory."""

    def __init__(self, pixels: npt.NDArray[np.float32]) -> None:
        self.pixels = pixels

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pixels.shape[1:]

    def __len__(self) -> int:
        return len(self.pixels)

    def of(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        return self.pixels[rows]


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest, need: Callable[[str], None]) -> TrainSpec:
    need("torch")
    return SPECS[request.param]


def digits(channels_first: bool = False, classes: int = 3, rows: int = 240) -> ImageData:
    """Handwritten digits of 8 × 8 pixels."""
    bunch = sklearn.datasets.load_digits(n_class=classes)
    pixels = (bunch.images[:rows] / 16).astype(np.float32)
    return ImageData(
        images=Stack(pixels[:, None] if channels_first else pixels[..., None]),
        y=bunch.target[:rows].astype(np.int64),
        classes=tuple(str(number) for number in range(classes)),
        channels_first=channels_first,
    )


@pytest.mark.parametrize("channels_first", [False, True])
def test_network_learns_and_its_export_predicts_the_same(
    spec: TrainSpec, channels_first: bool, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    data = digits(channels_first)
    fitted = fit_data(spec, data)
    pixels = data.of(np.arange(len(data)))
    probabilities = fitted.predict(pixels)
    assert (probabilities.argmax(axis=1) == data.y).mean() > 0.9
    exported = fitted.export(tmp_path)
    assert exported is not None
    assert exported.inputs[0].shape == (-1, *data.shape)
    session = onnxruntime.InferenceSession(
        str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    scores, labels = session.run(["probabilities", "label"], {"pixels": pixels})
    np.testing.assert_allclose(scores, probabilities, atol=1e-5)
    assert np.array_equal(labels, scores.argmax(axis=1))
    assert fitted.summary.model_flop_per_step > 0


def test_odd_sizes_are_exported_with_the_same_shapes(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("torch")
    pixels = np.random.default_rng(0).random((4, 11, 7, 3), dtype=np.float32)
    data = ImageData(
        images=Stack(pixels), y=np.arange(4) % 2, classes=("a", "b"), channels_first=False
    )
    settings = TorchCnnSpec(channels=2, stages=3, blocks=2, steps=1, batch=4)
    fitted = fit_data(TrainSpec(torch_cnn=settings), data)
    fitted.export(tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    (scores,) = session.run(["probabilities"], {"pixels": pixels})
    np.testing.assert_allclose(scores, fitted.predict(pixels), atol=1e-5)


def test_stopped_training_resumes_to_the_same_model(spec: TrainSpec, tmp_path: Path) -> None:
    name = "torch_cnn" if spec.torch_cnn is not None else "torch_vit"
    settings = dataclasses.replace(getattr(spec, name), augment=("flip", "shift"), epochs=2)
    spec = dataclasses.replace(spec, checkpoint_every=3, **{name: settings})
    data = digits(rows=80)
    rows = data.of(np.arange(len(data)))
    uninterrupted = fit_data(spec, data).predict(rows)
    run = TrainingContext(checkpoints=Checkpoints(folder=tmp_path))
    stops = iter([False] * 6 + [True])
    with pytest.raises(StoppedError):
        trainer_for(spec).fit(
            TrainingInputs(train=data), dataclasses.replace(run, stop=lambda: next(stops, False))
        )
    resumed = trainer_for(spec).fit(TrainingInputs(train=data), run)
    assert resumed.summary.resumed_step is not None
    assert np.array_equal(resumed.predict(rows), uninterrupted)


def test_transfer_keeps_the_base_and_trains_other_classes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    fit_data(SPECS["torch_cnn"], digits(classes=5)).export(tmp_path)
    data = digits(classes=2, rows=60)
    transfer = dataclasses.replace(CNN, base=str(tmp_path), freeze=True, epochs=6)
    fitted = fit_data(TrainSpec(torch_cnn=transfer), data)
    assert (fitted.predict(data.of(np.arange(60))).argmax(axis=1) == data.y).mean() > 0.9
    onnx = pytest.importorskip("onnx")
    (tmp_path / "tuned").mkdir()
    fitted.export(tmp_path / "tuned")

    def weights(folder: Path) -> dict[str, np.ndarray]:
        graph = onnx.load(str(folder / "model.onnx")).graph
        return {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer}

    base, tuned = weights(tmp_path), weights(tmp_path / "tuned")
    assert np.array_equal(base["blocks.0.conv1.weight"], tuned["blocks.0.conv1.weight"])
    assert (base["head.weight"].shape[0], tuned["head.weight"].shape[0]) == (5, 2)


def test_validation_images_stop_training(need: Callable[[str], None]) -> None:
    need("torch")
    settings = dataclasses.replace(CNN, epochs=40, early_stopping=1, learning_rate=0.03)
    spec = TrainSpec(torch_cnn=settings, validation_ratio=0.25)
    fitted = fit_data(spec, digits(rows=120))
    assert fitted.summary.validation_loss is not None
    assert fitted.summary.steps < 40 * (90 // 16)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"torch_cnn": TorchCnnSpec(stages=5)}, "5 stages halve 8 pixels"),
        ({"torch_cnn": TorchCnnSpec(freeze=True)}, "freezes random weights"),
        ({"torch_cnn": TorchCnnSpec(base="/nowhere")}, "there is no /nowhere"),
        ({"torch_vit": TorchVitSpec(patch=3)}, "not whole patches of 3"),
        ({"torch_vit": TorchVitSpec(heads=3)}, "not a multiple of 3 heads"),
    ],
)
def test_settings_that_do_not_fit_the_images_raise_input_error(
    settings: dict[str, TorchCnnSpec], message: str, need: Callable[[str], None]
) -> None:
    need("torch")
    with pytest.raises(InputError, match=message):
        fit_data(TrainSpec(**settings), digits())  # type: ignore[arg-type]


@pytest.mark.parametrize("channels_first", [False, True])
def test_augmentation_moves_pixels_and_depends_on_seed_and_rows_only(
    channels_first: bool,
) -> None:
    images = digits(channels_first).of(np.arange(32).reshape(2, 16))
    rows = np.arange(32)
    flipped = augmented(images, ("flip",), (0, rows), channels_first)
    axis = 4 if channels_first else 3
    mirrored = np.flip(images, axis=axis)
    same = (flipped == images).all(axis=(2, 3, 4))
    assert ((flipped == mirrored).all(axis=(2, 3, 4)) | same).all()
    assert 0 < same.sum() < 32
    shifted = augmented(images, ("flip", "shift"), (0, rows), channels_first)
    assert np.array_equal(shifted, augmented(images, ("flip", "shift"), (0, rows), channels_first))
    assert not np.array_equal(
        shifted, augmented(images, ("flip", "shift"), (1, rows), channels_first)
    )
