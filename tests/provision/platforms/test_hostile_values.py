"""Hostile names, locations and flags: one word in every script, one value in every document."""

from __future__ import annotations

import ast
import functools
import json
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuyard.app.provision import provision
from gpuyard.blueprint.blueprint import Blueprint, Shape
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import InputError
from gpuyard.provision import platforms as platforms_package
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.platform import Artefacts, Platform
from gpuyard.provision.platforms import PLATFORMS
from gpuyard.provision.setting_checks import check_values
from gpuyard.provision.shell_text import ShellText, shell, url
from gpuyard.workload.sections import Data
from gpuyard.workload.where import ConsumptionName

from .rendering import blueprint_of, catalog

FIELDS = ("project", "zone", "bucket", "image", "namespace", "secret", "service_account")
MARK = "zq"
SAMPLES: tuple[tuple[str, Shape, ConsumptionName | None], ...] = (
    ("a2-highgpu-1g", "single-node", "spot"),
    ("a3-ultragpu-8g", "multi-node", "flex-start"),
    ("g2-standard-4", "service", "on-demand"),
    ("ct6e-standard-8t", "single-node", "spot"),
)
# Each of the first creates a file if it runs, with builtins only.
PARTS = (
    "$(echo >PWNED)", "`echo >PWNED`", ";echo >PWNED;", "' >PWNED '", '" >PWNED "', "&>PWNED",
    "'", '"', "\\", "$HOME", "{x}", "*", " ", "#", ": ", "!", "%s", "é", "~",
)  # fmt: skip
HOSTILE = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map(
    lambda parts: MARK + "".join(parts)
)
# Unknown commands record their arguments; No folder is on the PATH, so all but builtins are.
RECORD = "command_not_found_handle() { printf '%s\\0' \"$@\" >>ARGUMENTS; }\nNODE_RANK=0\n"


@functools.cache
def rendered(
    platform: Platform, sample: int, values: tuple[str, ...], location: str
) -> Artefacts | None:
    """Render without the grammar checks, so that quotes alone protect."""
    blueprint = with_location(blueprint_of(*SAMPLES[sample]), location)
    flags = DeploymentSettings(rendered_s=1e9, **dict(zip(FIELDS, values, strict=True)))  # type: ignore[arg-type]
    resolved = resolve_settings(blueprint, flags)
    # The hash of the blueprint is in names: the same for every location.
    fixed = replace(resolved, name="work-012345", hash="0" * 64, region="us-central1")
    result = platform.render(blueprint, fixed)
    return result if isinstance(result, Artefacts) else None


def with_location(blueprint: Blueprint, location: str) -> Blueprint:
    """Return a blueprint that reads its data from a location."""
    data = replace(blueprint.workload.data or Data(), location=location)
    return replace(blueprint, workload=replace(blueprint.workload, data=data))


def trees(artefacts: Artefacts) -> dict[str, list[Plain]]:
    """Return the JSON and YAML documents by file."""
    return {
        file.name: [json.loads(file.text)]
        if file.name.endswith(".json")
        else list(yaml.safe_load_all(file.text))
        for file in artefacts.files
        if file.name.endswith((".json", ".yaml"))
    }


def leaves(tree: Plain) -> Iterator[str]:
    """Yield every text in a tree."""
    if isinstance(tree, dict):
        for child in tree.values():
            yield from leaves(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from leaves(child)
    elif isinstance(tree, str):
        yield tree


def scripts(artefacts: Artefacts) -> Iterator[str]:
    """Yield every script: files, startup scripts, container commands and README commands."""
    for file in artefacts.files:
        if not file.name.endswith((".json", ".yaml")):
            yield file.text
    for documents in trees(artefacts).values():
        for document in documents:
            for text in leaves(document):
                if "\n" in text and ("set -e" in text or text.startswith("#!")):
                    # The Cluster Toolkit reads `$(` as its own reference unless it is escaped.
                    yield text.replace("\\$(", "$(")
    for step in (*artefacts.steps, *artefacts.user_access):
        yield from (text for text in (step.command, step.undo) if text)


def run_lines(artefacts: Artefacts, folder: Path) -> list[str]:
    """Run every line that holds a marked value; return the arguments of all commands."""
    bodies = [RECORD]
    for script in scripts(artefacts):
        bodies.append(f"(eval {shlex.quote(f'set -n{chr(10)}{script}')}) 2>>SYNTAX")
        for line in script.splitlines():
            if MARK in line and not line.lstrip().startswith("#"):
                name = line.split("()")[0] if "() {" in line else ""
                bodies.append(f"(eval {shlex.quote(line)}\n{name}) </dev/null >/dev/null 2>&1")
    for name in ("ARGUMENTS", "PWNED", "SYNTAX"):
        (folder / name).unlink(missing_ok=True)
    # From a file, because the text is longer than one argument may be.
    (folder / "lines").write_text("\n".join(bodies), encoding="utf-8")
    environment = {"PATH": "/nowhere", "HOME": "/h", "LC_ALL": "C.UTF-8"}
    subprocess.run(["/bin/bash", "lines"], cwd=folder, env=environment, check=False, timeout=300)
    (folder / "lines").unlink()
    assert (folder / "SYNTAX").read_text(encoding="utf-8") == ""
    recorded = folder / "ARGUMENTS"
    return recorded.read_text(encoding="utf-8").split("\0") if recorded.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda item: item.name)
@pytest.mark.parametrize("sample", range(len(SAMPLES)), ids=[row[0] for row in SAMPLES])
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=HOSTILE, folder=HOSTILE)
def test_hostile_values_are_one_word_and_run_nothing(
    platform: Platform, sample: int, value: str, folder: str, tmp_path: Path
) -> None:
    values = tuple(f"{value}{index}" for index in range(len(FIELDS)))
    artefacts = rendered(platform, sample, values, f"gs://{MARK}bucket/{folder}")
    if artefacts is None:
        return
    arguments = run_lines(artefacts, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {"ARGUMENTS", "SYNTAX"}
    for argument in arguments:
        if argument.startswith("--project="):
            assert argument == f"--project={values[0]}"
    plain = tuple(f"{MARK}plain{index}" for index in range(len(FIELDS)))
    base = rendered(platform, sample, plain, f"gs://{MARK}bucket/{MARK}folder")
    assert base is not None
    for name, documents in trees(base).items():
        theirs = [
            text for tree in trees(artefacts)[name] for text in leaves(tree) if "\n" not in text
        ]
        ours = [text for tree in documents for text in leaves(tree) if "\n" not in text]
        for index, word in enumerate(plain):
            ours = [text.replace(word, values[index]) for text in ours]
        assert theirs == [text.replace(f"{MARK}folder", folder) for text in ours], name


def test_location_reaches_the_link_of_a_vertex_ai_job_as_one_word(tmp_path: Path) -> None:
    platform = next(item for item in PLATFORMS if item.name == "vertex-ai")
    values = tuple(f"{MARK}{index}" for index in range(len(FIELDS)))
    artefacts = rendered(platform, 0, values, f"gs://{MARK}$(echo >PWNED)/t")
    assert artefacts is not None
    arguments = run_lines(artefacts, tmp_path)
    assert f"/gcs/{MARK}$(echo >PWNED)/t" in arguments
    assert not (tmp_path / "PWNED").exists()


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
def test_shell_inserts_one_word_unless_the_value_is_shell(value: str) -> None:
    assert shlex.split(shell("cat {value} end", value=value)) == ["cat", value, "end"]
    assert shell("a {part}", part=ShellText("b c")) == "a b c"
    assert "/" not in url("{value}", value=value)


def test_shell_templates_refuse_conversions_and_formats() -> None:
    for template in ("{value!r}", "{value:>3}"):
        with pytest.raises(ValueError, match="shell template"):
            shell(template, value="x")


@pytest.mark.parametrize(
    ("field", "value", "flag"),
    [
        ("project", "p$(touch x)", "--project"),
        ("zone", "us-central1-a;x", "--zone"),
        ("bucket", "B", "--bucket"),
        ("bucket", "-o", "--bucket"),
        ("image", "x y", "--image"),
        ("image", "-it", "--image"),
        ("namespace", "a/b", "--namespace"),
        ("queue", "Q", "--queue"),
        ("reservation", "r\n", "--reservation"),
        ("partition", "p --wrap", "--partition"),
        ("service_account", 'a"b', "--service-account"),
    ],
)
def test_setting_outside_its_grammar_is_input_error_with_its_flag(
    field: str, value: str, flag: str
) -> None:
    blueprint = blueprint_of(*SAMPLES[0])
    with pytest.raises(InputError) as error:
        check_values(blueprint, DeploymentSettings(**{field: value}))  # type: ignore[arg-type]
    assert [problem.where for problem in error.value.problems] == [flag]


@pytest.mark.parametrize(
    "location",
    ["gs://x$(touch y)/t", "gs://bucket/a,b", "gs://bucket/a\nRUN\nb", "gs://bucket/../x", "gs://"],
)
def test_location_that_cannot_be_mounted_is_input_error(location: str) -> None:
    blueprint = with_location(blueprint_of(*SAMPLES[0]), location)
    with pytest.raises(InputError) as error:
        provision(blueprint, "vertex-ai", DeploymentSettings(project="p1"), catalog())
    assert {problem.where for problem in error.value.problems} == {"data.location"}


def test_settings_within_their_grammar_pass() -> None:
    accepted = {
        "project": ("p", "example.com:my-project", "yard-1"),
        "image": ("x", "nvcr.io/nvidia/pytorch:25.06-py3", "r:5000/a/b@sha256:" + "0" * 64),
        "reservation": ("mine", "mine/reservationBlocks/b-1"),
        "service_account": ("a@p.iam.gserviceaccount.com",),
        "network": ("projects/p/global/networks/n",),
    }
    blueprint = with_location(blueprint_of(*SAMPLES[0]), "gs://bucket/a b/$c")
    for field, values in accepted.items():
        for value in values:
            check_values(blueprint, DeploymentSettings(**{field: value}))  # type: ignore[arg-type]


def test_commands_in_platforms_insert_settings_through_shell() -> None:
    """An f-string with a command and a setting would insert it without quotes."""
    folder = Path(str(platforms_package.__file__)).parent
    commands = (
        "gcloud ",
        "gsutil ",
        "gcsfuse ",
        "kubectl ",
        "docker ",
        "curl ",
        "ln -",
        "--project=",
    )
    unquoted = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.JoinedStr):
                continue
            text = "".join(
                str(item.value) for item in node.values if isinstance(item, ast.Constant)
            )
            names = [
                ast.unparse(item.value)
                for item in node.values
                if isinstance(item, ast.FormattedValue)
            ]
            inserts = [name for name in names if name.startswith(("settings.", "mount.bucket"))]
            if inserts and text.lstrip().startswith(commands):
                unquoted.append(f"{path.name}:{node.lineno} {inserts}")
    assert unquoted == []
