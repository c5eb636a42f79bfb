"""`gpuyard lab up|status|verify|exec|fail|heal|run|down`."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from gpuyard.app.lab import Wanted, lab_down, lab_status, lab_up, lab_verify
from gpuyard.cli.actions import Action, add_actions, run_action
from gpuyard.cli.exits import EXIT_DONE, EXIT_INFEASIBLE
from gpuyard.cli.lab_run import add_arguments as add_run
from gpuyard.cli.lab_run import run as run_lab
from gpuyard.cli.options import add_catalog, add_json, catalog_layers, quantity, whole
from gpuyard.errors import Infeasible
from gpuyard.lab.faults import fail_link, fail_switch, heal, wire_named, wires_of_device
from gpuyard.lab.host import inside
from gpuyard.lab.saved import recall
from gpuyard.report import print_doing, print_json, print_table, print_text
from gpuyard.report.fabric import findings_table
from gpuyard.report.lab import raised_lines, status_table
from gpuyard.units import BITS_PER_S, DURATION

__all__ = ["ACTIONS", "add_arguments", "run"]


def _add_name(parser: argparse.ArgumentParser) -> None:
    """`--name`."""
    parser.add_argument("--name", default="lab", metavar="NAME", help="which lab (default lab)")


def _add_up(parser: argparse.ArgumentParser) -> None:
    """The arguments of `up`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a saved fabric, a demand or a workload")
    parser.add_argument("--servers", type=whole, metavar="N", help="scale down to so many (default: at most 8)")
    parser.add_argument(
        "--rate", type=quantity(BITS_PER_S), default=200e6, metavar="SPEED",
        help="of a NIC on this host, default 200Mbps; other links keep their ratio to it",
    )  # fmt: skip
    parser.add_argument("--bfd", type=quantity(DURATION), metavar="TIME", help="interval of BFD, default as designed")
    parser.add_argument(
        "--cross", nargs=2, metavar="SWITCH", help="exchange the first uplinks of two switches: a miswiring to be found"
    )
    _add_name(parser)
    add_catalog(parser)
    add_json(parser)


def _up(arguments: argparse.Namespace) -> int:
    """Boots the lab."""
    wanted = Wanted(
        name=arguments.name, servers_count=arguments.servers, rate_bits_per_s=arguments.rate,
        bfd_interval_s=arguments.bfd, crossed=tuple(arguments.cross) if arguments.cross else None,
    )  # fmt: skip
    raised = lab_up(arguments.file, wanted, catalog_layers(arguments), print_doing)
    if isinstance(raised, Infeasible):
        print_json({"infeasible": raised}) if arguments.json else print_text(str(raised))
        return EXIT_INFEASIBLE
    if arguments.json:
        print_json(raised)
    else:
        print_text("\n".join(raised_lines(raised)))
        print_text("gpuyard lab status | verify | run | fail | heal | exec | down")
    return EXIT_DONE


def _add_plain(parser: argparse.ArgumentParser) -> None:
    """The arguments of an action that takes a name alone."""
    _add_name(parser)
    add_json(parser)


def _status(arguments: argparse.Namespace) -> int:
    """Prints sessions, routes and equal paths."""
    found = lab_status(arguments.name)
    print_json(found) if arguments.json else print_table(status_table(found))
    return EXIT_DONE if found.is_converged else EXIT_INFEASIBLE


def _verify(arguments: argparse.Namespace) -> int:
    """Prints what differs from design and computation."""
    found = lab_verify(arguments.name)
    print_json(found) if arguments.json else print_table(findings_table(found))
    return EXIT_DONE if found.is_sound else EXIT_INFEASIBLE


def _add_exec(parser: argparse.ArgumentParser) -> None:
    """The arguments of `exec`."""
    _add_plain(parser)
    parser.add_argument("device", metavar="DEVICE", help="a switch or a server")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run there")


def _exec(arguments: argparse.Namespace) -> int:
    """Runs a command in a device's network."""
    lab = recall(arguments.name)
    wires_of_device(lab, arguments.device)
    words = [word for word in arguments.words if word != "--"] or ["ip", "address"]
    done = subprocess.run(
        inside(lab.namespace(arguments.device), words), check=False, capture_output=arguments.json, text=True
    )
    if arguments.json:
        print_json({"exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr})
    return done.returncode


def _add_fail(parser: argparse.ArgumentParser) -> None:
    """The arguments of `fail`."""
    parser.epilog = "examples:\n  gpuyard lab fail link leaf-s1-r1 spine-1\n  gpuyard lab fail switch spine-2 --silent"
    parser.add_argument("what", choices=("link", "switch"), help="a cable between two devices, or a whole device")
    parser.add_argument("devices", nargs="+", metavar="DEVICE", help="two ends of a cable, or one device")
    parser.add_argument("--silent", action="store_true", help="a switch that drops everything while its links stay up")
    _add_plain(parser)


def _fail(arguments: argparse.Namespace) -> int:
    """Breaks something."""
    lab = recall(arguments.name)
    if arguments.what == "link":
        if len(arguments.devices) != 2:
            print_text("error: fail link: two devices are needed\n  fix: gpuyard lab fail link LEAF SPINE")
            return 2
        wire = wire_named(lab, *arguments.devices)
        fail_link(lab, wire)
        said = f"{wire.a} – {wire.b} is down"
    else:
        for device in arguments.devices:
            fail_switch(lab, device, silent=arguments.silent)
        said = f"{', '.join(arguments.devices)}: {'silent' if arguments.silent else 'gone'}"
    print_json({"failed": said}) if arguments.json else print_text(said)
    return EXIT_DONE


def _heal(arguments: argparse.Namespace) -> int:
    """Mends everything."""
    mended = heal(recall(arguments.name))
    print_json({"ends_mended": mended}) if arguments.json else print_text(f"{mended} ends of cables mended")
    return EXIT_DONE


def _add_down(parser: argparse.ArgumentParser) -> None:
    """The arguments of `down`."""
    parser.add_argument("--all", action="store_true", help="every lab on this host, whoever made it")
    _add_plain(parser)


def _down(arguments: argparse.Namespace) -> int:
    """Takes it down."""
    gone = lab_down(None if arguments.all else arguments.name)
    print_json({"removed": gone}) if arguments.json else print_text(f"removed: {', '.join(gone) or 'nothing stood'}")
    return EXIT_DONE


ACTIONS = (
    Action(name="up", summary="boot a fabric on this host, scaled down, and wait for its routes",
           add_arguments=_add_up, run=_up),
    Action(name="status", summary="sessions, routes and equal paths against the design",
           add_arguments=_add_plain, run=_status),
    Action(name="verify", summary="cables, daemons and kernel against design and computation",
           add_arguments=_add_plain, run=_verify),
    Action(name="exec", summary="run a command in the network of a device", add_arguments=_add_exec, run=_exec),
    Action(name="fail", summary="pull a cable or take a switch away", add_arguments=_add_fail, run=_fail),
    Action(name="heal", summary="put everything back", add_arguments=_add_plain, run=_heal),
    Action(name="run", summary="measure all-reduce and train across the lab, with failures",
           add_arguments=add_run, run=run_lab),
    Action(name="down", summary="take it down; nothing is left", add_arguments=_add_down, run=_down),
)  # fmt: skip


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
    """Runs the action that was named."""
    return run_action(arguments)
