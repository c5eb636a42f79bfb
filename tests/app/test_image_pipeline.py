"""Images from a folder per class to an evaluated, selected and served model, in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuyard.app.evaluate import TrainedModel, evaluate_file
from gpuyard.app.select import select_file
from gpuyard.app.stages import read_stages
from gpuyard.datasets.prepare import prepare
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.learn.fit import fit
from gpuyard.learn.select.selection import Selection
from gpuyard.learn.task import TrainTask
from gpuyard.registry.bundle import read_bundle

pytest.importorskip("PIL")
pytest.importorskip("torch")

WORKLOAD = """\
task: pretraining
name: shapes
where: {provider: local}
pipeline:
  data:
    source: images
    label: class
    steps: [{images: {height: 8, width: 8, channels: grey}}]
    split: {test: 25%, validation: 20%, stratify: true, seed: 1}
  train: {torch_cnn: {channels: 4, stages: 2, epochs: 12, batch: 16, learning_rate: 0.01}}
  evaluate: {folds: 0, metrics: [accuracy]}
  select:
    metric: accuracy
    trials: 2
    limits: {size: 5MB}
    candidates: [{torch_cnn: {channels: {of: [4, 1]}, stages: 2, epochs: 12, batch: 16, learning_rate: 0.01}}]
"""


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Horizontal and vertical bars, a folder per class."""
    from PIL import Image

    folder, random = tmp_path_factory.mktemp("bars"), np.random.default_rng(0)
    for number in range(120):
        pixels = random.integers(0, 60, size=(8, 8))
        at = int(random.integers(1, 7))
        pixels[at if number % 2 else slice(None), slice(None) if number % 2 else at] = 250
        place = folder / "images" / ("across" if number % 2 else "down")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number}.png")
    path = folder / "workload.yaml"
    path.write_text(WORKLOAD, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(workload: Path) -> Path:
    spec = read_stages(workload).data
    assert spec is not None
    return prepare(spec, base=workload.parent, out=workload.parent / "data").folder


def test_exported_network_is_evaluated_on_the_test_images(workload: Path, data: Path) -> None:
    stages = read_stages(workload)
    assert stages.train is not None
    out = workload.parent / "task"
    bundle = fit(TrainTask(train=stages.train, data=str(data), out=str(out), name="bars")).bundle
    assert bundle is not None
    described = read_bundle(Path(bundle))
    assert [tensor.shape for tensor in described.inputs] == [(-1, 8, 8, 1)]
    assert described.classes == ("across", "down")
    trained = TrainedModel(bundle=Path(bundle), base=workload.parent)
    home = Home(path=workload.parent / "home")
    card = evaluate_file(workload, home=home, data=data, trained=trained).card
    assert card.score("accuracy").value > 0.9
    assert "hold-out" in card.method


def test_select_chooses_by_the_validation_images(workload: Path, data: Path) -> None:
    home = Home(path=workload.parent / "home")
    home.path.mkdir(exist_ok=True)
    selection = select_file(workload, home=home, data=data, workers=1)
    assert isinstance(selection, Selection)
    assert selection.train.torch_cnn is not None
    assert selection.winner.footprint is not None
    assert selection.winner.footprint.latency_s > 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("validation: 20%, ", "", "there are no validation rows to choose by"),
        ("[{torch_cnn: {channels: {of", "[{trees: {leaves: {of", "cannot learn from images: trees"),
    ],
)
def test_searches_that_images_do_not_allow_are_refused(
    workload: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "workload.yaml"
    text = workload.read_text().replace(old, new)
    path.write_text(
        text.replace("{of: [4, 1]}, stages: 2, epochs: 12, batch: 16, learning_rate: 0.01", "7")
        if "trees: {" in text
        else text,
        encoding="utf-8",
    )
    with pytest.raises(InputError, match=message):
        read_stages(path)
