"""Results of `vllm bench serve --save-result` as serving benchmarks.

Source: save_to_json of vllm/benchmarks/serve.py: num_prompts, completed, request_rate ("inf" or a
number), burstiness, max_concurrency, total_input_tokens, total_output_tokens, output_throughput,
mean_ttft_ms, mean_tpot_ms, mean_e2el_ms; `--metadata KEY=VALUE` adds user-defined keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.models import Model
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError, closest_match
from gpuyard.perf.inference.case import BenchmarkLoad, ServingBenchmark
from gpuyard.perf.inference.chip import ServingChip, chip_named, read_variants
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import FORMATS, Precision, WeightFormat
from gpuyard.perf.inference.serving_engine import ServingEngine, choose_engine
from gpuyard.perf.inference.shape import decoder_of

NEEDED = (
    "model_id",
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "output_throughput",
    "mean_ttft_ms",
    "mean_tpot_ms",
)
MAX_COUNT = 10_000_000
MAX_VALUE = 1e15
FIX = "run vllm bench serve --save-result with --metadata chip=h100-sxm tp=8 version=0.19"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSetup:
    """Setup of the server; blanks are read from the file's metadata."""

    chip: str = ""
    model: Annotated[str, Doc("a model of the catalog; blank: the file's model_id")] = ""
    tp: int = 0
    replicas: int = 0
    version: Annotated[str, Doc("release of vLLM")] = ""
    weights: Annotated[str, Doc("weight format, such as bf16, fp8 or nvfp4")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredServing:
    """A serving benchmark and its measurements."""

    name: str
    case: ServingBenchmark
    output_tokens_per_s: float
    tpot_s: float
    ttft_s: float


def is_vllm_benchmark(data: object) -> bool:
    """Return whether parsed JSON is a result of `vllm bench serve`."""
    return isinstance(data, Mapping) and all(key in data for key in NEEDED)


def read_vllm_benchmark(
    data: Mapping[str, object], name: str, setup: ServingSetup, catalog: Catalog
) -> MeasuredServing:
    """Return a benchmark result as model inputs and measurements."""
    missing = [key for key in NEEDED if key not in data]
    if missing:
        raise InputError.one(name, f"missing: {', '.join(missing)}", FIX)
    completed = _count(data, "completed", 0, name)
    prompt = _number(data, "total_input_tokens", name) / completed
    output = _number(data, "total_output_tokens", name) / completed
    chip = _chip(setup.chip or _text(data, "chip"), name, catalog)
    model = _model(setup.model or _text(data, "model") or _text(data, "model_id"), name, catalog)
    layout = ReplicaLayout(tp=setup.tp or _count(data, "tp", 1, name))
    case = ServingBenchmark(
        row={"id": name, "model": model.name, "engine": "vLLM"},
        shape=decoder_of(model),
        chip=chip,
        precision=Precision(weights=_weights(setup.weights or _text(data, "weights"), name)),
        engine=_engine(setup.version or _text(data, "version"), name),
        layouts=((layout, setup.replicas or _count(data, "replicas", 1, name)),),
        prefill=None,
        load=_load(data, completed, prompt, output, name),
    )
    return MeasuredServing(
        name=name,
        case=case,
        output_tokens_per_s=_number(data, "output_throughput", name),
        tpot_s=_number(data, "mean_tpot_ms", name) / 1e3,
        ttft_s=_number(data, "mean_ttft_ms", name) / 1e3,
    )


def _load(
    data: Mapping[str, object], count: int, prompt: float, output: float, name: str
) -> BenchmarkLoad:
    """Return a closed loop if concurrency was limited, else arrivals at a rate or in a burst."""
    users, rate = data.get("max_concurrency"), data.get("request_rate", "inf")
    per_s = math.inf if rate == "inf" else _number({"request_rate": rate}, "request_rate", name)
    closed = users is not None and math.isinf(per_s)
    return BenchmarkLoad(
        kind="closed" if closed else "open",
        requests=count,
        prompt_tokens=prompt,
        output_tokens=output,
        users=_count(data, "max_concurrency", 0, name) if closed else 0,
        rate_per_s=0.0 if math.isinf(per_s) else per_s,
    )


def _number(data: Mapping[str, object], key: str, name: str) -> float:
    value = data[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MAX_VALUE:
        raise InputError.one(f"{name}: {key}", f"{value!r} is not a positive number", FIX)
    return float(value)


def _count(data: Mapping[str, object], key: str, default: int, name: str) -> int:
    """Return a positive integer, which metadata holds as text; the default if it is blank."""
    value = data.get(key)
    if default and value in (None, ""):
        return default
    text = str(value)
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) <= MAX_COUNT):
        raise InputError.one(f"{name}: {key}", f"{value!r} is not a positive integer", FIX)
    return int(text)


def _text(data: Mapping[str, object], key: str) -> str:
    return str(data.get(key) or "")


def _chip(text: str, name: str, catalog: Catalog) -> ServingChip:
    chip = chip_named(text, catalog) if text else None
    if chip is None:
        meant = closest_match(text, [variant.name for variant in read_variants()])
        what = f'unknown chip "{text}"' if text else "the chip is not stated"
        raise InputError.one(f"{name}: chip", what, f'use "{meant}"' if meant else FIX)
    return chip


def _model(text: str, name: str, catalog: Catalog) -> Model:
    short = text.rsplit("/", 1)[-1].casefold().removesuffix("-instruct")
    for model in catalog.models:
        names = {known.casefold() for known in (model.name, *model.aliases)}
        if {text.casefold(), short} & names and model.transformer is not None:
            return model
    meant = closest_match(short, [model.name for model in catalog.models])
    fix = f'name a model of the catalog, such as "{meant}"' if meant else "name a catalog model"
    raise InputError.one(f"{name}: model_id", f'unknown model "{text}"', fix)


def _weights(text: str, name: str) -> WeightFormat:
    for form in FORMATS:
        if form == (text or "bf16"):
            return form
    raise InputError.one(
        f"{name}: weights", f'unknown weight format "{text}"', f"use one of {', '.join(FORMATS)}"
    )


def _engine(version: str, name: str) -> ServingEngine:
    engine = choose_engine("vLLM", version.removeprefix("v"))
    if engine is None:
        raise InputError.one(f"{name}: version", f'unknown vLLM release "{version}"', FIX)
    return engine
