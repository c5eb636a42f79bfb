"""Entry point: find the command, run it, turn failures into messages and exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence

from gpuyard import __version__
from gpuyard.cli.commands import COMMANDS, GROUPS, load_command, with_current_flags
from gpuyard.errors import (
    EXIT_EXTERNAL_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_WRONG_INPUT,
    ExternalError,
    InputError,
    Problem,
    closest_match,
    external_error_from,
)
from gpuyard.home import PRIVATE_UMASK

RESUME = {  # commands that can be resumed, and how
    "run": "`gpuyard resume last` resumes it",
    "resume": "the same command resumes it",
    "up": "the same command resumes it",
}

# Commands whose files belong in the state directory; their processes inherit the umask.
PRIVATE = frozenset({"run", "resume", "up", "select", "serve", "ui", "measure"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = with_current_flags(list(sys.argv[1:] if argv is None else argv))
    try:
        return _run(words)
    except InputError as error:
        _print_problems(words, error.problems)
        return EXIT_WRONG_INPUT
    except ExternalError as error:
        _print_problems(words, (error.problem,))
        return EXIT_EXTERNAL_ERROR
    except ModuleNotFoundError as error:  # a package of an extra that this command needs
        missing = external_error_from(error, f"gpuyard {words[0]}")
        if missing is None:
            raise
        _print_problems(words, (missing.problem,))
        return EXIT_EXTERNAL_ERROR
    except KeyboardInterrupt:
        if words and words[0] in RESUME:
            print(f"interrupted; finished work is saved: {RESUME[words[0]]}", file=sys.stderr)  # noqa: T201
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `gpuyard catalog | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except IsADirectoryError as error:
        _print_problems(
            words,
            (Problem(where=str(error.filename), what="is a folder", fix="give a file inside it"),),
        )
        return EXIT_WRONG_INPUT
    except OSError as error:  # a full disk, a read-only folder
        where = str(error.filename or "output")
        problem = Problem(
            where=where,
            what=error.strerror or str(error),
            fix="free disk space or choose another path",
        )
        _print_problems(words, (problem,))
        return EXIT_EXTERNAL_ERROR


def _run(words: list[str]) -> int:
    if words[:1] == ["help"] or (words[:1] and words[0] in ("-h", "--help") and words[1:]):
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help"):
        print(_help())  # noqa: T201
        return EXIT_OK
    if words[0] in ("-V", "--version", "version"):
        print(f"gpuyard {__version__}")  # noqa: T201
        return EXIT_OK
    if words[0] not in COMMANDS:
        is_flag = words[0].startswith("-")
        meant = closest_match(words[0], ("--help", "--version") if is_flag else COMMANDS)
        fix = f"did you mean `gpuyard {meant}`?" if meant else "see `gpuyard --help`"
        kind = "flag" if is_flag else "command"
        raise InputError.one("gpuyard", f'no {kind} named "{words[0]}"', fix)
    command, parser = load_command(words[0], COMMANDS[words[0]])
    arguments = parser.parse_args(words[1:])
    with _umask(words[0]):
        code = command.run(arguments)
    sys.stdout.flush()  # so that a full disk is met here, not after main
    return code


@contextlib.contextmanager
def _umask(command: str) -> Iterator[None]:
    """Make what a command leaves in the state directory readable by this user alone."""
    if command not in PRIVATE:
        yield
        return
    before = os.umask(PRIVATE_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = ["gpuyard plans, verifies, deploys and runs GPU backends for AI.", ""]
    lines += ["usage: gpuyard COMMAND [options]        run gpuyard help COMMAND for details", ""]
    for title, commands in GROUPS.items():
        lines += [title, *(f"  {name:<{width}}  {text}" for name, text in commands.items()), ""]
    return "\n".join([*lines, "exit codes: 0 done, 2 wrong input, 3 infeasible, 4 external error"])


def _print_problems(words: list[str], problems: tuple[Problem, ...]) -> None:
    """Print problems on standard error; with --json also as an object on standard output."""
    for problem in problems:
        print(problem, file=sys.stderr)  # noqa: T201
    if "--json" in words:
        rows = [
            {"where": problem.where, "what": problem.what, "fix": problem.fix}
            for problem in problems
        ]
        with contextlib.suppress(OSError):  # it may be standard output that is full
            print(json.dumps({"problems": rows}, indent=2, ensure_ascii=False), flush=True)  # noqa: T201
