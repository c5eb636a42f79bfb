"""Dispatch: find the command, run it, turn every kind of "no" into a message and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol, cast

from gpuyard import __version__
from gpuyard.cli.commands import COMMANDS, Command
from gpuyard.cli.exits import EXIT_DONE, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_WRONG_INPUT
from gpuyard.errors import InputError, Problem, RefusedError, nearest

__all__ = ["main"]

KEPT = {  # commands that go on where they were interrupted, and how
    "run": "`gpuyard resume last` goes on",
    "resume": "the same command goes on",
    "up": "the same command goes on",
}


class CommandModule(Protocol):
    """What a command's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, arguments: argparse.Namespace) -> int: ...


class _Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in the words of the rest."""

    def error(self, message: str) -> NoReturn:
        flags = [flag for action in self._actions for flag in action.option_strings]
        wrong = next((word for word in message.split() if word.startswith("--")), "")
        meant = nearest(wrong, flags) if "unrecognized" in message else None
        fix = f"did you mean {meant}?" if meant else f"see `{self.prog} --help`"
        raise InputError.one(self.prog, message, fix)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; gives its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except InputError as error:
        _tell(words, error.problems)
        return EXIT_WRONG_INPUT
    except RefusedError as error:
        _tell(words, (error.problem,))
        return EXIT_REFUSED
    except KeyboardInterrupt:
        if words and words[0] in KEPT:
            print(f"interrupted; what is done is kept: {KEPT[words[0]]}", file=sys.stderr)  # noqa: T201
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `gpuyard catalog | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except IsADirectoryError as error:
        _tell(words, (Problem(where=str(error.filename), what="is a folder", fix="give a file inside it"),))
        return EXIT_WRONG_INPUT
    except OSError as error:  # a full disk, a read-only folder
        where = str(error.filename or "output")
        problem = Problem(where=where, what=error.strerror or str(error), fix="make room or choose another place")
        _tell(words, (problem,))
        return EXIT_REFUSED


def _run(words: list[str]) -> int:
    """The command named by the first word."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())  # noqa: T201
        return EXIT_DONE
    if words[0] in ("-V", "--version"):
        print(f"gpuyard {__version__}")  # noqa: T201
        return EXIT_DONE
    command = _find(words[0])
    module = cast(CommandModule, importlib.import_module(command.module))
    parser = _Parser(
        prog=f"gpuyard {command.name}",
        description=command.summary[0].upper() + command.summary[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    code = module.run(parser.parse_args(words[1:]))
    sys.stdout.flush()  # so that a full disk is met here, not after main
    return code


def _find(word: str) -> Command:
    """The command of that name."""
    by_name = {command.name: command for command in COMMANDS}
    if word in by_name:
        return by_name[word]
    meant = nearest(word, by_name)
    fix = f"did you mean `gpuyard {meant}`?" if meant else "see `gpuyard --help`"
    raise InputError.one("gpuyard", f'no command named "{word}"', fix)


def _help() -> str:
    """The first screen."""
    width = max(len(command.name) for command in COMMANDS)
    lines = [f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS]
    return "\n".join(
        [
            "gpuyard takes an AI workload from a wish to a running, proven GPU backend.",
            "",
            "usage: gpuyard COMMAND [options]        gpuyard COMMAND --help tells more",
            "",
            *lines,
            "",
            "exit codes: 0 done, 2 wrong input, 3 infeasible, 4 the world refused",
        ]
    )


def _tell(words: list[str], problems: tuple[Problem, ...]) -> None:
    """The problems on standard error; with --json also as an object on standard output."""
    for problem in problems:
        print(problem, file=sys.stderr)  # noqa: T201
    if "--json" in words:
        rows = [{"where": problem.where, "what": problem.what, "fix": problem.fix} for problem in problems]
        with contextlib.suppress(OSError):  # it may be standard output that is full
            print(json.dumps({"problems": rows}, indent=2, ensure_ascii=False), flush=True)  # noqa: T201
