"""Catalog layers: rows replaced and added, and broken references."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.catalog.references import broken_references
from gpuyard.errors import InputError

BUILTIN = load_catalog()
SOURCE = """
[sources.own]
title = "our data sheets"
url = "https://intranet.example/hardware"
date = 2026-08-01
"""
NEW_TOML = (
    SOURCE
    + """
[chips.x1]
label = "X1"
vendor = "Acme"
architecture = "X"
kind = "gpu"
memory_bytes = "64GB"
memory_bytes_per_s = "2TB/s"
memory_type = "HBM3"
frameworks = ["cuda"]
source = ["own"]
[chips.x1.dense]
bf16_flop_per_s = "500TFLOPS"

[machines.x1-box]
series = "X1"
provider = "onprem"
memory_bytes = "1TiB"
chip = "x1"
chip_count = 8
source = ["own"]
[machines.x1-box.network]
technology = "roce"
fabric_bits_per_s = "3.2Tbps"

[prices."onprem/hall-2/x1-box"]
provider = "onprem"
region = "hall-2"
machine = "x1-box"
date = 2026-08-01
on_demand_usd_per_hour = 12.5
source = ["own"]
"""
)
NEW_YAML = """
sources:
  own: {title: our data sheets, url: "https://intranet.example/hardware", date: 2026-08-01}
chips:
  x1:
    label: X1
    vendor: Acme
    architecture: X
    kind: gpu
    memory_bytes: 64GB
    memory_bytes_per_s: 2TB/s
    memory_type: HBM3
    frameworks: [cuda]
    source: [own]
    dense: {bf16_flop_per_s: 500TFLOPS}
machines:
  x1-box:
    series: X1
    provider: onprem
    memory_bytes: 1TiB
    chip: x1
    chip_count: 8
    source: [own]
    network: {technology: roce, fabric_bits_per_s: 3.2Tbps}
prices:
  onprem/hall-2/x1-box:
    provider: onprem
    region: hall-2
    machine: x1-box
    date: 2026-08-01
    on_demand_usd_per_hour: 12.5
    source: [own]
"""
SWITCH = """
[switches.s1]
label = "S1"
vendor = "Acme"
port_count = 64
port_bits_per_s = "800Gbps"
os = ["sonic"]
roles = ["leaf"]
source = ["own"]
asic = "{asic}"
"""
PRICE = """
[prices."{provider}/here/{machine}"]
provider = "{provider}"
region = "here"
machine = "{machine}"
date = 2026-08-01
on_demand_usd_per_hour = 1.0
source = ["own"]
"""
MACHINE = """
[machines.box]
series = "box"
provider = "onprem"
memory_bytes = "1TB"
chip = "{chip}"
source = ["own"]
[machines.box.network]
technology = "ethernet"
"""
MODEL = """
[models.m1]
label = "M1"
kind = "decoder"
parameters_count = 1e9
source = {source}
aliases = {aliases}
"""


def layer(folder: Path, text: str, name: str = "mine.toml") -> Path:
    """The text as a catalog file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("text", "name"), [(NEW_TOML, "mine.toml"), (NEW_YAML, "mine.yaml")])
def test_layer_adds_chip_machine_and_price(text: str, name: str, tmp_path: Path) -> None:
    catalog = load_catalog([layer(tmp_path, text, name)])
    machine = catalog.machine("x1-box")
    chip = catalog.chip(machine.chip or "")
    assert chip.dense.bf16_flop_per_s == 500e12
    assert chip.memory_bytes == 64e9
    assert machine.memory_bytes == 2.0**40
    price = next(price for price in catalog.prices if price.machine == "x1-box")
    assert price.on_demand_usd_per_hour == 12.5
    assert catalog.source("own").title == "our data sheets"
    assert len(catalog.chips) == len(BUILTIN.chips) + 1


def test_toml_and_yaml_layers_are_equivalent(tmp_path: Path) -> None:
    toml = load_catalog([layer(tmp_path, NEW_TOML, "a.toml")])
    yaml = load_catalog([layer(tmp_path, NEW_YAML, "b.yaml")])
    assert toml == yaml


def test_layer_replaces_entire_row(tmp_path: Path) -> None:
    text = SOURCE + PRICE.format(provider="google", machine="a3-highgpu-8g").replace(
        "/here/", "/us-central1/"
    )
    catalog = load_catalog([layer(tmp_path, text.replace('"here"', '"us-central1"'))])
    rows = [price for price in catalog.prices if price.name == "google/us-central1/a3-highgpu-8g"]
    assert [price.on_demand_usd_per_hour for price in rows] == [1.0]
    assert rows[0].spot_usd_per_hour is None
    assert len(catalog.prices) == len(BUILTIN.prices)
    assert catalog.machines == BUILTIN.machines


def test_later_layer_wins(tmp_path: Path) -> None:
    cheap = layer(tmp_path, NEW_TOML, "1.toml")
    dear = layer(tmp_path, NEW_TOML.replace("= 12.5", "= 99.0"), "2.toml")
    for layers, expected in (([cheap, dear], 99.0), ([dear, cheap], 12.5), ([tmp_path], 99.0)):
        prices = {price.name: price for price in load_catalog(layers).prices}
        assert prices["onprem/hall-2/x1-box"].on_demand_usd_per_hour == expected


def test_unrelated_layer_changes_nothing(tmp_path: Path) -> None:
    assert load_catalog([layer(tmp_path, SOURCE)]).models == BUILTIN.models


def problems(folder: Path, text: str, name: str = "mine.toml") -> list[tuple[str, str, str]]:
    with pytest.raises(InputError) as caught:
        load_catalog([layer(folder, text, name)])
    return [(problem.where, problem.what, problem.fix) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "where", "what", "fix"),
    [
        (
            MODEL.format(source='["ovn"]', aliases="[]") + SOURCE,
            "models.m1.source",
            'no source named "ovn"',
            'use "own", or add [sources.ovn] with title, url and date',
        ),
        (
            MODEL.format(source='["zzzzzz"]', aliases="[]"),
            "models.m1.source",
            'no source named "zzzzzz"',
            "add [sources.zzzzzz] with title, url and date",
        ),
        (
            MODEL.format(source="[]", aliases="[]"),
            "models.m1.source",
            "the source is missing",
            'write source = ["own"]',
        ),
        (
            SOURCE + MACHINE.format(chip="h100-sxn"),
            "machines.box.chip",
            'no chip named "h100-sxn"',
            'use "h100-sxm", or add [chips.h100-sxn]',
        ),
        (
            SOURCE + SWITCH.format(asic="tomahawk-55"),
            "switches.s1.asic",
            'no asic named "tomahawk-55"',
            'use "tomahawk-5", or add [asics.tomahawk-55]',
        ),
        (
            SOURCE + PRICE.format(provider="google", machine="a3-megagpu-9g"),
            "prices.google/here/a3-megagpu-9g.machine",
            'no machine named "a3-megagpu-9g"',
            'use "a3-megagpu-8g"',
        ),
        (
            SOURCE + PRICE.format(provider="onprem", machine="zzzzzz"),
            "prices.onprem/here/zzzzzz.machine",
            'no machine named "zzzzzz"',
            "add [machines.zzzzzz]",
        ),
        (
            SOURCE + PRICE.format(provider="aws", machine="p9.large") + 'chip = "h100"',
            "prices.aws/here/p9.large.chip",
            'no chip named "h100"',
            "add [chips.h100]",
        ),
        (
            SOURCE + MODEL.format(source='["own"]', aliases='["LLAMA-3-70B"]'),
            "models.m1.aliases",
            '"llama-3-70b" is also a name of "llama-3-70b"',
            "keep one of them",
        ),
    ],
)
def test_broken_reference_raises_input_error(
    text: str, where: str, what: str, fix: str, tmp_path: Path
) -> None:
    [problem] = problems(tmp_path, text)
    assert problem[0].endswith(where)
    assert "mine.toml" in problem[0]
    assert problem[1] == what
    assert fix in problem[2]


def test_broken_reference_has_line_in_yaml(tmp_path: Path) -> None:
    text = NEW_YAML.replace("    chip: x1\n", "    chip: x1b\n")
    [(where, what, fix)] = problems(tmp_path, text, "mine.yaml")
    line = text.splitlines().index("    chip: x1b") + 1
    assert where.endswith(f"mine.yaml:{line}: machines.x1-box.chip")
    assert what == 'no chip named "x1b"'
    assert 'use "x1"' in fix


def test_all_broken_references_are_reported(tmp_path: Path) -> None:
    text = MACHINE.format(chip="nothing") + SWITCH.format(asic="nothing")
    assert len(problems(tmp_path, text)) == 4  # two sources, a chip and an asic


def test_price_of_other_provider_needs_no_machine(tmp_path: Path) -> None:
    catalog = load_catalog(
        [layer(tmp_path, SOURCE + PRICE.format(provider="aws", machine="p9.large"))]
    )
    assert "aws/here/p9.large" in {price.name for price in catalog.prices}


def test_host_and_accelerator_prices_need_no_machine(tmp_path: Path) -> None:
    host = PRICE.format(provider="google", machine="n1-standard-2") + 'covers = "host"\n'
    chip = PRICE.format(provider="google", machine="tpu-v4") + 'covers = "accelerators"\n'
    assert load_catalog([layer(tmp_path, SOURCE + host + chip)])
    assert problems(tmp_path, SOURCE + chip.replace("accelerators", "machine"))


def test_wrong_layer_raises_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no catalog file in this folder"):
        load_catalog([tmp_path])
    with pytest.raises(InputError, match="no such file"):
        load_catalog([tmp_path / "nothing.toml"])
    with pytest.raises(InputError, match='unknown key "machnes"'):
        load_catalog([layer(tmp_path, "[machnes.a]\nseries = 'x'")])


def test_builtin_catalog_has_no_broken_references() -> None:
    assert broken_references(BUILTIN) == ()
    assert broken_references(Catalog()) == ()


def test_builtin_sources_are_used() -> None:
    tables = tuple(field.name for field in fields(Catalog) if field.name != "sources")
    used = {name for table in tables for row in getattr(BUILTIN, table) for name in row.source}
    prefixes = ("sky-", "cyclenerd-", "hf-", "fabric-", "paper-")
    mine = {source.name for source in BUILTIN.sources if source.name.startswith(prefixes)}
    assert mine
    assert mine <= used
    assert all(
        source.url.startswith("https://") for source in BUILTIN.sources if source.name in mine
    )


def test_builtin_catalog_is_read_once() -> None:
    assert load_catalog() is load_catalog()


def test_broken_reference_is_finding_with_rule() -> None:
    machine = replace(BUILTIN.machines[0], chip="nothing")
    [finding] = broken_references(replace(BUILTIN, machines=(machine,), prices=()))
    assert (finding.rule, finding.where) == ("unknown-chip", f"machines.{machine.name}.chip")
