"""`gy.provision`: the files that deploy an option on a platform."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import cast, get_args

from gpuyard.api.fabrics import FabricLike, fabric_of
from gpuyard.api.keywords import check_choice, replace_keywords
from gpuyard.api.planning import OptionResult, PlanResult, option_of
from gpuyard.api.result import ApiResult
from gpuyard.api.workloads import WorkloadLike
from gpuyard.app.provision import Provisioned, blueprint_of_option, write_deployment
from gpuyard.app.provision import provision as provision_blueprint
from gpuyard.errors import InputError
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platform import Unsuitable
from gpuyard.units import MONEY, show
from gpuyard.workload.where import ConsumptionName


class DeploymentResult(ApiResult):
    """Rendered deployment files of one option on one platform."""

    __slots__ = ("deployment", "platform")

    def __init__(self, deployment: Provisioned, platform: str) -> None:
        self.deployment = deployment
        self.platform = platform

    @property
    def files(self) -> dict[str, str]:
        """Text of every file, by name."""
        return {file.name: file.text for file in self.deployment.files}

    @property
    def max_cost_usd(self) -> float | None:
        """The most that applying it can cost; None without a price."""
        return self.deployment.cost_bound.max_usd

    def write(self, folder: str | Path) -> Path:
        """Write the files; `gpuyard provision FOLDER --apply` creates what they describe."""
        write_deployment(Path(folder), self.deployment.files)
        return Path(folder)

    def headline(self) -> str:
        maximum = self.max_cost_usd
        cost = f", costs up to {show(maximum, MONEY)}" if maximum is not None else ""
        return f"{len(self.deployment.files)} files for {self.platform}{cost}"

    def sections(self) -> Sequence[str]:
        readme = escape(self.files["README.md"])
        return [f"<p>{escape(self.headline())}</p>", f"<pre>{readme}</pre>"]

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [{"file": name, "characters": len(text)} for name, text in self.files.items()]

    def value(self) -> object:
        return {"platform": self.platform, "files": self.files}


def provision(
    option: OptionResult | PlanResult | WorkloadLike,
    platform: str,
    *,
    consumption: str | None = None,
    fabric: FabricLike | None = None,
    **settings: object,
) -> DeploymentResult:
    """Render the files that deploy an option on a platform.

    Args:
        option: an option, a plan (its best option), or a workload (its plan's best option).
        platform: "gke", "slurm", "compute-engine", "vertex-ai", "cloud-run", …
        consumption: "on-demand", "spot", "flex-start" or "reservation"; default: the cheapest.
        fabric: the designed fabric of on-premises machines: a result, a value or a saved file.
        settings: project, zone, image, program, ttl, … as the flags of `gpuyard provision`.
    """
    option = option_of(option)
    if consumption is not None:
        check_choice(consumption, get_args(ConsumptionName), "consumption")
    workspace = option.plan.workspace
    blueprint = blueprint_of_option(
        workspace,
        option.plan.plan,
        option.number,
        consumption=cast(ConsumptionName | None, consumption),
        fabric=None if fabric is None else fabric_of(fabric).fabric,
    )
    base = DeploymentSettings(owner=getpass.getuser(), rendered_s=float(int(time.time())))
    deployed = replace_keywords(base, settings, "provision()")
    result = provision_blueprint(blueprint, platform, deployed, workspace.catalog)
    if isinstance(result, Unsuitable):
        raise InputError.one("platform", f"{platform}: {result.why}", result.fix)
    return DeploymentResult(result, platform)
