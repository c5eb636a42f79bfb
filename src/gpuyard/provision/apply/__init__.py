"""From files to machines and back: journalled, idempotent, bounded in cost."""

from gpuyard.provision.apply.calls import plan_calls
from gpuyard.provision.apply.destroy import Removal, destroy
from gpuyard.provision.apply.execute import Applied, Making, apply
from gpuyard.provision.apply.gates import check_gates
from gpuyard.provision.apply.journal import JOURNAL_FILE, Entry, Journal
from gpuyard.provision.apply.sweep import Leftover, Swept, remove_leftovers, sweep
from gpuyard.provision.apply.target import Target, check_rendering, read_target
from gpuyard.provision.apply.work import Work

__all__ = [
    "JOURNAL_FILE",
    "Applied",
    "Entry",
    "Journal",
    "Leftover",
    "Making",
    "Removal",
    "Swept",
    "Target",
    "Work",
    "apply",
    "check_gates",
    "check_rendering",
    "destroy",
    "plan_calls",
    "read_target",
    "remove_leftovers",
    "sweep",
]
