"""The files that `gpuyard init` writes: each passes its own check, and its comments name real keys."""

from __future__ import annotations

import re

import pytest

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.catalog.platforms import TaskName
from gpuyard.workload.key_rules import ALL_TASKS, keys_of
from gpuyard.workload.read import parse_workload
from gpuyard.workload.starters import starter
from gpuyard.workload.workload import WorkloadFile

from .rows import CATALOG

SECTIONS = {key.word: key.type.base for key in keys_of(WorkloadFile) if key.type.is_record}
KEY = re.compile(r"  (# )?(?P<key>\w+): (?P<value>[^#]+)")


@pytest.mark.parametrize("catalog", [CATALOG, load_catalog()], ids=["by hand", "ours"])
@pytest.mark.parametrize("task", ALL_TASKS)
def test_starter_passes_checks(task: TaskName, catalog: Catalog) -> None:
    text = starter(task)
    workload = parse_workload(text, f"{task}.yaml", catalog)
    assert (workload.task, workload.name) == (task, task)
    assert "\t" not in text
    assert text.startswith("# ")


def test_finetuning_starter_uses_lora() -> None:
    training = parse_workload(starter("finetuning"), "f.yaml", CATALOG).training
    assert training is not None
    assert training.method == "lora"


@pytest.mark.parametrize("task", ALL_TASKS)
def test_commented_keys_are_used_by_task(task: TaskName) -> None:
    section, seen = "", 0
    for line in starter(task).splitlines():
        if re.fullmatch(r"\w+:", line.partition("#")[0].strip()) and not line.startswith(
            (" ", "#")
        ):
            section = line.partition(":")[0]
        match = KEY.match(line)
        if match and section in SECTIONS:
            keys = {key.word: key for key in keys_of(SECTIONS[section])}
            assert match["key"] in keys, line
            assert task in keys[match["key"]].tasks.used, line
            seen += 1
    assert seen >= 8
