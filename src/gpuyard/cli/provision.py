"""`gpuyard provision FILE --on PLATFORM -o DIR`."""

from __future__ import annotations

import argparse
import getpass
import time
import typing
from pathlib import Path

from gpuyard.app.provision import Choice, Provisioned, provision_file
from gpuyard.cli.apply import add_apply_arguments, run_apply, wants_apply
from gpuyard.cli.exits import EXIT_DONE, EXIT_INFEASIBLE
from gpuyard.cli.options import add_catalog, add_json, catalog_layers, quantity, whole
from gpuyard.errors import InputError, one_of
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms import PLATFORMS
from gpuyard.provision.settings import Framework, Settings
from gpuyard.report import print_json, print_text
from gpuyard.report.provision import provisioned_text
from gpuyard.units import DURATION
from gpuyard.workload import ConsumptionName

__all__ = ["add_arguments", "run"]

DEFAULTS = Settings()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard provision examples/pretraining.yaml --on gke -o deploy --project my-project\n"
        "  gpuyard provision examples/finetuning-lora.yaml --on compute-engine -o deploy --way spot --ttl 12h\n"
        "  gpuyard provision deploy/blueprint.json --on slurm -o deploy-slurm\n"
        "  gpuyard provision deploy --apply --yes --max-cost 500\n"
        "  gpuyard provision deploy --destroy --yes"
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a workload file, or a blueprint.json of an earlier run"
    )
    parser.add_argument("--on", default="", metavar="PLATFORM", help=", ".join(platform.name for platform in PLATFORMS))
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="where to write the files")
    parser.add_argument("--option", type=whole, default=1, metavar="N", help="which option of the plan (default 1)")
    parser.add_argument(
        "--way", choices=typing.get_args(ConsumptionName), help="how the machines are paid for; default: the cheapest"
    )
    parser.add_argument("--profile", default="", metavar="NAME", help="software of training, as in `gpuyard plan`")
    _add_place(parser)
    _add_program(parser)
    add_apply_arguments(parser)
    parser.add_argument("--fabric", type=Path, metavar="FILE", help="the fabric of your own machines, as designed")
    parser.add_argument(
        "--proof", type=Path, action="append", default=[], metavar="FILE",
        help="JSON of `fabric verify` or `simulate`, kept in the blueprint (repeat)",
    )  # fmt: skip
    add_catalog(parser)
    add_json(parser)


def _add_place(parser: argparse.ArgumentParser) -> None:
    """Where it is deployed, for whom, and for how long."""
    parser.add_argument("--project", default=DEFAULTS.project, metavar="ID", help="Google Cloud project")
    parser.add_argument("--zone", default="", help="such as us-central1-a; default: the workload's")
    parser.add_argument("--owner", default="", metavar="NAME", help="label of everything; default: your login name")
    parser.add_argument(
        "--ttl", type=quantity(DURATION), metavar="TIME",
        help="the server ends everything after this; default: 1.25 of the expected time, 7d for services",
    )  # fmt: skip
    parser.add_argument("--reservation", default=DEFAULTS.reservation, metavar="NAME", help="the reservation to use")
    parser.add_argument("--network", default="", metavar="VPC", help="an existing host network; default: one is made")
    parser.add_argument("--service-account", default="", metavar="EMAIL", help="identity of the machines")
    parser.add_argument("--namespace", default=DEFAULTS.namespace, help="of Kubernetes objects")
    parser.add_argument("--queue", default="", metavar="NAME", help="an existing queue of Kueue")
    parser.add_argument("--partition", default="", metavar="NAME", help="slurm: the partition; default: the cluster's")
    parser.add_argument("--switches", type=whole, metavar="N", help="slurm: the most leaf switches of the job")


def _add_program(parser: argparse.ArgumentParser) -> None:
    """What runs there."""
    parser.add_argument("--image", default="", help="container image; default: that of the framework or engine")
    parser.add_argument("--program", default="", metavar="TEXT", help='what runs, such as "train.py --config x"')
    parser.add_argument("--framework", choices=typing.get_args(Framework), help="default: torch, on TPUs jax")
    parser.add_argument("--bucket", default="", metavar="NAME", help="bucket of checkpoints; default: one is made")
    parser.add_argument("--ray", action="store_true", help="kubernetes: RayJob and RayService")
    parser.add_argument(
        "--no-claims", action="store_true", help="gke: RDMA networks by annotations, not by managed DRANET"
    )


def _check_needed(arguments: argparse.Namespace) -> None:
    """InputError where it is not told on what, or where to, files are written."""
    if not arguments.on:
        raise InputError.one("--on", "is missing", f"write --on {one_of([platform.name for platform in PLATFORMS])}")
    if not arguments.output:
        raise InputError.one("--output", "is missing", "write -o DIR")


def _settings(arguments: argparse.Namespace) -> Settings:
    """What was told beside the workload; the clock is read here and nowhere below."""
    return Settings(
        project=arguments.project,
        zone=arguments.zone,
        owner=arguments.owner or getpass.getuser(),
        image=arguments.image,
        program=arguments.program,
        framework=arguments.framework,
        bucket=arguments.bucket,
        ttl_s=arguments.ttl,
        made_s=float(int(time.time())),
        reservation=arguments.reservation,
        network=arguments.network,
        namespace=arguments.namespace,
        queue=arguments.queue,
        partition=arguments.partition,
        switches=arguments.switches,
        service_account=arguments.service_account,
        ray=arguments.ray,
        claims=False if arguments.no_claims else None,
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the files, or says why the platform cannot do it; makes or removes what a written folder describes."""
    if wants_apply(arguments):
        return run_apply(arguments.file, arguments)
    _check_needed(arguments)
    choice = Choice(
        option=arguments.option,
        way=arguments.way,
        profile=arguments.profile,
        fabric=arguments.fabric,
        proofs=tuple(arguments.proof),
    )
    found = provision_file(
        arguments.file, arguments.on, _settings(arguments), arguments.output, choice, catalog_layers(arguments)
    )
    if isinstance(found, Provisioned):
        if arguments.json:
            print_json(
                {
                    "folder": str(found.folder),
                    "files": found.written,
                    "exposure": found.exposure,
                    "changes": found.changes,
                    "notes": found.artefacts.notes,
                    "steps": found.artefacts.steps,
                }
            )
        else:
            shown = provisioned_text(found.blueprint, found.artefacts, found.exposure, str(found.folder), found.changes)
            print_text(shown)
        return EXIT_DONE
    kind = "unsuitable" if isinstance(found, Unsuitable) else "infeasible"
    print_json({kind: found}) if arguments.json else print_text(str(found))
    return EXIT_INFEASIBLE
