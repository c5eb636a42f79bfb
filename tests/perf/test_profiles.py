"""Software profiles: well-formed, one for each framework and time, and numbers for the model."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.perf.calibration import PATH, read_calibration
from gpuyard.perf.layout import Software
from gpuyard.perf.profiles import (
    SoftwareProfile,
    choose_profile,
    find_profile,
    lineage,
    read_profiles,
)
from gpuyard.perf.software import software, software_numbers

PROFILES = read_profiles()
EFFECTS = read_calibration().effects


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_profiles_are_well_formed(profile: SoftwareProfile) -> None:
    for pattern in (profile.framework, profile.chip, profile.precision):
        re.compile(pattern)
    assert profile.framework or not profile.fitted_on  # what describes any framework claims no runs
    assert profile.first < profile.until
    assert not profile.words or re.search(
        profile.framework, profile.words
    )  # its recipes are of its framework
    assert len(set(profile.flags)) == len(profile.flags)
    assert profile.scalar is None
    for text in profile.fitted_on:
        assert re.fullmatch(r"[a-z0-9]+ \d+ rows", text), text
    assert (f"profile|{profile.name}" in EFFECTS) == bool(profile.fitted_on)
    assert f"family|{profile.family}" in EFFECTS


def test_names_are_unique() -> None:
    names = [profile.name for profile in PROFILES]
    assert len(set(names)) == len(names)
    assert {key.split("|")[1] for key in EFFECTS if key.startswith(("profile|", "moe|"))} <= set(
        names
    )


def test_profile_runs_are_those_of_its_effect() -> None:
    """`fitted_on` says how many rows; the fit wrote how many it had."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))["effect"]
    said = dict.fromkeys((profile.name for profile in PROFILES), 0)
    for profile in PROFILES:
        rows = sum(int(part.split()[1]) for part in profile.fitted_on)
        for release in lineage(profile):  # later releases inform the effect of an earlier one
            said[release.name] += rows
    fitted = {
        name.split("|")[1]: cell["rows"]
        for name, cell in table.items()
        if name.startswith("profile|")
    }
    assert fitted == {name: count for name, count in said.items() if count}


@pytest.mark.parametrize(
    ("framework", "date", "chip", "precision", "name"),
    [
        ("Megatron-LM", "2021-04", "A100-80GB", "fp16", "megatron-2021"),
        ("Megatron-LM", "2022-05", "A100-80GB", "fp16", "megatron-2022"),
        ("Megatron-LM 0.14 (no comm overlap)", "2025-11", "B200", "bf16", "megatron-lm-no-overlap"),
        ("DeepSpeed ZeRO-3", "2021-04", "A100-80GB", "fp16", "deepspeed-zero3-2021"),
        ("Megatron-DeepSpeed", "2022-02", "A100-80GB", "bf16", "megatron-deepspeed-2022"),
        ("Megatron-DeepSpeed", "2023", "A100", "fp16", "megatron-deepspeed-2023"),
        ("torchtitan FSDP", "2024-12", "H100-96GB", "bf16", "torchtitan-eager"),
        ("torchtitan FSDP+compile", "2024-12", "H100-96GB", "bf16", "torchtitan-compile"),
        (
            "torchtitan FSDP32xTP8+compile (async TP)",
            "2025",
            "H100-96GB",
            "bf16",
            "torchtitan-compile-async-tp",
        ),
        ("NeMo", "2025-04", "H100-80GB", "fp8", "nemo-25"),
        ("NeMo", "2025-05", "GB200", "fp8", "nemo-25.05"),
        ("Megatron-Bridge 26.04.01", "2026-05", "GB300", "mxfp8", "megatron-bridge-26.02"),
        ("Megatron-Bridge 27.02", "2027-02", "GB300", "mxfp8", "megatron-bridge-26.06"),
        ("NVIDIA NeMo 26.04", "2026-04", "B200", "fp8", "nemo-25.05"),
        ("Primus (Megatron-LM)", "2026-05", "MI355X", "mxfp4", "nemo-rocm"),
        ("DeepSpeed ZeRO-3", "2026", "H100-80GB", "bf16", "unknown-fsdp"),
        ("MaxText (JAX)", "2024-01", "TPU v5e", "bf16", "maxtext-tpu-2023"),
        ("MaxText (JAX)", "2025-07", "TPU7x Ironwood", "fp8", "maxtext-tpu-2025"),
        ("MaxText (JAX)", "2024-06", "H100-80GB", "bf16", "maxtext-gpu"),
        ("JAX Pax", "2023-10", "H100-80GB", "bf16 (TE)", "pax-te"),
    ],
)
def test_run_matches_its_profile(
    framework: str, date: str, chip: str, precision: str, name: str
) -> None:
    found = choose_profile(framework, date, chip, precision)
    assert found
    assert found.name == name


def test_run_later_than_the_fit_is_of_a_later_release() -> None:
    newest = find_profile("mlperf-v5.1")
    assert newest.precedes("2026-05..2026-06")
    assert not newest.precedes("2025-10..2025-11")
    assert not find_profile("mlperf-v4").precedes("2026")  # its period has ended


@pytest.mark.parametrize(
    ("framework", "date", "chip"),
    [
        ("Own trainer", "2026", "H100-80GB"),
        ("NeMo", "2019", "A100"),
        ("", "", "TPU v5p"),
        ("Own FSDP", "", "B200"),
    ],
)
def test_unknown_software_takes_no_other_stacks_scalar(
    framework: str, date: str, chip: str
) -> None:
    found = choose_profile(framework, date, chip, "bf16")
    assert found is None or found.fitted_on == ()


def test_run_without_date_counts_as_today() -> None:
    found = choose_profile("Megatron-DeepSpeed", "", "A100", "bf16")
    assert found
    assert found.name == "megatron-deepspeed-2023"


def test_unknown_profile_raises_input_error() -> None:
    with pytest.raises(InputError) as caught:
        find_profile("megatron-bridge-26.03")
    (problem,) = caught.value.problems
    assert 'no software profile named "megatron-bridge-26.03"' in problem.what
    assert "megatron-bridge-26.0" in (problem.fix or "")


def test_user_profile_is_read(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        '[profiles.own]\nfamily = "fsdp"\nframework = "^Own"\nflags = ["flash"]\nfitted_on = []\nscalar = 1.07\n',
        encoding="utf-8",
    )
    found = find_profile(str(path))
    assert (found.name, found.scalar) == ("own", 1.07)
    path.write_text('[profiles.own]\nfamily = "fsdp"\nflags = ["flush"]\n', encoding="utf-8")
    with pytest.raises(InputError, match="flush"):
        find_profile(str(path))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_profile_is_given_as_numbers(profile: SoftwareProfile) -> None:
    found = software(profile, 1.1, nvl72=False)
    assert found.scalar == 1.1
    for field in fields(Software):
        value = getattr(found, field.name)
        assert np.isfinite(value), field.name
        assert value >= 0.0, field.name
    for flag in set(profile.flags) & {field.name for field in fields(Software)}:
        assert getattr(found, flag) == 1.0


def test_graphs_only_in_the_racks_that_have_them() -> None:
    bridge = find_profile("megatron-bridge-26.06")
    assert software(bridge, 1.0, nvl72=False).graphs == 0.0
    assert software(bridge, 1.0, nvl72=True).graphs == 1.0


def test_bytes_of_gradients_follow_the_framework() -> None:
    titan, bridge, deepspeed = (
        find_profile(name) for name in ("torchtitan-compile", "nemo-25", "megatron-deepspeed-2022")
    )
    assert software_numbers(titan, False)["grad_bytes"] == 4.0  # reduced in fp32
    assert software_numbers(titan, False, pure=True)["grad_bytes"] == 2.0
    assert software_numbers(bridge, False)["grad_bytes"] == 2.0
    assert (
        software_numbers(bridge, False, fp32_sum=True)["grad_state_bytes"] == 6.0
    )  # two, and four of the sum
    assert software_numbers(deepspeed, False)["optimizer_bytes"] == 16.0
    assert software_numbers(replace(deepspeed, name="other"), False)["optimizer_bytes"] == 12.0
