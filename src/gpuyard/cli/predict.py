"""`gpuyard predict MODEL FILE -o OUT`."""

from __future__ import annotations

import argparse

from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json, add_option
from gpuyard.errors import InputError
from gpuyard.report.terminal import print_result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard predict churn@champion rows.parquet -o predictions.parquet\n"
        "  gpuyard predict churn/3 rows.csv -o predictions.csv --keep"
    )
    add_option(parser, "MODEL", "NAME, NAME@ALIAS, NAME/3 or a folder with a model.json")
    add_option(parser, "FILE", "rows with the raw columns of the training data")
    add_option(parser, "-o, --out PATH", "a .parquet or .csv file", required=True)
    add_option(parser, "--keep", "also write the columns of the file")
    add_option(
        parser,
        "--engine NAME",
        "local, or ray: batches as tasks of a cluster that sees the model's folder",
        type=str,
        default="local",
    )
    add_option(
        parser, "--address HOST:PORT", "Ray cluster address (default $RAY_ADDRESS, else start one)"
    )
    add_option(parser, "--allow-code", "run Python code that is part of the model, as this user")
    add_home(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Predict the rows and print where the predictions are."""
    from gpuyard.app.batch_predict import predict_file  # needs gpuyard[run]
    from gpuyard.datasets.engines.ray import RayDataEngine

    if arguments.engine not in ("local", "ray"):
        raise InputError.one("--engine", f'no engine "{arguments.engine}"', "use local or ray")
    ray = RayDataEngine(address=arguments.address) if arguments.engine == "ray" else None
    done = predict_file(
        arguments.model,
        arguments.file,
        arguments.out,
        home=home_of(arguments),
        keep=arguments.keep,
        allow_code=arguments.allow_code,
        ray=ray,
    )
    print_result(
        done, f"{done.rows:,} rows predicted by {done.model}: {done.out}", as_json=arguments.json
    )
    return 0
