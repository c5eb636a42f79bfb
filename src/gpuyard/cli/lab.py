"""`gpuyard lab up|status|verify|exec|fail|heal|run|down`."""

from __future__ import annotations

import argparse
import subprocess

from gpuyard.app.lab import LabOptions, lab_down, lab_status, lab_up, lab_verify
from gpuyard.cli.lab_run import add_arguments as add_run
from gpuyard.cli.lab_run import run as run_lab
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_layers
from gpuyard.cli.subcommands import Subcommand, add_actions, run_action
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK, Infeasible
from gpuyard.lab.faults import fail_link, fail_switch, heal, link_between, links_of_device
from gpuyard.lab.host import on_device
from gpuyard.lab.saved import load
from gpuyard.report.fabric import findings_table
from gpuyard.report.lab import raised_lines, status_table
from gpuyard.report.terminal import print_json, print_result, print_status, print_text


def _add_name(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--name NAME", "which lab (default lab)", default="lab")


def _add_up(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "FILE", "a saved fabric, a demand or a workload")
    add_option(parser, "--servers N", "scale down to N servers (default: at most 8)")
    add_option(
        parser,
        "--rate SPEED",
        "NIC speed on this host (default 200Mbps); other links scale with it",
        default=200e6,
    )
    add_option(parser, "--bfd TIME", "BFD interval (default: as designed)")
    parser.add_argument(
        "--miswire",
        nargs=2,
        metavar="SWITCH",
        help="swap the first uplinks of two switches, a miswiring for verify to find",
    )
    _add_name(parser)
    add_catalog(parser)
    add_json(parser)


def _up(arguments: argparse.Namespace) -> int:
    options = LabOptions(
        name=arguments.name,
        servers_count=arguments.servers,
        rate_bits_per_s=arguments.rate,
        bfd_interval_s=arguments.bfd,
        crossed=tuple(arguments.miswire) if arguments.miswire else None,
    )
    raised = lab_up(arguments.file, options, catalog_layers(arguments), print_status)
    if isinstance(raised, Infeasible):
        print_result({"infeasible": raised}, str(raised), as_json=arguments.json)
        return EXIT_INFEASIBLE
    if arguments.json:
        print_json(raised)
    else:
        print_text("\n".join(raised_lines(raised)))
        print_text("gpuyard lab status | verify | run | fail | heal | exec | down")
    return EXIT_OK


def _add_plain(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    add_json(parser)


def _status(arguments: argparse.Namespace) -> int:
    lab_state = lab_status(arguments.name)
    print_result(lab_state, status_table(lab_state), as_json=arguments.json)
    return EXIT_OK if lab_state.is_converged else EXIT_INFEASIBLE


def _verify(arguments: argparse.Namespace) -> int:
    verification = lab_verify(arguments.name)
    print_result(verification, findings_table(verification), as_json=arguments.json)
    return EXIT_INFEASIBLE if verification.has_errors else EXIT_OK


def _add_exec(parser: argparse.ArgumentParser) -> None:
    _add_plain(parser)
    add_option(parser, "DEVICE", "a switch or a server")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="command to run")


def _exec(arguments: argparse.Namespace) -> int:
    lab = load(arguments.name)
    links_of_device(lab, arguments.device)
    words = [word for word in arguments.words if word != "--"] or ["ip", "address"]
    done = subprocess.run(
        on_device(lab.namespace(arguments.device), words),
        check=False,
        capture_output=arguments.json,
        text=True,
    )
    if arguments.json:
        print_json({"exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr})
    return done.returncode


def _add_fail(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n  gpuyard lab fail link leaf-s1-r1 spine-1\n  gpuyard lab fail switch spine-2"
        " --silent"
    )
    add_option(
        parser, "what", "a cable between two devices, or a whole device", choices=("link", "switch")
    )
    add_option(parser, "devices DEVICE+", "two ends of a cable, or one device")
    add_option(parser, "--silent", "the switch drops all packets while its links stay up")
    _add_plain(parser)


def _fail(arguments: argparse.Namespace) -> int:
    lab = load(arguments.name)
    if arguments.what == "link":
        if len(arguments.devices) != 2:
            print_text(
                "error: fail link: two devices are needed\n  fix: gpuyard lab fail link LEAF SPINE"
            )
            return 2
        link = link_between(lab, *arguments.devices)
        fail_link(lab, link)
        message = f"{link.a} – {link.b} is down"
    else:
        for device in arguments.devices:
            fail_switch(lab, device, silent=arguments.silent)
        message = f"{', '.join(arguments.devices)}: {'silent' if arguments.silent else 'down'}"
    print_result({"failed": message}, message, as_json=arguments.json)
    return EXIT_OK


def _heal(arguments: argparse.Namespace) -> int:
    restored = heal(load(arguments.name))
    print_result(
        {"link_ends_restored": restored}, f"{restored} link ends restored", as_json=arguments.json
    )
    return EXIT_OK


def _add_down(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--all", "every lab on this host, also those of other users")
    _add_plain(parser)


def _down(arguments: argparse.Namespace) -> int:
    gone = lab_down(None if arguments.all else arguments.name)
    print_result(
        {"removed": gone},
        f"removed: {', '.join(gone) or 'no lab was running'}",
        as_json=arguments.json,
    )
    return EXIT_OK


ACTIONS = (
    Subcommand(
        name="up",
        summary="boot a fabric on this host, scaled down, and wait for its routes",
        add_arguments=_add_up,
        run=_up,
    ),
    Subcommand(
        name="status",
        summary="compare sessions, routes and ECMP paths with the design",
        add_arguments=_add_plain,
        run=_status,
    ),
    Subcommand(
        name="verify",
        summary="verify cables, daemons and kernel routes against the design",
        add_arguments=_add_plain,
        run=_verify,
    ),
    Subcommand(
        name="exec",
        summary="run a command in the network of a device",
        add_arguments=_add_exec,
        run=_exec,
    ),
    Subcommand(
        name="fail",
        summary="fail a link or a switch",
        add_arguments=_add_fail,
        run=_fail,
    ),
    Subcommand(name="heal", summary="repair all failures", add_arguments=_add_plain, run=_heal),
    Subcommand(
        name="run",
        summary="measure all-reduce and train across the lab, with failures",
        add_arguments=add_run,
        run=run_lab,
    ),
    Subcommand(
        name="down",
        summary="stop the lab and remove everything it created",
        add_arguments=_add_down,
        run=_down,
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's actions, each with its own arguments."""
    parser.epilog = (
        "examples:\n"
        "  sudo gpuyard lab up fabric.json --servers 8\n"
        "  sudo gpuyard lab verify\n"
        "  sudo gpuyard lab run --fail spine-1\n"
        "  sudo gpuyard lab down\n"
        "needs root, and Debian's frr and iproute2"
    )
    add_actions(parser, ACTIONS)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    return run_action(arguments)
