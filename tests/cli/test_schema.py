"""`gpuyard schema`: the JSON schema of workload files."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from gpuyard.cli.main import main

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def test_schema_accepts_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    validator = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
    for path in EXAMPLES:
        validator.validate(yaml.safe_load(path.read_text(encoding="utf-8")))
