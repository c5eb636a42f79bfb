"""`gpuyard init TASK [FILE]`; TASK is a task or an example, such as quickstart."""

from __future__ import annotations

import argparse
import typing
from pathlib import Path

from gpuyard.app.examples import Example, example_text, examples
from gpuyard.catalog.platforms import TaskName
from gpuyard.cli.options import add_json, add_option
from gpuyard.errors import InputError, choices_text, closest_match
from gpuyard.home import write_atomic
from gpuyard.report.terminal import print_json, print_text
from gpuyard.workload.starters import starter

TASKS: tuple[TaskName, ...] = typing.get_args(TaskName)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard init inference\n"
        "  gpuyard init quickstart && gpuyard up quickstart.yaml"
    )
    add_option(parser, "TASK", f"{choices_text(TASKS)}; or an example of `gpuyard examples list`")
    add_option(parser, "FILE?", "output file; default TASK.yaml, - prints it", type=str)
    add_option(parser, "--force", "overwrite an existing file")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the starter file."""
    source = _source(arguments.task)
    printed = arguments.file == "-"
    path = Path(arguments.file if arguments.file and not printed else f"{arguments.task}.yaml")
    text = example_text(source, path) if isinstance(source, Example) else starter(source)
    if printed:
        print_text(text)
        return 0
    if path.exists() and not arguments.force:
        raise InputError.one(
            str(path), "already exists", "choose another name, or add --force to write over it"
        )
    write_atomic(path, text)
    if arguments.json:
        print_json({"file": str(path)})
    else:
        after = f"`gpuyard up {path}`"
        if not isinstance(source, Example):
            after = f"edit it, then `gpuyard check {path}`"
        print_text(f"wrote {path}\nnext: {after}")
    return 0


def _source(word: str) -> TaskName | Example:
    for task in TASKS:
        if word == task:
            return task
    known = {example.name: example for example in examples() if example.file.endswith(".yaml")}
    if word in known:
        example = known[word]
        needed = [file for file in example.files if file != example.file]
        if any(not file.endswith("README.md") for file in needed):
            raise InputError.one(
                "gpuyard init",
                f'the example "{word}" has more than one file',
                f"copy it: gpuyard examples copy {word}",
            )
        return example
    meant = closest_match(word, (*TASKS, *known))
    fix = f'did you mean "{meant}"?' if meant else f"use {choices_text(TASKS)}"
    raise InputError.one("gpuyard init", f'no task named "{word}"', fix)
