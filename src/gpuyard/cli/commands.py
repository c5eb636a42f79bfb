"""The table of commands; a command's module is imported only when it is used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CliCommand:
    """A command and its summary; its module has `add_arguments` and `run`."""

    name: str
    summary: str

    @property
    def module(self) -> str:
        """Module of the command."""
        return f"gpuyard.cli.{self.name}"


COMMANDS = (
    CliCommand(name="init", summary="write a commented workload file to start from"),
    CliCommand(name="examples", summary="list example workloads, or copy them to a folder"),
    CliCommand(
        name="check", summary="validate a workload file and show the machines that may run it"
    ),
    CliCommand(
        name="plan",
        summary=(
            "choose machines, count, parallelism layout and platform; compare time, memory and cost"
        ),
    ),
    CliCommand(
        name="fabric",
        summary="design, size, render, verify, draw and import the GPU backend fabric",
    ),
    CliCommand(
        name="simulate",
        summary=(
            "simulate collectives, traffic and training steps on a network, or requests on a"
            " serving cluster"
        ),
    ),
    CliCommand(
        name="lint",
        summary="lint manifests, API bodies, blueprints and batch scripts",
    ),
    CliCommand(
        name="provision",
        summary=(
            "render deployment files for an option: API requests, manifests, scripts and commands"
        ),
    ),
    CliCommand(
        name="evaluate",
        summary="evaluate a model: cross-validation, confidence intervals, slices, comparison",
    ),
    CliCommand(
        name="predict",
        summary="predict the rows of a file with a registered model",
    ),
    CliCommand(
        name="select",
        summary=(
            "search trainers and hyperparameters for the best metric within latency, memory and"
            " cost limits"
        ),
    ),
    CliCommand(
        name="models",
        summary="list, compare, promote and export model versions; mirror them to MLflow",
    ),
    CliCommand(
        name="serve",
        summary="serve models: batching, hot swap, canary, metrics",
    ),
    CliCommand(
        name="sweep", summary="list, and optionally delete, leftover cloud resources by label"
    ),
    CliCommand(
        name="up",
        summary=(
            "run everything: plan, design, verify and render, or the full pipeline on this machine"
        ),
    ),
    CliCommand(
        name="run", summary="run a pipeline: data, train, evaluate, select, register, deploy"
    ),
    CliCommand(name="runs", summary="list runs: state, stages, engine, time and cost"),
    CliCommand(name="show", summary="show a run: stages, metrics, curves"),
    CliCommand(name="logs", summary="print or follow the logs of a run"),
    CliCommand(name="stop", summary="stop a run and its jobs"),
    CliCommand(name="resume", summary="resume a run that was killed, failed or stopped"),
    CliCommand(
        name="lab",
        summary="emulate a fabric on this host with real routing daemons; fail links, train on it",
    ),
    CliCommand(
        name="data",
        summary="clean, normalise and shard data; profile, show or diff datasets",
    ),
    CliCommand(
        name="ui",
        summary="web UI: plans, data, runs, models, services and the catalog",
    ),
    CliCommand(
        name="measure",
        summary=(
            "benchmark this machine: matmul, memory, inter-process communication, storage, short"
            " training runs"
        ),
    ),
    CliCommand(
        name="calibrate", summary="calibrate the training model with one to three measured steps"
    ),
    CliCommand(name="accuracy", summary="score the performance models on measured runs"),
    CliCommand(
        name="catalog",
        summary="list chips, machines, platforms, storage, switches, prices and models",
    ),
    CliCommand(name="schema", summary="print the JSON Schema of workload files, for editors"),
)

# Flags renamed after version 0.1, by command and subcommand; the old spelling still works.
FORMER_FLAGS: dict[tuple[str, ...], dict[str, str]] = {
    ("provision",): {"--way": "--consumption", "--no-claims": "--no-dra"},
    ("fabric",): {"--built": "--as-built", "--balancing": "--load-balancing"},
    ("lab",): {"--cross": "--miswire"},
    ("simulate", "step"): {"--slow": "--slow-stage", "--balancing": "--load-balancing"},
    ("simulate",): {
        "--balancing": "--load-balancing",
        "--parts": "--chunks",
        "--late": "--straggler",
        "--storm": "--pfc-storm",
        "--slow": "--slow-link",
    },
}


def with_current_flags(words: list[str]) -> list[str]:
    """Replace renamed flags of a command line by their current names."""
    names = FORMER_FLAGS.get(tuple(words[:2])) or FORMER_FLAGS.get(tuple(words[:1])) or {}
    replaced = []
    for word in words:
        flag, equals, value = word.partition("=")
        replaced.append(f"{names.get(flag, flag)}{equals}{value}")
    return replaced
