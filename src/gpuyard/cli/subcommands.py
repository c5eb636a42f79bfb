"""Commands of several words: `gpuyard fabric design`, `gpuyard data run`, `gpuyard lab up`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Subcommand:
    """The second word of a command."""

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_actions(
    parser: argparse.ArgumentParser, actions: Sequence[Subcommand], *, required: bool = True
) -> None:
    """The actions of a command, each with its own arguments."""
    words = parser.add_subparsers(dest="action", metavar="ACTION", required=required)
    for action in actions:
        inner = words.add_parser(
            action.name,
            help=action.summary,
            description=action.summary[0].upper() + action.summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        action.add_arguments(inner)
        inner.set_defaults(act=action.run)


def run_action(arguments: argparse.Namespace) -> int:
    """Runs the action that was named."""
    act: Callable[[argparse.Namespace], int] = arguments.act
    return act(arguments)
