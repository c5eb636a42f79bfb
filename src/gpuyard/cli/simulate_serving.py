"""`gpuyard simulate serving FILE`."""

from __future__ import annotations

import argparse

from gpuyard.app.serving import ServingSimOptions, simulate_serving
from gpuyard.cli.options import add_catalog, add_json, add_option, workspace_of
from gpuyard.errors import EXIT_INFEASIBLE, Infeasible, InputError
from gpuyard.home import write_atomic
from gpuyard.plan.inference.replica_config import PrefillConfig, ReplicaConfig
from gpuyard.report.serving import serving_page, serving_table
from gpuyard.report.terminal import print_json, print_result, print_table, print_text
from gpuyard.units import RATE, UnitError, parse

SHAPE = ("replicas", "tp", "pp", "ep", "attention_dp")
APART = ("prefill_replicas", "prefill_tp", "prefill_ep", "prefill_attention_dp")
COUNTS = (*SHAPE, *APART, "requests")
MOST = {
    "replicas": 10_000,
    "prefill_replicas": 10_000,
    "requests": 10_000_000,
}  # what a minute and a few GB simulate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "without --machine the plan's best service is simulated\n\nexamples:\n  gpuyard simulate"
        " serving examples/inference.yaml\n  gpuyard simulate serving examples/inference.yaml"
        " --machine a3-ultragpu-8g --tp 4 --replicas 2\n  gpuyard simulate serving"
        " examples/inference.yaml --machine a3-ultragpu-8g --tp 4 --prefill-replicas 2"
    )
    add_option(parser, "FILE", "a workload file with task: inference")
    add_option(parser, "--machine NAME", "machine of the catalog, instead of the plan's best")
    _add_configuration(parser)
    add_option(parser, "--trace CSV", "request trace, instead of the file's traffic")
    add_option(parser, "--rate RATE", "arrival rate, instead of the file's, such as 30/s")
    add_option(parser, "--requests N", "number of requests to simulate", type=int)
    add_option(parser, "--seed N", "random seed (default 0)", type=int, default=0)
    add_option(parser, "--html PATH", "write a page with the distributions and the timeline")
    add_catalog(parser)
    add_json(parser)


def _add_configuration(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--replicas N", "number of replicas (default 1)", type=int, default=1)
    add_option(parser, "--tp N", "tensor-parallel size (default 1)", type=int, default=1)
    add_option(parser, "--pp N", "pipeline-parallel size (default 1)", type=int, default=1)
    add_option(parser, "--ep N", "expert-parallel size (default 1)", type=int, default=1)
    add_option(
        parser, "--attention-dp N", "attention data-parallel size (default 1)", type=int, default=1
    )
    add_option(
        parser,
        "--prefill-replicas N",
        "number of prefill-only replicas (disaggregated serving)",
        type=int,
    )
    add_option(
        parser,
        "--prefill-tp N",
        "tensor-parallel size of the prefill pool (default --tp)",
        type=int,
    )
    add_option(
        parser,
        "--prefill-ep N",
        "expert-parallel size of the prefill pool (default --ep)",
        type=int,
    )
    add_option(
        parser,
        "--prefill-attention-dp N",
        "attention data-parallel size of the prefill pool (default --attention-dp)",
        type=int,
    )
    add_option(
        parser, "--weights FORMAT", "bf16, fp8, int8, int4-weights, nvfp4, mxfp4 …", default=""
    )
    add_option(parser, "--kv FORMAT", "KV-cache dtype: bf16 (default), fp8 or int8", default="")
    add_option(
        parser, "--engine NAME", "vllm, sglang, tensorrt-llm, vllm-tpu, jetstream", default=""
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the percentiles, or what makes it infeasible."""
    result = simulate_serving(workspace_of(arguments), _options(arguments))
    if isinstance(result, Infeasible):
        print_result({"infeasible": result}, str(result), as_json=arguments.json)
        return EXIT_INFEASIBLE
    if arguments.html:
        write_atomic(arguments.html, serving_page(result))
    if arguments.json:
        print_json(result)
        return 0
    print_table(serving_table(result))
    if arguments.html:
        print_text(f"wrote {arguments.html}")
    return 0


def _options(arguments: argparse.Namespace) -> ServingSimOptions:
    """The flags as a value; InputError for those below 1 or without meaning."""
    for name in COUNTS:
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise InputError.one(_flag(name), f"{value} is below 1", "write 1 or more")
        if value is not None and value > MOST.get(name, value):
            raise InputError.one(
                _flag(name), f"{value:,} is too many", f"write {MOST[name]:,} or fewer"
            )
    if arguments.seed < 0:
        raise InputError.one("--seed", f"{arguments.seed} is below 0", "write 0 or more")
    shaped = [name for name in SHAPE if getattr(arguments, name) != 1]
    shaped += [name for name in (*APART, "weights", "kv", "engine") if getattr(arguments, name)]
    if arguments.machine is None and shaped:
        fix = "add --machine, such as a3-ultragpu-8g"
        raise InputError.one(_flag(shaped[0]), "needs a machine", fix)
    named = None
    if arguments.machine is not None:
        named = ReplicaConfig(
            machine=arguments.machine,
            replicas=arguments.replicas,
            tp=arguments.tp,
            pp=arguments.pp,
            ep=arguments.ep,
            attention_dp=arguments.attention_dp,
            weights=arguments.weights,
            kv=arguments.kv or "bf16",
            engine=arguments.engine,
            prefill=_readers(arguments),
        )
    return ServingSimOptions(
        named=named,
        trace=arguments.trace,
        requests_per_s=_rate(arguments.rate),
        requests_count=arguments.requests,
        seed=arguments.seed,
    )


def _readers(arguments: argparse.Namespace) -> PrefillConfig | None:
    """The replicas that read prompts, where there are any."""
    if arguments.prefill_replicas is None:
        alone = next((name for name in APART if getattr(arguments, name)), None)
        if alone:
            raise InputError.one(
                _flag(alone), "the number of prefill replicas is missing", "add --prefill-replicas"
            )
        return None
    return PrefillConfig(
        replicas=arguments.prefill_replicas,
        tp=arguments.prefill_tp or arguments.tp,
        ep=arguments.prefill_ep or arguments.ep,
        attention_dp=arguments.prefill_attention_dp or arguments.attention_dp,
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _rate(text: str | None) -> float | None:
    """The rate; a bare number is one a second."""
    if text is None:
        return None
    try:
        rate = parse(text if not text.replace(".", "", 1).isdigit() else f"{text}/s", RATE)
    except UnitError as error:
        raise InputError.one("--rate", error.what, error.fix) from None
    if rate <= 0:
        raise InputError.one("--rate", "must be above zero", "write it like 30/s")
    return rate
