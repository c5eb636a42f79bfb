"""What a deployment may ask for, and what a wrong one is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.app.serve import read_canary, read_mount, settings_from_spec
from gpuyard.document.decode import decode
from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_yaml
from gpuyard.document.schema import json_schema
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.serving.spec import CanarySpec, DeploySpec, ServedModel, ServerSettings, check_settings

GOOD = ServerSettings(
    name="s", mounts=(ServedModel(name="m", reference="m"),), home="h", folder="f"
)
TEXT = """
name: churn
port: 8080
workers: 2
batch: {rows: 32, wait: 2ms}
limits: {body: 1MB, time: 5s}
canary: {model: churn@challenger, share: 10%, guard: {errors: 1%}}
"""


def test_deploy_has_a_schema() -> None:
    schema = json_schema(DeploySpec, Keys.BARE, "deploy")
    assert "canary" in dump_json(schema)


def test_deploy_is_read_from_a_file() -> None:
    spec = decode(read_yaml(TEXT, "w.yaml").root, DeploySpec, Keys.BARE)
    assert (spec.batch.rows, spec.batch.wait_s, spec.limits.body_bytes, spec.limits.time_s) == (
        32,
        0.002,
        1_000_000,
        5.0,
    )
    assert spec.canary is not None
    assert (spec.canary.share_ratio, spec.canary.guard.errors_ratio) == (0.1, 0.01)
    settings = settings_from_spec(spec, Home(path=Path("h")), "churn@champion")
    assert settings.mounts == (ServedModel(name="churn", reference="churn@champion"),)
    assert load_json(dump_json(settings), ServerSettings) == settings


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mounts": ()}, "no model"),
        ({"mounts": GOOD.mounts * 2}, "duplicate name"),
        ({"name": "../up"}, "not usable in a URL path"),
        ({"mounts": (ServedModel(name="a/b", reference="m"),)}, "not usable in a URL path"),
        ({"port": 70000}, "not a port"),
        ({"canaries": (CanarySpec(model="m@a", share_ratio=1.0),)}, "not a share"),
        ({"canaries": (CanarySpec(model="other@a"),)}, "is not served"),
    ],
)
def test_unsupported_spec_raises_input_error(change: dict[str, object], said: str) -> None:
    check_settings(GOOD)
    with pytest.raises(InputError, match=said):
        check_settings(replace(GOOD, **change))  # type: ignore[arg-type]


def test_models_are_named_by_reference_or_folder(tmp_path: Path) -> None:
    assert read_mount("m") == ServedModel(name="m", reference="m")
    assert read_mount("m@champion") == ServedModel(name="m", reference="m@champion")
    assert read_mount("n=m/3") == ServedModel(name="n", reference="m/3")
    assert read_mount(f"n={tmp_path}") == ServedModel(name="n", folder=str(tmp_path))
    assert read_mount(str(tmp_path)).name == tmp_path.name


@pytest.mark.parametrize("text", ["m=10%", "m@a", "m@a=x", "m@a="])
def test_canary_needs_version_and_share(text: str) -> None:
    assert read_canary("m@a=10%") == CanarySpec(model="m@a", share_ratio=0.1)
    with pytest.raises(InputError, match="--canary"):
        read_canary(text)
