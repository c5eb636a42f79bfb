"""The first options of a plan, timed again with a slower network model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.machines import Machine
from gpuyard.errors import Infeasible
from gpuyard.perf.collectives import ClosedForm, Collective, NetworkModel, RankGroup
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import Array
from gpuyard.perf.training import step_time
from gpuyard.plan.limits import LimitViolation
from gpuyard.plan.option import Option, Plan
from gpuyard.plan.shortlist import SHORTLIST, retime_shortlist
from gpuyard.plan.training import option_case, plan_training
from gpuyard.workload.read import read_workload
from gpuyard.workload.workload import Workload

EXAMPLES = Path(__file__).parents[2] / "examples"
CATALOG = load_catalog()


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """Every collective takes so long."""

    seconds: float

    def time_s(
        self,
        collective: Collective,
        size_bytes: Array,
        ranks: Array,
        group: RankGroup = RankGroup(),
    ) -> Array:
        assert collective
        return np.where(ranks * group.stride > 0, self.seconds, 0.0) + 0.0 * size_bytes


def workload() -> Workload:
    return read_workload(EXAMPLES / "pretraining-onprem.yaml", CATALOG)


def planned(network: NetworkModel | None = None) -> Plan:
    def networks(
        machine: Machine, count: int, switch: str | None, constants: TrainingConstants
    ) -> NetworkModel | None:
        assert (machine.name, switch) == ("dgx-h100", "sn5600")
        assert count >= 1
        assert constants.nic_ratio > 0
        return network

    found = plan_training(workload(), CATALOG, networks=networks if network else None)
    assert not isinstance(found, Infeasible)
    return found


def test_slow_network_lengthens_steps() -> None:
    quick, slow = planned(), planned(Late(seconds=0.01))
    before = {
        (option.cluster.machine_count, option.precision): option.step_s for option in quick.options
    }
    for option in slow.options[:SHORTLIST]:
        if option.cluster.machine_count > 1:
            assert option.step_s > before[option.cluster.machine_count, option.precision]
            assert option.step_s == pytest.approx(sum(part.value for part in option.step_parts))
    assert any("simulated as flows" in note for note in slow.notes)


def test_option_case_reproduces_step_time() -> None:
    option = planned().options[0]
    case, layout = option_case(workload(), CATALOG, option)
    assert layout.tp.shape == ()
    closed = ClosedForm(chip=case.chip, constants=case.constants)
    step = step_time(case.arch, layout, case.chip, case.soft, case.constants, closed)
    assert float(step.total_s) == pytest.approx(option.step_s)


def test_options_that_move_up_are_timed_again() -> None:
    options = planned().options
    seen: list[Option] = []

    def again(option: Option) -> Option | LimitViolation:
        seen.append(option)
        if len(seen) == 1:
            return LimitViolation(
                family="f", binding="deadline", ratio=2.0, what="too late", fix="wait"
            )
        return replace(option, expected_s=option.expected_s * 100)

    kept, misses = retime_shortlist(options, again, count=2)
    assert len(seen) == len(set(map(id, seen))) >= 3
    assert len(kept) == len(options) - 1
    assert [miss.what for miss in misses] == ["too late"]
