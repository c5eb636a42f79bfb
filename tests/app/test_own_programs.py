"""The user's own program through the whole pipeline: images, tables with folds, and hold-out."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets

from gpuyard.app.run import run_pipeline
from gpuyard.app.stage_worker import EvaluateResult, load_result, open_run
from gpuyard.app.stages import read_stages
from gpuyard.app.workspace import open_workspace
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.registry.bundle import TRANSFORM
from gpuyard.registry.registry import Registry
from gpuyard.serving.endpoints import Endpoint

from .pipelines import stop_services

# A logistic regression by scikit-learn as Flatten, Gemm and Softmax.
EXPORT = """
import json, os, sys
from pathlib import Path
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.linear_model import LogisticRegression
from gpuyard.datasets.images import read_images
from gpuyard.datasets.prepared import load_prepared

prepared = load_prepared(Path(os.environ["DATA_DIR"]))
with open(os.environ["LOG"], "a") as log:
    log.write(" ".join(split.name for split in prepared.manifest.splits) + "\\n")
if prepared.manifest.kind == "images":
    shards = read_images(prepared.paths("train"))
    x, y = np.concatenate(list(shards.batches(64))), shards.labels()
else:
    arrays = prepared.arrays("train")
    x, y = arrays.x, arrays.y
model = LogisticRegression(max_iter=200).fit(x.reshape(len(x), -1), y)
graph = helper.make_graph(
    [
        helper.make_node("Flatten", ["pixels"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["scores"], axis=1),
    ],
    "g",
    [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", *x.shape[1:]])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", len(model.classes_)])],
    [
        numpy_helper.from_array(model.coef_.T.astype(np.float32), "w"),
        numpy_helper.from_array(model.intercept_.astype(np.float32), "b"),
    ],
)
opsets = [helper.make_opsetid("", 17)]
onnx.save(
    helper.make_model(graph, opset_imports=opsets, ir_version=8),
    os.path.join(os.environ["GPUYARD_BUNDLE"], "model.onnx"),
)
print(json.dumps({"step": 1, "loss": 0.5}))
"""
WORKLOAD = """\
task: pretraining
name: own
where: {{provider: local}}
pipeline:
  data:
    source: {source}
    label: {label}
    steps: [{steps}]
    split: {{test: 30%, seed: 1}}
  train: {{command: {{run: [{python}, train.py], env: {{LOG: {log}}}}}}}
  evaluate: {{folds: {folds}, metrics: [accuracy]}}
  run: {{retries: 0}}
{deploy}
"""
IMAGES = "images: {height: 8, width: 8, channels: grey, order: first}"


def workload(folder: Path, **fields: object) -> Path:
    """Write the program and a workload that runs it."""
    (folder / "train.py").write_text(EXPORT, encoding="utf-8")
    text = WORKLOAD.format(
        **{"python": sys.executable, "log": folder / "log.txt", "deploy": "", **fields}
    )
    path = folder / "workload.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def digits(folder: Path) -> None:
    """300 handwritten digits of 8 × 8 pixels, a folder per class."""
    from PIL import Image

    bunch = sklearn.datasets.load_digits(n_class=3)
    for number, (pixels, target) in enumerate(zip(bunch.images, bunch.target, strict=True)):
        if number < 300:
            place = folder / f"class-{target}"
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray((pixels * 15).astype(np.uint8)).save(place / f"{number}.png")


@pytest.mark.slow
def test_images_are_trained_evaluated_registered_and_served(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    digits(tmp_path / "digits")
    path = workload(
        tmp_path,
        source="digits",
        label="class",
        steps="{" + IMAGES + "}",
        folds=0,
        deploy="  deploy: {name: own, port: 0}",
    )
    home = Home.for_workload(path)
    try:
        run = run_pipeline(open_workspace(path))
        assert run.state == "done", [stage.error for stage in run.stages]
        folder = open_run(Path(run.folder))
        card = load_result(folder, "evaluate", EvaluateResult).card
        assert (card.rows, card.classes) == (90, ("class-0", "class-1", "class-2"))
        assert card.score("accuracy").value > 0.9
        assert not (folder.stage("train") / "bundle" / TRANSFORM).exists()
        assert len((tmp_path / "log.txt").read_text().splitlines()) == 1  # trained once
        version = Registry(home=home).get("own@champion")
        assert [tensor.shape for tensor in version.bundle.inputs] == [(-1, 1, 8, 8)]
        url = f"{load_result(folder, 'deploy', Endpoint).url}/v2/models/own"
        with urllib.request.urlopen(url, timeout=120) as response:
            described = json.load(response)["inputs"]
        assert described == [{"name": "pixels", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]
        data = np.zeros((2, 1, 8, 8)).tolist()
        tensor = {"name": "pixels", "shape": [2, 1, 8, 8], "datatype": "FP32", "data": data}
        body = json.dumps({"inputs": [tensor]}).encode()
        with urllib.request.urlopen(f"{url}/infer", body, timeout=120) as response:
            (answer,) = json.load(response)["outputs"]
        assert (answer["name"], answer["shape"]) == ("scores", [2, 3])
    finally:
        stop_services(home)


@pytest.mark.slow
@pytest.mark.parametrize("folds", [0, 3])
def test_tables_are_evaluated_with_and_without_folds(tmp_path: Path, folds: int) -> None:
    path = workload(
        tmp_path, source="'sklearn:wine'", label="target", steps="{zscore: {}}", folds=folds
    )
    run = run_pipeline(open_workspace(path))
    assert run.state == "done", [stage.error for stage in run.stages]
    result = load_result(open_run(Path(run.folder)), "evaluate", EvaluateResult)
    assert result.card.score("accuracy").value > 0.9
    # Once for the model, and once per fold, which sees no other rows than its training rows.
    seen = (tmp_path / "log.txt").read_text().splitlines()
    assert seen == ["train test", *["train"] * folds]
    assert (result.test is None) == (folds == 0)


@pytest.mark.parametrize(
    ("sections", "where"),
    [
        ({"train": "{trees: {}}"}, "pipeline.train"),
        ({"select": "{metric: accuracy, candidates: [{trees: {}}]}"}, "pipeline.select"),
        ({"train": "{command: {run: [a]}}", "evaluate": "{folds: 0}"}, "pipeline.evaluate"),
        ({"train": "{command: {run: [a]}}", "evaluate": "{slices: [a]}"}, "pipeline.evaluate"),
    ],
)
def test_unsupported_image_settings_are_refused_before_the_run(
    tmp_path: Path, sections: dict[str, str], where: str
) -> None:
    lines = [f"  {name}: {text}" for name, text in sections.items()]
    data = f"  data: {{source: digits, label: class, steps: [{{{IMAGES}}}]}}"
    head = "task: pretraining\nname: own\nwhere: {provider: local}\npipeline:\n"
    path = tmp_path / "workload.yaml"
    path.write_text(head + "\n".join([data, *lines]) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_stages(path)
    assert where in caught.value.problems[0].where
