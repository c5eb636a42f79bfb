"""`gpuyard simulate WHAT FILE`: a table of simulations, one module each, loaded when it is named."""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass
from typing import Protocol, cast

__all__ = ["SIMULATIONS", "Simulation", "add_arguments", "parser_of", "run"]


class _Module(Protocol):
    """What the module of a simulation offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, arguments: argparse.Namespace) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """One word after `gpuyard simulate`, and what it does; its module has `add_arguments` and `run`."""

    name: str
    summary: str

    @property
    def module(self) -> str:
        """Where it is written."""
        return f"gpuyard.cli.simulate_{self.name}"


SIMULATIONS = (
    Simulation(name="collective", summary="a collective over a network: completion, bus bandwidth, hottest links"),
    Simulation(name="traffic", summary="a traffic file (csg-htsim's .cm, MSCCL's .xml, Chakra's .et) over a network"),
    Simulation(name="step", summary="the communication of one training step of a planned option over its fabric"),
    Simulation(name="sweep", summary="a collective over seeds, sizes, networks and balancings, on all cores or on Ray"),
    Simulation(name="serving", summary="requests through the replicas of a service, one by one"),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments: which simulation, and what belongs to it."""
    width = max(len(simulation.name) for simulation in SIMULATIONS)
    rows = "\n".join(f"  {simulation.name:<{width}}  {simulation.summary}" for simulation in SIMULATIONS)
    parser.epilog = (
        f"simulations:\n{rows}\n\nexamples:\n"
        "  gpuyard simulate collective all-reduce --size 1GB --gpus 256 --switch qfx5240-64od --html run.html\n"
        "  gpuyard simulate traffic examples/ring.cm --topology fat-tree --hosts 16 --engine packet\n"
        "  gpuyard simulate step examples/pretraining-onprem.yaml\n"
        "  gpuyard simulate serving examples/inference.yaml --html run.html\n"
        "`gpuyard simulate WHAT --help` tells more; each takes --json"
    )
    names = [simulation.name for simulation in SIMULATIONS]
    parser.add_argument("what", metavar="WHAT", choices=names, help=", ".join(names))
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="…", help="what belongs to it")
    parser.set_defaults(parser_class=type(parser))


def run(arguments: argparse.Namespace) -> int:
    """Runs the simulation that is named; the others are not loaded, so that it starts at once."""
    chosen = next(item for item in SIMULATIONS if item.name == arguments.what)
    own = parser_of(chosen, arguments.parser_class)
    return _module(chosen).run(own.parse_args(arguments.words))


def parser_of(
    simulation: Simulation, parser_class: type[argparse.ArgumentParser] = argparse.ArgumentParser
) -> argparse.ArgumentParser:
    """The arguments of one simulation."""
    own = parser_class(
        prog=f"gpuyard simulate {simulation.name}",
        description=simulation.summary[0].upper() + simulation.summary[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _module(simulation).add_arguments(own)
    return own


def _module(simulation: Simulation) -> _Module:
    """The simulation's own module."""
    return cast(_Module, importlib.import_module(simulation.module))
