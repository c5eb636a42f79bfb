"""`gpuyard simulate KIND`: a table of simulations, each module imported when it is used."""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass
from typing import Protocol, cast


class _Module(Protocol):
    """Interface of a simulation's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, arguments: argparse.Namespace) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateSubcommand:
    """A kind of simulation; its module has `add_arguments` and `run`."""

    name: str
    summary: str

    @property
    def module(self) -> str:
        """Where it is written."""
        return f"gpuyard.cli.simulate_{self.name}"


SIMULATIONS = (
    SimulateSubcommand(
        name="collective",
        summary="a collective on a network: completion time, bus bandwidth, hottest links",
    ),
    SimulateSubcommand(
        name="traffic",
        summary="a traffic file (csg-htsim .cm, MSCCL .xml, Chakra .et) on a network",
    ),
    SimulateSubcommand(
        name="step", summary="communication of one training step of a planned option on its fabric"
    ),
    SimulateSubcommand(
        name="sweep",
        summary=(
            "a collective over seeds, sizes, networks and load-balancing modes, on all cores or Ray"
        ),
    ),
    SimulateSubcommand(name="serving", summary="requests on the replicas of a service, one by one"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments: which simulation, and arguments of the chosen simulation."""
    width = max(len(simulation.name) for simulation in SIMULATIONS)
    rows = "\n".join(
        f"  {simulation.name:<{width}}  {simulation.summary}" for simulation in SIMULATIONS
    )
    parser.epilog = (
        f"simulations:\n{rows}\n\nexamples:\n  gpuyard simulate collective all-reduce --size 1GB"
        " --gpus 256 --switch qfx5240-64od --html run.html\n  gpuyard simulate traffic"
        " examples/ring.cm --topology fat-tree --hosts 16 --engine packet\n  gpuyard simulate step"
        " examples/pretraining-onprem.yaml\n  gpuyard simulate serving examples/inference.yaml"
        " --html run.html\nsee `gpuyard simulate KIND --help`; every kind supports --json"
    )
    names = [simulation.name for simulation in SIMULATIONS]
    parser.add_argument("what", metavar="WHAT", choices=names, help=", ".join(names))
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="…", help="arguments of the chosen simulation"
    )
    parser.set_defaults(parser_class=type(parser))


def run(arguments: argparse.Namespace) -> int:
    """Run the named simulation."""
    chosen = next(item for item in SIMULATIONS if item.name == arguments.what)
    own = parser_of(chosen, arguments.parser_class)
    return _module(chosen).run(own.parse_args(arguments.words))


def parser_of(
    simulation: SimulateSubcommand,
    parser_class: type[argparse.ArgumentParser] = argparse.ArgumentParser,
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


def _module(simulation: SimulateSubcommand) -> _Module:
    return cast(_Module, importlib.import_module(simulation.module))
