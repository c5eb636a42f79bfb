"""Input drift and shadows: counted over all workers, without any effect on the answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gpuyard.app.serve import monitoring_of_endpoint, read_shadow
from gpuyard.cli.main import main
from gpuyard.document.encode import dump_json
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.registry.bundle import ModelBundle, read_bundle, write_bundle
from gpuyard.registry.feature_profile import PROFILE, profile_of
from gpuyard.serving.drift import WINDOW_ROWS, DriftWindow, drift_of, sum_drift
from gpuyard.serving.monitoring import Monitoring
from gpuyard.serving.spec import ServedModel, ServerSettings, ShadowSpec, check_settings

from .cases import ask, bundle, register, rows, serving, until

NAMES = ("a", "b", "c", "d")


def profiled(folder: Path, **options: object) -> Path:
    """A bundle with the profile of its training features: standard normal."""
    bundle(folder, **options)  # type: ignore[arg-type]
    x = np.random.default_rng(1).normal(size=(4000, 4)).astype(np.float32)
    (folder / PROFILE).write_text(dump_json(profile_of(NAMES, x)), encoding="utf-8")
    described: ModelBundle = read_bundle(folder, verify=False)
    write_bundle(folder, described)
    return folder


def request(seed: int, shift: float, count: int = 600) -> dict[str, object]:
    x = np.random.default_rng(seed).normal(size=(count, 4))
    x[:, 2] += shift
    return rows(*x.tolist())


def test_window_forgets_old_rows_and_sums_workers() -> None:
    x = np.random.default_rng(2).normal(size=(WINDOW_ROWS, 4)).astype(np.float32)
    profile = profile_of(NAMES, x)
    assert profile is not None
    one, other = DriftWindow(profile), DriftWindow(profile)
    one.add(x[:100] + 5)
    for _ in range(4):
        one.add(x)
    other.add(x[:700])
    counts = sum_drift([one.counts("m", "1"), other.counts("m", "1")])[("m", "1")]
    assert WINDOW_ROWS <= counts.rows <= 2 * WINDOW_ROWS + 20_000
    assert all(sum(row) == counts.rows for row in counts.counts)
    report = drift_of(profile, counts)
    assert {row.verdict for row in report.features} == {"stable"}


def test_drift_is_reported_per_feature_over_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(path=tmp_path / "home")
    register(home, "m", profiled(tmp_path / "bundle"))
    register(home, "old", bundle(tmp_path / "old"))
    mounts = tuple(ServedModel(name=name, reference=name) for name in ("m", "old"))
    with serving(home, mounts, workers=2) as endpoint:
        url = f"{endpoint.url}/v2/models/m/infer"
        for seed in range(4):
            assert ask(url, request(seed, 2.0))[0] == 200
        assert ask(url, {"inputs": []})[0] == 400

        def report() -> Monitoring:
            return monitoring_of_endpoint(home, "s")

        until(lambda: sum(item.rows for item in report().drift) == 2400)
        (drift,) = report().drift
        assert drift.features[0].feature == "c"
        assert drift.features[0].verdict == "moved"
        assert {row.verdict for row in drift.features[1:]} == {"stable"}
        assert report().without_profile == ("old/1",)
        _, metrics = ask(f"{endpoint.url}/metrics")
        assert 'gpuyard_drift_psi{model="m",version="1",feature="c"}' in str(metrics)
        assert main(["serve", "--report", "s", "--home", str(home.path)]) == 0
        text = capsys.readouterr().out
        assert "2,400 recent rows" in text
        assert "old/1: no drift" in text
        assert main(["serve", "--report", "s", "--home", str(home.path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["drift"][0]["rows"] == 2400
    with pytest.raises(InputError, match="is stopped"):
        monitoring_of_endpoint(home, "s")


def test_shadow_is_compared_and_never_answers(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    register(home, "m", bundle(tmp_path / "one"))
    register(home, "m", bundle(tmp_path / "two", bias=50.0), alias="challenger")
    mounts = (ServedModel(name="m", reference="m@champion"),)
    shadow = ShadowSpec(model="m@challenger")
    with serving(home, mounts, shadows=(shadow,)) as endpoint:
        url = f"{endpoint.url}/v2/models/m/infer"
        labels = []
        for seed in range(20):
            status, answer = ask(url, request(seed, 0.0, 5))
            assert status == 200
            assert answer["model_version"] == "1"  # type: ignore[index]
            labels += answer["outputs"][1]["data"]  # type: ignore[index]
        until(lambda: monitoring_of_endpoint(home, "s").shadows[0].rows == 100)
        (counts,) = monitoring_of_endpoint(home, "s").shadows
        assert (counts.version, counts.active, counts.failures) == ("2", "1", 0)
        assert counts.rows_different == sum(label != 0 for label in labels)  # the shadow says 0
        assert counts.difference_max > 0
        _, metrics = ask(f"{endpoint.url}/metrics")
        assert 'gpuyard_shadow_rows_total{model="m",version="2"} 100' in str(metrics)
        assert 'gpuyard_requests_total{model="m",version="2"' not in str(metrics)


def test_failing_shadow_has_no_effect(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    register(home, "m", bundle(tmp_path / "one"))
    register(home, "m", bundle(tmp_path / "two", broken=True), alias="challenger")
    mounts = (ServedModel(name="m", reference="m@champion"),)
    shadow = ShadowSpec(model="m@challenger", share_ratio=0.5)
    with serving(home, mounts, shadows=(shadow,)) as endpoint:
        for seed in range(10):
            assert ask(f"{endpoint.url}/v2/models/m/infer", request(seed, 0.0, 1))[0] == 200
        until(lambda: monitoring_of_endpoint(home, "s").shadows[0].failures == 5)
        assert monitoring_of_endpoint(home, "s").shadows[0].requests == 5


def test_wrong_shadows_are_refused() -> None:
    assert read_shadow("m@challenger=10%") == ShadowSpec(model="m@challenger", share_ratio=0.1)
    assert read_shadow("m/3").share_ratio == 1.0
    with pytest.raises(InputError, match="--shadow"):
        read_shadow("m")
    settings = ServerSettings(
        name="s",
        mounts=(ServedModel(name="m"),),
        home="",
        folder="",
        shadows=(ShadowSpec(model="other@challenger", share_ratio=0.0),),
    )
    with pytest.raises(InputError) as caught:
        check_settings(settings)
    assert len(caught.value.problems) == 2
