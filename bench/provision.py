"""Provisioning: what renders, what lints, which mutations lint catches, which kills apply survives.

    python bench/provision.py                         everything, some minutes
    python bench/provision.py --only mutations
    python bench/provision.py --only public --public DIR    public manifests in a folder

Prints one row per part. Runs from a checkout; needs no network. The platform's own tool (bash,
kubectl, sbatch, terraform) parses the files where it is installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
# Not by the name `tests`: packages of that name get installed with other projects.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import open_workspace
from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.blueprint.make import consumption_options, make_blueprint
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import (
    DeploymentSettings,
    ResolvedSettings,
    resolve_settings,
)
from gpuyard.provision.extra_files import with_extra_files
from gpuyard.provision.lint import lint
from gpuyard.provision.platform import Artefacts, Unsuitable
from gpuyard.provision.platforms import PLATFORMS
from mutations import mutations
from provision.apply.folders import fresh, render, runner
from provision.apply.test_kill import SAMPLES, named
from provision.fake.server import serve
from provision.platforms.test_examples import distinct
from provision.terraform.test_module import with_provider

ROOT = Path(__file__).parents[1]
SETTINGS = DeploymentSettings(project="my-project", owner="somebody", rendered_s=1_800_000_000.0)
TARGET = 0.95  # of the mutations
KILL_STEP = 7  # every seventh point of each deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Files that are deployed together."""

    name: str
    files: tuple[Artefact, ...]
    extra_files: tuple[Artefact, ...] = ()


def examples() -> list[Path]:
    return sorted(
        [*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples").glob("*/workload.yaml")]
    )


def blueprints_of(file: Path) -> list[Blueprint]:
    """One blueprint per machine, engine, replica size and consumption option of an example."""
    workspace = open_workspace(file)
    if workspace.workload.where.provider == "local":
        return []
    plan = plan_workload(workspace)
    if isinstance(plan, Infeasible):
        return []
    found = []
    for number, option in enumerate(plan.options, start=1):
        machine = workspace.catalog.machine(option.cluster.machine)
        ways = consumption_options(machine, workspace.workload) or (None,)
        for way in ways if machine.provider == "google" else (None,):
            found.append(
                make_blueprint(workspace.workload, plan, number, workspace.catalog, consumption=way)
            )
    return distinct(found)


def rendered(first_only: bool = False) -> tuple[list[Deployment], int]:
    """Every distinct option of every example on every platform, and how many were refused."""
    deployments, refused = [], 0
    for file in examples():
        found = blueprints_of(file)
        for blueprint in found[:1] if first_only else found:
            for platform in PLATFORMS:
                settings = resolve_settings(blueprint, SETTINGS)
                result = platform.render(blueprint, settings)
                if isinstance(result, Unsuitable):
                    refused += 1
                    continue
                name = f"{file.parent.name}/{file.stem} {platform.name} {blueprint.number}"
                extra = with_module(result, settings).extra_files
                deployments.append(Deployment(name=name, files=result.files, extra_files=extra))
    return deployments, refused


def with_module(artefacts: Artefacts, settings: ResolvedSettings) -> Artefacts:
    """The artefacts with a Terraform module, where the provider has resources for them."""
    try:
        return with_extra_files(
            artefacts, replace(settings, requested=replace(SETTINGS, format="terraform"))
        )
    except InputError:
        return with_extra_files(artefacts, settings)


def rows_of(files: Sequence[Artefact], catalog: Catalog) -> Counter[tuple[str, str]]:
    found = lint(files, catalog).findings
    return Counter((row.rule, row.what) for row in found if row.severity != "note")


def bench_rendered(catalog: Catalog) -> bool:
    start = time.perf_counter()
    deployments, refused = rendered()
    errors = Counter(
        row.rule for item in deployments for row in lint(item.files, catalog).findings
        if row.severity == "error"
    )  # fmt: skip
    seconds = time.perf_counter() - start
    print(
        f"rendered   {len(deployments):6} deployments of {len(examples())} examples on "
        f"{len(PLATFORMS)} platforms, {refused} refused with a reason; lint errors: "
        f"{dict(errors) or 'none'}; {seconds:.0f} s"
    )
    # An option whose checkpoint does not fit is refused by provision with that reason.
    return not (errors.keys() - {"weights-fit"})


def bench_parsed(_: Catalog) -> bool:
    deployments, _refused = rendered(first_only=True)
    tools = {"bash": ("bash", "-n")}
    if shutil.which("sinfo") and subprocess.run(("sinfo",), capture_output=True).returncode == 0:
        tools["sbatch"] = ("sbatch", "--test-only")  # needs a controller
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    with tempfile.TemporaryDirectory() as folder:
        for item in deployments:
            for file in item.files:
                for tool, command in tools.items():
                    wanted = (".sbatch", ".sh") if tool == "bash" else (".sbatch",)
                    if not file.name.endswith(wanted) or shutil.which(tool) is None:
                        continue
                    path = Path(folder) / Path(file.name).name
                    path.write_text(file.text, encoding="utf-8")
                    done = subprocess.run((*command, str(path)), capture_output=True, check=False)
                    counts[tool][0] += 1
                    counts[tool][1] += done.returncode != 0
    for tool in tools:
        print(f"parsed     {tool}: {counts[tool][0]} files, {counts[tool][1]} rejected")
    if "sbatch" not in tools:
        print("parsed     sbatch: no controller here")
    folders = [bench_folder(deployments, *row) for row in folder_tools()]
    return not any(rejected for _, rejected in counts.values()) and all(folders)


def folder_tools() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Tools that read a whole folder: name, the file that they need, command, folder."""
    if shutil.which("kubectl"):
        yield "kubectl kustomize", "kustomization.yaml", ("kubectl", "kustomize", "."), "."
    if shutil.which("terraform"):
        yield "terraform validate", "terraform/main.tf", ("terraform", "validate"), "terraform"
        yield "terraform fmt", "terraform/main.tf", ("terraform", "fmt", "-check"), "terraform"


def bench_folder(
    deployments: Sequence[Deployment], tool: str, needed: str, command: tuple[str, ...], inside: str
) -> bool:
    """Print how many folders a tool reads, of those with the file that it needs."""
    read, rejected = 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        environment = {**os.environ, **with_provider(Path(temporary))}
        for index, item in enumerate(deployments):
            files = (*item.files, *item.extra_files)
            if all(file.name != needed for file in files):
                continue
            folder = Path(temporary) / str(index)
            for file in files:
                (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
                (folder / file.name).write_text(file.text, encoding="utf-8")
            done = subprocess.run(
                command, cwd=folder / inside, env=environment, capture_output=True, check=False
            )
            read += 1
            rejected += done.returncode != 0
    print(f"parsed     {tool}: {read} folders, {rejected} rejected")
    return not rejected


def caught(deployments: Sequence[Deployment], catalog: Catalog, label: str) -> bool:
    """Mutate every file of every deployment, and print how many mutations lint catches."""
    start = time.perf_counter()
    tried: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for item in deployments:
        try:
            before = rows_of(item.files, catalog)
        except InputError:
            continue
        manifests = [file.text for file in item.files if file.name.endswith(".yaml")]
        for index, file in enumerate(item.files):
            for mutation in mutations(file.name, file.text, "\n---\n".join(manifests)):
                tried[mutation.kind] += 1
                changed = Artefact(name=file.name, text=mutation.text)
                files = (*item.files[:index], changed, *item.files[index + 1 :])
                try:
                    missed[mutation.kind] += not rows_of(files, catalog) - before
                except InputError:
                    continue
    total, lost = sum(tried.values()), sum(missed.values())
    share = 1.0 - lost / total if total else 0.0
    seconds = time.perf_counter() - start
    print(
        f"{label:10} {total:6} mutations of {len(tried)} kinds, {share:.1%} caught; {seconds:.0f} s"
    )
    for kind, count in missed.most_common():
        if count:
            print(f"             missed {count} of {tried[kind]}: {kind}")
    return share >= TARGET


def bench_mutations(catalog: Catalog) -> bool:
    seen: dict[tuple[str, ...], Deployment] = {}
    for item in rendered(first_only=True)[0]:
        platform = item.name.split()[1]
        seen.setdefault((platform, *sorted(file.name for file in item.files)), item)
    return caught(tuple(seen.values()), catalog, "mutations")


def public_files(folder: Path) -> Iterator[Deployment]:
    for path in sorted(folder.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8", errors="replace")
        yield Deployment(name=path.name, files=(Artefact(name=path.name, text=text),))


def bench_public(folder: Path, catalog: Catalog) -> bool:
    deployments = list(public_files(folder))
    rules: Counter[str] = Counter()
    for item in deployments:
        try:
            rules.update(rule for rule, _ in rows_of(item.files, catalog))
        except InputError:
            continue
    print(f"public     {len(deployments):6} files, {sum(rules.values())} findings: {dict(rules)}")
    return caught(deployments, catalog, "public")


def bench_kills(_: Catalog) -> bool:
    """Kill apply at many points; the next apply completes it, and destroy leaves nothing."""
    start, kills, failures = time.perf_counter(), 0, 0
    with tempfile.TemporaryDirectory() as temporary, runner() as forks:
        for name, (machine, shape, way, platform) in SAMPLES.items():
            place = Path(temporary) / name.replace(" ", "-")
            folder = render(place, machine, shape, way, platform)  # type: ignore[arg-type]
            work = place / "work"
            with serve() as fake:
                points = forks.run("apply", fresh(folder, work), fake.url)["points"]
                state = named(fake.cloud.resources)
            for point in range(1, points, KILL_STEP):
                with serve() as fake:
                    forks.run("apply", fresh(folder, work), fake.url, kill_at=point)
                    again = forks.run("apply", work, fake.url)
                    whole = named(fake.cloud.resources) == state
                    forks.run("destroy", work, fake.url)
                    kills += 1
                    failures += bool(again["error"]) or not whole or bool(fake.cloud.resources)
    seconds = time.perf_counter() - start
    print(
        f"kills      {kills:6} of {len(SAMPLES)} deployments, {failures} not survived; {seconds:.0f} s"
    )
    return failures == 0


PARTS = {
    "rendered": bench_rendered,
    "parsed": bench_parsed,
    "mutations": bench_mutations,
    "kills": bench_kills,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=[*PARTS, "public"])
    parser.add_argument("--public", type=Path, help="a folder of public manifests")
    arguments = parser.parse_args()
    catalog = load_catalog()
    results = [part(catalog) for name, part in PARTS.items() if arguments.only in (None, name)]
    if arguments.public:
        results.append(bench_public(arguments.public, catalog))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
