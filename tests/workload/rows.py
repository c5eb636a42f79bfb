"""A small catalog, so that these tests do not depend on the data files."""

from __future__ import annotations

import datetime

from gpuyard.catalog.chips import Chip, Rates
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Consumption, Machine, MachineNetwork, PlatformSupport
from gpuyard.catalog.models import Model, Transformer
from gpuyard.catalog.platforms import PlatformInfo
from gpuyard.catalog.prices import Price
from gpuyard.catalog.regions import Region
from gpuyard.catalog.switches import Asic, Switch

SOURCE = ("test",)
GPU = ("cuda", "pytorch", "jax-xla")
TPU = ("xla", "jax-xla", "pytorch-xla")


def chip(name: str, kind: str, frameworks: tuple[str, ...], *aliases: str) -> Chip:
    return Chip(
        name=name,
        label=name.upper(),
        vendor="vendor",
        architecture="any",
        kind=kind,  # type: ignore[arg-type]
        dense=Rates(bf16_flop_per_s=1e15),
        memory_bytes=80e9,
        memory_bytes_per_s=3e12,
        memory_type="HBM",
        frameworks=frameworks,
        source=SOURCE,
        aliases=aliases,  # type: ignore[arg-type]
    )


def machine(
    name: str, chip_name: str | None, provider: str = "google", **answers: object
) -> Machine:
    consumption = {
        key: value for key, value in answers.items() if key in Consumption.__dataclass_fields__
    }
    platforms = {
        key: value for key, value in answers.items() if key in PlatformSupport.__dataclass_fields__
    }
    return Machine(
        name=name,
        series=name.split("-")[0].upper(),
        provider=provider,
        memory_bytes=1e12,  # type: ignore[arg-type]
        network=MachineNetwork(technology="roce"),
        consumption=Consumption(**consumption),  # type: ignore[arg-type]
        platforms=PlatformSupport(**platforms),
        source=SOURCE,
        chip=chip_name,
        chip_count=8 if chip_name else 0,  # type: ignore[arg-type]
    )


def model(
    name: str,
    shape: Transformer | None,
    kind: str = "decoder",
    parameters: float = 0,
    *aliases: str,
) -> Model:
    count = parameters or (shape.parameters() if shape else 1e6)
    return Model(
        name=name,
        label=name,
        kind=kind,
        parameters_count=float(count),
        source=SOURCE,
        transformer=shape,
        aliases=aliases,  # type: ignore[arg-type]
    )


LLAMA_70B = Transformer(
    layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256, max_context_tokens=8192
)  # fmt: skip
LLAMA_8B = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, max_context_tokens=8192
)  # fmt: skip
BERT = Transformer(
    layers=24, hidden=1024, heads=16, ffn=4096, vocab=30522, gated=False, max_context_tokens=512
)

CATALOG = Catalog(
    chips=(
        chip("h100", "gpu", GPU, "h100-sxm"),
        chip("h200", "gpu", GPU),
        chip("gb200", "gpu", GPU),
        chip("l4", "gpu", GPU),
        chip("tpu-v6e", "tpu", TPU),
    ),
    machines=(
        machine("a3-ultragpu-8g", "h200", on_demand="no", spot="yes", flex_start="yes", cloud_run="no"),
        machine("a3-megagpu-8g", "h100", on_demand="price-only", spot="yes", flex_start="yes", cloud_run="no"),
        machine(
            "a4x-highgpu-4g", "gb200", on_demand="no", spot="no", flex_start="no", on_demand_reservation="no",
            calendar_reservation="no", future_reservation="yes", cloud_run="no",
        ),
        machine("g2-standard-96", "l4", on_demand="yes", spot="yes", cluster_director="no"),
        machine("ct6e-standard-4t", "tpu-v6e", on_demand="yes", spot="yes"),
        machine("c3-standard-176", None),
        machine("dgx-h100", "h100", "onprem"),
        machine("dgx-h200", "h200", "onprem"),
    ),
    platforms=tuple(
        PlatformInfo(
            name=name, label=name, variants=(), control="high", you_manage=(), it_manages=(), scaling="",
            limits=(), suits=suits, guidance="", source=SOURCE,  # type: ignore[arg-type]
        )
        for name, suits in (
            ("compute-engine", ("pretraining", "finetuning", "inference", "graphics", "hpc")),
            ("gke", ("pretraining", "finetuning", "inference")),
            ("slurm", ("pretraining", "finetuning", "hpc")),
            ("cloud-run", ("inference",)),
        )
    ),
    asics=(Asic(name="tomahawk-5", label="Tomahawk 5", vendor="Broadcom", source=SOURCE),),
    switches=(
        Switch(
            name="qfx5240-64od", label="QFX5240-64OD", vendor="Juniper", port_count=64, port_bits_per_s=800e9,
            os=("junos",), roles=("leaf", "spine"), source=SOURCE, asic="tomahawk-5",
        ),
    ),
    regions=tuple(
        Region(name=name, provider="google", source=SOURCE)
        for name in ("europe-west4", "us-central1", "us-central2", "us-east5", "us-south1", "us-west4")
    ),
    prices=tuple(
        Price(
            name=f"google/{region}/a3-ultragpu-8g", provider="google", region=region, machine="a3-ultragpu-8g",
            date=datetime.date(2026, 8, 21), source=SOURCE, spot_usd_per_hour=50.0,
        )
        for region in ("us-central1", "us-east5", "europe-west4")
    ),
    models=(
        model("llama-3-70b", LLAMA_70B, "decoder", 0, "meta-llama/Meta-Llama-3-70B"),
        model("llama-3-8b", LLAMA_8B),
        model("bert-large", BERT, "encoder"),
        model("resnet-50", None, "vision", 25.6e6),
    ),
)  # fmt: skip
