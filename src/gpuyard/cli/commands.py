"""The commands by job, with their summaries; a command's module is imported when it is used."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Mapping
from typing import NoReturn, Protocol, cast

from gpuyard.errors import InputError, closest_match

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "init": "write a commented workload file to start from",
        "examples": "list example workloads, or copy them to a folder",
        "check": "validate a workload file and show the machines that may run it",
        "up": "run every stage: plan to deployment files, or data to a service",
        "schema": "print the JSON Schema of workload files, for editors",
        "completion": "print the completion script of bash, zsh or fish",
    },
    "Plan": {
        "plan": "choose machines, layout and platform by time, memory and cost",
        "catalog": "list chips, machines, platforms, switches, prices and models",
        "measure": "benchmark this machine: matmul, memory, storage, short training",
        "calibrate": "calibrate the training model with one to three measured steps",
        "accuracy": "score the performance models on measured runs",
    },
    "Prove": {
        "fabric": "design, size, verify, render, draw and import the GPU fabric",
        "simulate": "simulate collectives, traffic, training steps and serving",
        "lab": "emulate a fabric on this host with real routing daemons",
    },
    "Deploy": {
        "provision": "render deployment files for an option, and apply or destroy them",
        "lint": "lint manifests, API bodies, blueprints and batch scripts",
        "preflight": "check quota, capacity, permissions and prices before applying",
        "diff": "compare what the cloud has with what was rendered",
        "sweep": "list, and optionally delete, leftover cloud resources by label",
    },
    "Run": {
        "data": "clean, normalise and shard data; profile, show or diff datasets",
        "run": "run a pipeline: data, train, evaluate, select, register, deploy",
        "resume": "resume a run that was killed, failed or stopped",
        "stop": "stop a run and its jobs",
        "evaluate": "evaluate a model: folds, confidence intervals, slices, comparison",
        "select": "search models within latency, memory and cost limits",
    },
    "Serve": {
        "models": "list, compare, promote, export and mirror model versions",
        "serve": "serve models: batching, hot swap, canary, metrics",
        "predict": "predict the rows of a file with a registered model",
    },
    "Look": {
        "runs": "list runs: state, stages, engine, time and cost",
        "show": "show a run: stages, metrics, curves",
        "logs": "print or follow the logs of a run",
        "ui": "web UI: plans, data, runs, models, services and the catalog",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
SIMULATIONS: Mapping[str, str] = {
    "collective": "a collective on a network: completion time, bus bandwidth, hottest links",
    "traffic": "a traffic file (csg-htsim .cm, MSCCL .xml, Chakra .et) on a network",
    "step": "communication of one training step of a planned option on its fabric",
    "sweep": "a collective over seeds, sizes, networks and load-balancing modes, on all cores or"
    " Ray",
    "serving": "requests on the replicas of a service, one by one",
}

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


class CommandModule(Protocol):
    """Interface of a command's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, arguments: argparse.Namespace) -> int: ...


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors look like all others."""

    def error(self, message: str) -> NoReturn:
        wrong = next((word for word in message.split() if word.startswith("--")), "")
        meant = closest_match(wrong, flags_of(self)) if "unrecognized" in message else None
        fix = f"did you mean {meant}?" if meant else f"see `{self.prog} --help`"
        raise InputError.one(self.prog, message, fix)


def flags_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the flags of a command and of its subcommands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from flags_of(inner)


def load_command(name: str, summary: str) -> tuple[CommandModule, CommandParser]:
    """Import the module of a command (`simulate step`: `simulate_step.py`) and make its parser."""
    module = importlib.import_module("." + name.replace(" ", "_"), __package__)
    parser = CommandParser(
        prog=f"gpuyard {name}",
        description=summary[0].upper() + summary[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command = cast(CommandModule, module)
    command.add_arguments(parser)
    return command, parser


def with_current_flags(words: list[str]) -> list[str]:
    """Replace renamed flags of a command line by their current names."""
    names = FORMER_FLAGS.get(tuple(words[:2])) or FORMER_FLAGS.get(tuple(words[:1])) or {}
    replaced = []
    for word in words:
        flag, equals, value = word.partition("=")
        replaced.append(f"{names.get(flag, flag)}{equals}{value}")
    return replaced
