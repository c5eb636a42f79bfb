"""The table of commands. A command's module is loaded only when it is named, so that help answers at once."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COMMANDS", "Command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One word after `gpuyard`, and what it does; its module has `add_arguments` and `run`."""

    name: str
    summary: str

    @property
    def module(self) -> str:
        """Where it is written."""
        return f"gpuyard.cli.{self.name}"


COMMANDS = (
    Command(name="init", summary="write a commented workload file to start from"),
    Command(name="check", summary="validate a workload file and show the machines that may run it"),
    Command(name="plan", summary="choose machines, number, layout and platform; time, memory and cost of each option"),
    Command(name="fabric", summary="design, size, render, verify, draw and import the network between GPUs"),
    Command(name="simulate", summary="play collectives, traffic and steps over a network, requests through a service"),
    Command(name="lint", summary="check manifests, API bodies, blueprints and batch scripts before you deploy them"),
    Command(name="provision", summary="write what deploys an option: requests, manifests, scripts, and the commands"),
    Command(name="evaluate", summary="judge a pipeline's model: cross-validation, intervals, slices, comparison"),
    Command(name="select", summary="search families and parameters by a metric, within latency, memory and cost"),
    Command(name="models", summary="versions, lineage, aliases and cards of models; mirror them to MLflow"),
    Command(name="serve", summary="put models behind an inference server: batching, hot swap, canary, metrics"),
    Command(name="sweep", summary="find by its labels what gpuyard made in a project and still stands"),
    Command(name="up", summary="the whole way: plan, fabric, proof and artefacts, or the pipeline on this machine"),
    Command(name="run", summary="run a pipeline: data, train, evaluate, select, register, deploy"),
    Command(name="runs", summary="list runs: state, stages, engine, time and cost"),
    Command(name="show", summary="show a run: stages, metrics, files; a page with its curves"),
    Command(name="logs", summary="print what a run's jobs wrote; follow it"),
    Command(name="stop", summary="end a run and its jobs, wherever they run"),
    Command(name="resume", summary="go on with a run that was killed, failed or stopped"),
    Command(name="lab", summary="boot a fabric on this host with real routing daemons, break it, train across it"),
    Command(name="data", summary="clean, normalise and shard data; profile it, show it, tell two sets apart"),
    Command(name="ui", summary="the page: plans, data, runs, models, services and the catalog, live in a browser"),
    Command(name="measure", summary="measure this machine: products, memory, processes, storage, short trainings"),
    Command(name="calibrate", summary="fit the training model to your own one to three measured steps"),
    Command(name="accuracy", summary="score the performance model on measured runs"),
    Command(name="catalog", summary="list chips, machines, platforms, storage, switches, prices and models"),
    Command(name="schema", summary="print the JSON Schema of workload files, for editors"),
)
