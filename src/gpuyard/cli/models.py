"""`gpuyard models`: list, show, promote, compare, export, import, mirror, delete, tidy."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuyard.app import registry as app
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json, add_option
from gpuyard.errors import InputError, choices_text
from gpuyard.registry.names import CHAMPION
from gpuyard.report.registry import detail_tables, models_table
from gpuyard.report.table import Table, table_columns
from gpuyard.report.terminal import print_json, print_result, print_table, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "\n".join(
        [
            "actions:",
            *(f"  {action.usage:<34} {action.summary}" for action in ACTIONS),
            "examples:",
            "  gpuyard models promote quickstart 3 champion",
            "  gpuyard models mirror --mlflow http://host:5000",
        ]
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="NAME | ACTION …",
        help="a model to list, or an action (see below)",
    )
    add_option(
        parser, "--mlflow URI", "with mirror and import: an MLflow tracking server", default=""
    )
    add_option(parser, "--name NAME", "with import: name of the model in this registry", default="")
    add_option(
        parser, "--classes A,B", "with import of an ONNX file: names of the classes", default=""
    )
    add_option(
        parser,
        "--code PATH",
        "with import of an ONNX file: Python file with preprocess and postprocess",
    )
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """List models, or run the subcommand."""
    words: list[str] = arguments.words
    action = next((item for item in ACTIONS if words and item.name == words[0]), None)
    if action is not None:
        if not action.least <= len(words) - 1 <= action.most:
            raise InputError.one(
                "gpuyard models",
                f"{action.name}: wrong number of arguments",
                f"write {action.usage}",
            )
        return action.run(arguments, words[1:])
    if len(words) > 1:
        names = [item.name for item in ACTIONS]
        raise InputError.one(
            "gpuyard models",
            f'no subcommand named "{words[0]}"',
            f"use {choices_text(names)}, or one NAME",
        )
    versions = app.list_models(home_of(arguments), words[0] if words else "")
    if arguments.json:
        print_json({"models": versions})
    elif versions:
        print_table(models_table(versions))
    else:
        print_text(f"no models in {home_of(arguments).path}; a pipeline's run registers them")
    return 0


def _show(arguments: argparse.Namespace, words: list[str]) -> int:
    detail = app.show_model(home_of(arguments), words[0])
    if arguments.json:
        print_json(detail)
        return 0
    for table in detail_tables(
        detail.version, [(item.alias, item.version, item.at_s) for item in detail.changes]
    ):
        print_table(table)
    return 0


def _promote(arguments: argparse.Namespace, words: list[str]) -> int:
    version = app.promote(
        home_of(arguments), words[0], _number(words[1]), words[2] if len(words) > 2 else CHAMPION
    )
    print_result(
        version, f"{version.reference} is now {', '.join(version.aliases)}", as_json=arguments.json
    )
    return 0


def _compare(arguments: argparse.Namespace, words: list[str]) -> int:
    differences = app.compare_versions(home_of(arguments), words[0], words[1])
    if arguments.json:
        print_json({"differences": differences})
        return 0
    columns = table_columns("", words[0], words[1], "")
    rows = tuple((item.what, item.first, item.second, item.note) for item in differences)
    note = "row by row and with a test: gpuyard evaluate FILE --model … --against …"
    print_table(Table(columns=columns, rows=rows, notes=(note,)))
    return 0


def _card(arguments: argparse.Namespace, words: list[str]) -> int:
    text = app.card_of(home_of(arguments), words[0])
    print_result({"card": text}, text, as_json=arguments.json)
    return 0


def _export(arguments: argparse.Namespace, words: list[str]) -> int:
    version = app.export_model(home_of(arguments), words[0], Path(words[1]))
    print_result(version, f"wrote {version.reference} to {words[1]}", as_json=arguments.json)
    return 0


def _import(arguments: argparse.Namespace, words: list[str]) -> int:
    onnx, source = None, words[0]
    if source.endswith(".onnx"):
        classes = tuple(filter(None, arguments.classes.split(",")))
        onnx = app.OnnxImport(classes=classes, code=arguments.code)
    elif arguments.code or arguments.classes:
        what = "--code and --classes describe an ONNX file"
        raise InputError.one("models import", what, "import a file.onnx, or leave them out")
    version = app.import_model(
        home_of(arguments), source, name=arguments.name, mlflow=arguments.mlflow, onnx=onnx
    )
    print_result(version, f"registered {version.reference}", as_json=arguments.json)
    return 0


def _mirror(arguments: argparse.Namespace, words: list[str]) -> int:
    if not arguments.mlflow:
        raise InputError.one(
            "gpuyard models mirror", "no server is named", "add --mlflow http://HOST:PORT"
        )
    mirrored = app.mirror_models(home_of(arguments), arguments.mlflow, words[0] if words else "")
    if arguments.json:
        print_json({"mirrored": mirrored})
        return 0
    for item in mirrored:
        how = "uploaded" if item.fresh else "already present"
        print_text(f"{item.reference}: {how} as version {item.server_version}, run {item.run_id}")
    return 0


def _delete(arguments: argparse.Namespace, words: list[str]) -> int:
    app.delete_version(home_of(arguments), words[0], _number(words[1]))
    (
        print_json({"deleted": f"{words[0]}/{words[1]}"})
        if arguments.json
        else print_text(f"deleted {words[0]}/{words[1]}")
    )
    return 0


def _tidy(arguments: argparse.Namespace, _words: list[str]) -> int:
    gone = app.remove_abandoned_files(home_of(arguments))
    print_result({"removed": gone}, f"removed {len(gone)} leftover folders", as_json=arguments.json)
    return 0


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise InputError.one(f'version "{text}"', "is not a number above zero", "write NAME 3")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsSubcommand:
    """A subcommand of `gpuyard models` and the number of its arguments."""

    name: str
    words: str
    summary: str
    least: int
    most: int
    run: Callable[[argparse.Namespace, list[str]], int]

    @property
    def usage(self) -> str:
        return f"{self.name} {self.words}".strip()


ACTIONS = (
    ModelsSubcommand(
        name="show",
        words="NAME[@ALIAS|/N]",
        summary="one version in full, with its files verified",
        least=1,
        most=1,
        run=_show,
    ),
    ModelsSubcommand(
        name="promote",
        words="NAME VERSION [ALIAS]",
        summary="point an alias (default champion) at a version",
        least=2,
        most=3,
        run=_promote,
    ),
    ModelsSubcommand(
        name="compare",
        words="NAME/1 NAME/2",
        summary="what differs between two versions",
        least=2,
        most=2,
        run=_compare,
    ),
    ModelsSubcommand(
        name="card",
        words="NAME[@ALIAS|/N]",
        summary="the model card, as Markdown",
        least=1,
        most=1,
        run=_card,
    ),
    ModelsSubcommand(
        name="export",
        words="NAME[@ALIAS|/N] FOLDER",
        summary="copy a version's bundle into a new folder",
        least=2,
        most=2,
        run=_export,
    ),
    ModelsSubcommand(
        name="import",
        words="FOLDER|FILE.onnx|NAME",
        summary="register a folder or ONNX file (--name), or a model of --mlflow",
        least=1,
        most=1,
        run=_import,
    ),
    ModelsSubcommand(
        name="mirror",
        words="[NAME]",
        summary="copy versions and aliases to an MLflow server (--mlflow)",
        least=0,
        most=1,
        run=_mirror,
    ),
    ModelsSubcommand(
        name="delete",
        words="NAME VERSION",
        summary="remove a version that no alias points to",
        least=2,
        most=2,
        run=_delete,
    ),
    ModelsSubcommand(
        name="tidy",
        words="",
        summary="remove leftovers of killed processes",
        least=0,
        most=0,
        run=_tidy,
    ),
)
