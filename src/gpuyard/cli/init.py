"""`gpuyard init TASK [FILE]`."""

from __future__ import annotations

import argparse
import typing
from pathlib import Path

from gpuyard.catalog import Task
from gpuyard.cli.options import add_json
from gpuyard.errors import InputError, nearest, one_of
from gpuyard.home import write_whole
from gpuyard.report import print_json, print_text
from gpuyard.workload import starter

__all__ = ["add_arguments", "run"]

TASKS: tuple[Task, ...] = typing.get_args(Task)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("task", metavar="TASK", help=one_of(TASKS))
    parser.add_argument("file", nargs="?", metavar="FILE", help="where to write it; default TASK.yaml, - prints it")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the starter file."""
    task = _task(arguments.task)
    text = starter(task)
    if arguments.file == "-":
        print_text(text)
        return 0
    path = Path(arguments.file or f"{task}.yaml")
    if path.exists() and not arguments.force:
        raise InputError.one(str(path), "is there already", "choose another name, or add --force to write over it")
    write_whole(path, text)
    if arguments.json:
        print_json({"file": str(path)})
    else:
        print_text(f"wrote {path}\nnext: edit it, then `gpuyard check {path}`")
    return 0


def _task(word: str) -> Task:
    """The task of that name."""
    for task in TASKS:
        if word == task:
            return task
    meant = nearest(word, TASKS)
    fix = f'did you mean "{meant}"?' if meant else f"use {one_of(TASKS)}"
    raise InputError.one("gpuyard init", f'no task named "{word}"', fix)
