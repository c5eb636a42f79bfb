"""Lint of folders: what is deployed together, what is rendered, what is skipped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpuyard.app.lint import lint_files
from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError

CATALOG = load_catalog()
SAMPLES = Path(__file__).parents[1] / "provision" / "samples"
QUEUE = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {name: NAME}\nspec: {clusterQueue: all}\n"
JOB = (SAMPLES / "jobset-a4.yaml").read_text(encoding="utf-8")


def queued(queue: str) -> str:
    label = f"labels: {{kueue.x-k8s.io/queue-name: {queue}}}"
    return JOB.replace("metadata:\n", f"metadata:\n  {label}\n", 1)


def rules(paths: list[Path]) -> set[str]:
    return {finding.rule for finding in lint_files(paths, CATALOG).findings}


def test_files_of_a_folder_are_deployed_together_and_folders_are_separate(tmp_path: Path) -> None:
    for name, queue in (("one", "gpus"), ("two", "other")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "queue.yaml").write_text(QUEUE.replace("NAME", queue))
    (tmp_path / "one" / "job.yaml").write_text(queued("gpus"))
    assert "kueue-names" not in rules([tmp_path])
    (tmp_path / "two" / "job.yaml").write_text(queued("gpus"))
    assert "kueue-names" in rules([tmp_path])
    named = [tmp_path / "one" / "queue.yaml", tmp_path / "two" / "job.yaml"]
    assert "kueue-names" not in rules(named)


def test_pattern_names_files_in_any_depth(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    shutil.copy(SAMPLES / "jobset-a4.yaml", tmp_path / "a" / "b")
    (document,) = lint_files([tmp_path / "**" / "*.yaml"], CATALOG).documents
    assert document.file.endswith("a/b/jobset-a4.yaml")
    with pytest.raises(InputError, match="no file matches"):
        lint_files([tmp_path / "*.none"], CATALOG)


def test_repository_with_files_of_other_tools_has_no_errors(tmp_path: Path) -> None:
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "ci.yaml").write_text("on: push\njobs: {}\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\n")
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    (tmp_path / "package.json").write_text('{"name": "x", "scripts": {}, "dependencies": {}}')
    shutil.copy(SAMPLES / "train.sbatch", tmp_path)
    result = lint_files([tmp_path], CATALOG)
    assert not result.errors
    assert {row.file for row in result.documents} == {str(tmp_path / "train.sbatch")}
    assert {finding.rule for finding in result.findings} == {"left-out"}


def test_kustomization_is_rendered_by_the_tool_and_chart_needs_helm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_folder, base, chart = tmp_path / "bin", tmp_path / "r" / "base", tmp_path / "r" / "chart"
    for folder in (bin_folder, base, chart / "templates"):
        folder.mkdir(parents=True)
    (base / "kustomization.yaml").write_text("resources: [job.yaml]\n")
    (base / "job.yaml").write_text("not: read by itself\n")
    (chart / "Chart.yaml").write_text("name: c\n")
    (chart / "templates" / "job.yaml").write_text("{{ .Values.job }}\n")
    tool = bin_folder / "kustomize"
    tool.write_text(f"#!/bin/sh\nexec cat {SAMPLES / 'jobset-a4.yaml'}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    monkeypatch.setattr(
        "gpuyard.app.lint.shutil.which",
        lambda name: str(tool) if name == "kustomize" else None,
    )
    result = lint_files([tmp_path / "r"], CATALOG)
    assert [row.file for row in result.documents] == [f"{base} (kustomize build)"]
    (note,) = result.findings
    assert note.where == str(chart)
    assert "helm, which is not installed" in note.what


def test_ignored_findings_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.sbatch"
    path.write_text("#!/bin/bash\n#SBATCH -N 1\nhostname\n")
    assert rules([path]) == {"script-end"}
    path.write_text("#!/bin/bash\n# gpuyard: ignore-file[script-end]\n#SBATCH -N 1\nhostname\n")
    result = lint_files([path], CATALOG)
    assert result.findings == ()
    assert result.ignored_count == 1
