"""`gy.plan`: the clusters that can run a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from gpuyard.api.keywords import check_choice
from gpuyard.api.result import ApiResult
from gpuyard.api.workloads import PathLike, WorkloadLike, read
from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import Workspace
from gpuyard.errors import Infeasible, InputError
from gpuyard.plan.option import Option, Plan, RejectedFamily
from gpuyard.report.page import html_table
from gpuyard.report.plan import explain_option, layout_words, plan_sections
from gpuyard.report.table import Table
from gpuyard.units import DURATION, MONEY, show

TOP = 10
NetworkName = Literal["closed-form", "simulated"]


class OptionResult(ApiResult):
    """One option of a plan: a cluster with its layout, time, memory and cost."""

    __slots__ = ("number", "option", "plan")

    def __init__(self, plan: PlanResult, number: int) -> None:
        self.plan = plan
        self.number = number
        self.option: Option = plan.plan.options[number - 1]

    @property
    def machine(self) -> str:
        """Machine type."""
        return self.option.cluster.machine

    @property
    def machine_count(self) -> int:
        """Number of machines."""
        return self.option.cluster.machine_count

    @property
    def layout(self) -> str:
        """Parallelism layout, such as TP8 PP4 DP16."""
        return layout_words(self.option.arrangement)

    @property
    def step_time_s(self) -> float:
        """Optimizer step time of training, scheduler iteration time of serving."""
        return self.option.step_s

    @property
    def time_s(self) -> float:
        """Expected time to finish, with interruptions and restarts."""
        return self.option.expected_s

    @property
    def cost_usd(self) -> float | None:
        """Cost by the cheapest consumption option; None without a price."""
        return self.option.usd

    @property
    def memory_bytes(self) -> float:
        """Peak memory per chip."""
        return self.option.memory_bytes

    @property
    def why(self) -> tuple[str, ...]:
        """Reasons for this option."""
        return self.option.reasons

    def headline(self) -> str:
        cost = f", {show(self.cost_usd, MONEY)}" if self.cost_usd is not None else ""
        cluster = f"{self.machine_count} × {self.machine}"
        return f"{cluster}, {self.layout}, {show(self.time_s, DURATION)}{cost}"

    def tables(self) -> tuple[Table, ...]:
        """The option in full: facts, step time, memory, cost, platforms, storage."""
        return explain_option(self.plan.plan, self.number)

    def sections(self) -> Sequence[str]:
        return [html_table(table) for table in self.tables()]

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [{"part": part.name, "seconds": part.value} for part in self.option.step_parts]

    def value(self) -> object:
        return self.option


class PlanResult(ApiResult, Sequence[OptionResult]):
    """The options for a workload, best first; iterable, with `best` and `rejected`."""

    __slots__ = ("infeasible", "plan", "workspace")

    def __init__(self, workspace: Workspace, plan: Plan | Infeasible) -> None:
        self.workspace = workspace
        self.infeasible = plan if isinstance(plan, Infeasible) else None
        self.plan: Plan = (
            Plan(
                workload=workspace.workload.name,
                task=workspace.workload.task,
                options=(),
                rejected=(),
                searched_count=0,
            )
            if isinstance(plan, Infeasible)
            else plan
        )

    @property
    def best(self) -> OptionResult:
        """The first option; InputError with the binding constraint when there is none."""
        if self.infeasible is not None:
            binding = self.infeasible
            raise InputError.one(binding.binding, f"infeasible: {binding.what}", binding.fix)
        return OptionResult(self, 1)

    @property
    def rejected(self) -> tuple[RejectedFamily, ...]:
        """Families of candidates that were rejected, with the constraint and the fix."""
        return self.plan.rejected

    @property
    def options(self) -> tuple[OptionResult, ...]:
        """All options, best first."""
        return tuple(self)

    def __len__(self) -> int:
        return len(self.plan.options)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        numbers = range(1, len(self) + 1)[index]
        if isinstance(numbers, range):
            return [OptionResult(self, number) for number in numbers]
        return OptionResult(self, numbers)

    def headline(self) -> str:
        name = f"{self.plan.task} {self.plan.workload}"
        if self.infeasible is not None:
            return f"{name}: infeasible, {self.infeasible.binding}: {self.infeasible.what}"
        return f"{name}: {len(self)} options, best {self.best.headline()}"

    def sections(self) -> Sequence[str]:
        if self.infeasible is not None:
            return [f"<pre>{self.infeasible}</pre>"]
        return plan_sections(self.plan, TOP)

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [_option_row(option) for option in self]

    def value(self) -> object:
        return self.infeasible or self.plan


def _option_row(result: OptionResult) -> Mapping[str, object]:
    option = result.option
    bill, service = option.bill, option.service
    row: dict[str, object] = {
        "option": result.number,
        "machine": result.machine,
        "machines": result.machine_count,
        "chip": option.cluster.chip,
        "chips": option.cluster.chip_count,
        "precision": option.precision,
        "layout": result.layout,
        "step_time_s": option.step_s,
        "mfu": option.mfu_ratio,
        "tokens_per_s": option.tokens_per_s,
        "memory_bytes": option.memory_bytes,
        "time_s": option.expected_s,
        "error_ratio": option.error_ratio,
        "cost_usd": option.usd,
        "consumption": bill.consumption if bill else None,
        "region": bill.region if bill else None,
        "on_pareto_front": option.on_pareto_front,
    }
    if service is not None:
        row["replicas"] = service.replicas
        row["ttft_s"] = service.ttft.mean_s if service.ttft else None
        row["tpot_s"] = service.tpot.mean_s if service.tpot else None
    return row


def plan(
    workload: WorkloadLike,
    *,
    catalog: PathLike | Sequence[PathLike] = (),
    profile: str = "",
    network: NetworkName = "closed-form",
) -> PlanResult:
    """Plan a workload: machines, count, parallelism layout, time, memory and cost.

    Args:
        workload: a workload file, its text, a mapping with its keys, or `gy.pretraining(...)`.
        catalog: your own catalog files, over the built-in one.
        profile: training software whose measured efficiency is used.
        network: "simulated" times the first options on their own fabric.
    """
    check_choice(network, get_args(NetworkName), "network")
    workspace = read(workload, catalog=catalog)
    networks = None
    if network == "simulated":
        from gpuyard.simulate.sites.planned_networks import planned_networks

        networks = planned_networks(workspace.catalog)
    return PlanResult(workspace, plan_workload(workspace, profile=profile, networks=networks))


def option_of(subject: OptionResult | PlanResult | WorkloadLike) -> OptionResult:
    """An option, the best one of a plan, or the best one for a workload."""
    if isinstance(subject, OptionResult):
        return subject
    return (subject if isinstance(subject, PlanResult) else plan(subject)).best
