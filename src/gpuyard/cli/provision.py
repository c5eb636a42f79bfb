"""`gpuyard provision FILE --on PLATFORM -o DIR`."""

from __future__ import annotations

import argparse
import getpass
import time
import typing

from gpuyard.app.fabric import read_fabric
from gpuyard.app.plan import plan_workload
from gpuyard.app.provision import (
    blueprint_of_option,
    changes_since,
    default_option,
    provision,
    read_blueprint,
    read_evidence,
    write_deployment,
)
from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import Catalog
from gpuyard.cli.apply import add_apply_arguments, run_apply, wants_apply
from gpuyard.cli.options import (
    add_catalog,
    add_json,
    add_option,
    catalog_of,
    workspace_of,
)
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK, Infeasible, InputError, choices_text
from gpuyard.provision.deployment_settings import DeploymentSettings, FileFormat, Framework
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms import PLATFORMS
from gpuyard.report.provision import provisioned_text, unbounded_text
from gpuyard.report.terminal import print_json, print_result, print_text, print_warning
from gpuyard.workload.where import ConsumptionName

DEFAULTS = DeploymentSettings()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard provision examples/pretraining.yaml --on gke -o deploy --project my-project\n"
        "  gpuyard provision examples/pretraining.yaml --on gke -o deploy --format terraform\n"
        "  gpuyard provision examples/finetuning-lora.yaml --on compute-engine -o deploy"
        " --consumption spot --ttl 12h\n"
        "  gpuyard provision deploy/blueprint.json --on slurm -o deploy-slurm\n"
        "  gpuyard provision deploy --apply --yes --max-cost 500\n"
        "  gpuyard provision deploy --destroy --yes"
    )
    add_option(parser, "FILE", "a workload file, or a saved blueprint.json")
    add_option(
        parser, "--on PLATFORM", ", ".join(platform.name for platform in PLATFORMS), default=""
    )
    add_option(parser, "-o, --output DIR", "output folder")
    add_option(parser, "--option N", "option of the plan; default: the first that can be deployed")
    add_option(
        parser,
        "--consumption",
        "consumption option; default: the cheapest",
        choices=typing.get_args(ConsumptionName),
    )
    add_option(
        parser, "--profile NAME", "training software profile, as in `gpuyard plan`", default=""
    )
    add_option(
        parser,
        "--format",
        "what creates the resources of Google Cloud: api (requests, with --apply) or terraform",
        choices=typing.get_args(FileFormat),
        default=DEFAULTS.format,
    )
    _add_place(parser)
    _add_program(parser)
    add_apply_arguments(parser)
    add_option(parser, "--fabric FILE", "designed fabric of on-premises machines")
    add_option(
        parser,
        "--proof FILE...",
        "JSON of `fabric verify` or `simulate`, saved in the blueprint (repeatable)",
    )
    add_catalog(parser)
    add_json(parser)


def _add_place(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--project ID", "Google Cloud project", default=DEFAULTS.project)
    add_option(parser, "--zone ZONE", "such as us-central1-a; default: the workload's", default="")
    add_option(parser, "--owner NAME", "owner label; default: your login name", default="")
    add_option(
        parser,
        "--ttl TIME",
        "time to live: the provider terminates everything after this; default: 1.25 × the"
        " expected time, 7d for services",
    )
    add_option(parser, "--reservation NAME", "reservation to use", default=DEFAULTS.reservation)
    add_option(parser, "--network VPC", "existing VPC network; default: create one", default="")
    add_option(parser, "--service-account EMAIL", "service account of the machines", default="")
    add_option(parser, "--namespace NAMESPACE", "Kubernetes namespace", default=DEFAULTS.namespace)
    add_option(parser, "--queue NAME", "existing Kueue queue", default="")
    add_option(parser, "--partition NAME", "slurm: partition; default: the cluster's", default="")
    add_option(parser, "--switches N", "slurm: maximum number of leaf switches of the job")


def _add_program(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser, "--image IMAGE", "container image; default: the framework's or engine's", default=""
    )
    add_option(
        parser, "--program TEXT", 'program to run, such as "train.py --config x"', default=""
    )
    add_option(
        parser,
        "--framework",
        "default: the plan's training software; with --program torch, on TPUs jax",
        choices=typing.get_args(Framework),
    )
    add_option(
        parser,
        "--framework-args TEXT",
        'appended to the framework\'s command line, such as "optimizer.lr=1e-4"',
        default="",
    )
    add_option(parser, "--bucket NAME", "checkpoint bucket; default: create one", default="")
    add_option(parser, "--ray", "kubernetes: render RayJob and RayService")
    add_option(
        parser,
        "--gateway",
        "gke, kubernetes: render an inference gateway, which routes to the replica that has the"
        " prefix in its KV cache",
    )
    add_option(
        parser,
        "--gateway-class NAME",
        "GatewayClass; default: gke-l7-rilb on Google Cloud, istio elsewhere",
        default="",
    )
    add_option(
        parser,
        "--no-dra",
        "gke: RDMA networks by annotations, not by dynamic resource allocation (DRANET)",
    )


def _check_needed(arguments: argparse.Namespace) -> None:
    if not arguments.on:
        raise InputError.one(
            "--on",
            "is missing",
            f"write --on {choices_text([platform.name for platform in PLATFORMS])}",
        )
    if not arguments.output:
        raise InputError.one("--output", "is missing", "write -o DIR")


def _settings(arguments: argparse.Namespace) -> DeploymentSettings:
    """Deployment settings of the flags; the clock is read here and nowhere below."""
    return DeploymentSettings(
        project=arguments.project,
        zone=arguments.zone,
        owner=arguments.owner or getpass.getuser(),
        image=arguments.image,
        program=arguments.program,
        framework=arguments.framework,
        framework_args=arguments.framework_args,
        bucket=arguments.bucket,
        ttl_s=arguments.ttl,
        rendered_s=float(int(time.time())),
        reservation=arguments.reservation,
        network=arguments.network,
        namespace=arguments.namespace,
        queue=arguments.queue,
        partition=arguments.partition,
        switches=arguments.switches,
        service_account=arguments.service_account,
        ray=arguments.ray,
        gateway=arguments.gateway or bool(arguments.gateway_class),
        gateway_class=arguments.gateway_class,
        format=arguments.format,
        claims=False if arguments.no_dra else None,
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the files, or apply or destroy a rendered folder."""
    if wants_apply(arguments):
        return run_apply(arguments.file, arguments)
    _check_needed(arguments)
    blueprint, catalog, note = _blueprint(arguments)
    if isinstance(blueprint, Infeasible):
        return _refuse("infeasible", blueprint, arguments)
    deployment = provision(blueprint, arguments.on, _settings(arguments), catalog)
    if isinstance(deployment, Unsuitable):
        return _refuse("unsuitable", deployment, arguments)
    changes = changes_since(arguments.output, blueprint)
    write_deployment(arguments.output, deployment.files)
    if arguments.json:
        print_json(
            {
                "folder": str(arguments.output),
                "files": deployment.names,
                "exposure": deployment.cost_bound,
                "changes": changes,
                "notes": (*((note,) if note else ()), *deployment.artefacts.notes),
                "steps": deployment.artefacts.steps,
            }
        )
    else:
        folder = str(arguments.output)
        if note:
            print_text(f"note: {note}")
        print_text(
            provisioned_text(
                blueprint, deployment.artefacts, deployment.cost_bound, folder, changes
            )
        )
        if warning := unbounded_text(deployment.cost_bound):
            print_warning(f"warning: {warning}")
    return EXIT_OK


def _blueprint(arguments: argparse.Namespace) -> tuple[Blueprint | Infeasible, Catalog, str]:
    """A saved blueprint, or an option of a workload's plan; the catalog; a note on the option."""
    if arguments.file.suffix == ".json":
        return read_blueprint(arguments.file), catalog_of(arguments), ""
    workspace = workspace_of(arguments)
    plan = plan_workload(workspace, profile=arguments.profile)
    if isinstance(plan, Infeasible):
        return plan, workspace.catalog, ""
    number, note = arguments.option, ""
    if not number:
        number, note = default_option(plan, arguments.on)
    blueprint = blueprint_of_option(
        workspace,
        plan,
        number,
        consumption=arguments.consumption,
        fabric=read_fabric(arguments.fabric) if arguments.fabric else None,
        evidence=tuple(row for file in arguments.proof for row in read_evidence(file)),
    )
    return blueprint, workspace.catalog, note


def _refuse(kind: str, reason: Infeasible | Unsuitable, arguments: argparse.Namespace) -> int:
    print_result({kind: reason}, str(reason), as_json=arguments.json)
    return EXIT_INFEASIBLE
