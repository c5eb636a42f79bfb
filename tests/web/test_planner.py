"""The planner: form and file stay in step, mistakes have lines, plans are compared and saved."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.app.planner import WhatIf, varied, workspace_of_text
from gpuyard.app.workspace import open_workspace
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.web.planner_form import TASKS, fields_of_task, form_values, text_with_form
from gpuyard.web.server import WebServer
from gpuyard.workload.starters import starter

from .conftest import Response, request

FILE = """# one of mine
task: finetuning
model: llama-3-8b      # a small one
data: {samples: 50k, sequence: 4096}
training:
  method: lora
  lora_rank: 16
requirements:
  # deadline: 3d
  budget: $500
where:
  region: us-central1
  machines: [g2-*, a2-*]
"""


def send(site: WebServer, form: dict[str, str], path: str = "/planner", **headers: str) -> Response:
    own = {"Origin": f"http://127.0.0.1:{site.server_address[1]}"}
    return request(site, path, method="POST", headers=own | headers, body=urlencode(form))


def planned(site: WebServer, form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Send a form as the script does; return the fragments and the values of the form."""
    answer = json.loads(send(site, form, Accept="application/json").text)
    return {part["id"]: part["html"] for part in answer["fragments"]}, answer["values"]


@pytest.mark.parametrize("task", TASKS)
def test_form_shows_what_every_starter_says(task: str) -> None:
    text = starter(next(name for name in TASKS if name == task))
    values = form_values(text)
    assert values["task"] == task
    assert text_with_form(text, values) == text  # nothing changed, not even a comment


def test_form_changes_single_lines_and_keeps_comments() -> None:
    form = form_values(FILE) | {
        "deadline": "2d",
        "model": "qwen3-8b",
        "budget": "",
        "region": "us-east4",
    }
    text = text_with_form(FILE, form)
    assert "model: qwen3-8b      # a small one" in text
    assert "  deadline: 2d" in text
    assert "  # budget: $500" in text
    assert "  region: us-east4" in text
    assert form_values(text)["budget"] == ""
    assert text.startswith("# one of mine\n")


def test_a_long_line_is_edited_in_linear_time() -> None:
    text = f"task: finetuning\nmodel:{' ' * 150_000}a#b\n"  # quadratic matching takes minutes
    assert form_values(text_with_form(text, form_values(text) | {"model": "b"}))["model"] == "b"


def test_form_rewrites_a_flow_mapping_and_adds_sections() -> None:
    text = text_with_form(FILE, form_values(FILE) | {"samples": "90k", "platform": "gke"})
    assert form_values(text)["samples"] == "90k"
    assert form_values(text)["platform"] == "gke"
    bare = "task: inference\nmodel: llama-3-8b\n"
    assert form_values(text_with_form(bare, form_values(bare) | {"ttft": "1s"}))["ttft"] == "1s"


def test_another_task_starts_another_file() -> None:
    text = text_with_form(FILE, form_values(FILE) | {"task": "inference"})
    assert text == starter("inference")


@given(st.sampled_from(fields_of_task("finetuning")), st.text(min_size=1, max_size=20))
def test_every_value_of_the_form_is_what_the_file_says(field: object, value: str) -> None:
    written = " ".join(value.replace(",", " ").split())
    if not written.isprintable() or not written:
        return
    name = getattr(field, "name", "")
    text = text_with_form(FILE, form_values(FILE) | {name: written})
    assert form_values(text)[name] == written


def test_factors_multiply_limits_and_load(tmp_path: Path) -> None:
    workspace = workspace_of_text(FILE, Home(path=tmp_path))
    changed = varied(
        workspace, WhatIf(budget_ratio=2.0, load_ratio=0.5, deadline_ratio=4.0)
    ).workload
    assert changed.requirements.budget_usd == pytest.approx(1000.0)
    assert changed.requirements.deadline_s is None  # no limit stays no limit
    assert changed.data is not None
    assert changed.data.samples_count == 25_000
    assert varied(workspace, WhatIf()) == workspace


def test_files_that_a_text_names_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="other files"):
        workspace_of_text(FILE + "  catalog: [/etc/passwd]\n", Home(path=tmp_path))


def test_planner_plans_the_form_and_names_mistakes_with_lines(site: WebServer) -> None:
    fragments, values = planned(site, {"text": FILE, "changed": "text"})
    assert "The file is valid" in fragments["problems"]
    assert "Use " in fragments["answer"]
    assert "Time and cost" in fragments["answer"]
    assert values["samples"] == "50k"
    wrong = FILE.replace("budget:", "budgett:")
    fragments, _ = planned(site, {"text": wrong, "changed": "text"})
    assert 'data-line="10"' in fragments["problems"]
    assert "budget" in fragments["problems"]
    assert fragments["answer"] == ""
    fragments, _ = planned(site, {"text": FILE, "changed": "factor", "budget-factor": "-12"})
    assert "budget" in fragments["answer"]  # a tenth of the budget is not enough, or just enough


def test_planner_compares_with_a_baseline(site: WebServer) -> None:
    _, values = planned(site, {"text": FILE, "changed": "baseline"})
    form = {"text": FILE, "changed": "factor", "load-factor": "1", "baseline": values["baseline"]}
    fragments, _ = planned(site, form)
    assert "<h2>Compared</h2>" in fragments["answer"]


def test_planner_works_without_its_script(site: WebServer) -> None:
    form = form_values(FILE) | {"text": FILE, "changed": "form", "budget": "$900"}
    text = send(site, form).text
    assert "budget: $900" in text
    assert "Time and cost" in text
    assert "llama-3-8b" in request(site, "/planner?example=finetune-lora-8b").text


def test_planned_files_are_saved(site: WebServer) -> None:
    form = {"text": FILE, "option": "1"}
    for name in ("workload.yaml", "plan.json", "report.html"):
        response = send(site, form, f"/planner/{name}")
        assert (response.status, f'"{name}"' in response.headers["Content-Disposition"]) == (
            200,
            True,
        )
        assert (
            "llama-3-8b" in response.text
            or "Plan: workload" in response.text
            or name == "plan.json"
        )
    assert send(site, form | {"option": "0"}, "/planner/deployment.zip").status == 400
    assert send(site, form, "/planner/nothing").status == 404


def test_deployment_is_an_archive_of_the_rendered_files(site: WebServer) -> None:
    import http.client

    port = site.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Origin": f"http://127.0.0.1:{port}"}
    connection.request(
        "POST", "/planner/deployment.zip", urlencode({"text": FILE, "option": "1"}), headers
    )
    body = connection.getresponse().read()
    connection.close()
    names = zipfile.ZipFile(io.BytesIO(body)).namelist()
    assert {"README.md", "blueprint.json"} <= set(names)


def test_planning_needs_a_form_of_the_own_page_and_starting_needs_actions(site: WebServer) -> None:
    foreign = {"Origin": "http://example.org"}
    body = urlencode({"text": FILE})
    assert request(site, "/planner", method="POST", headers=foreign, body=body).status == 403
    assert request(site, "/planner", method="POST", body=body).status == 403
    assert send(site, {"text": FILE}, "/planner/start").status == 403
    assert "Save and run" not in send(site, {"text": FILE, "changed": "text"}).text


@pytest.mark.parametrize("site", [True], indirect=True)
def test_start_saves_the_file_and_runs_it(
    site: WebServer, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(
        "gpuyard.web.actions.subprocess.Popen", lambda words, **_: started.append(words)
    )
    own = {"Cookie": f"gpuyard_token={site.token}"}
    response = send(site, {"text": FILE + "name: tuned\n"}, "/planner/start", **own)
    assert (response.status, response.headers["Location"]) == (303, "/plans/tuned")
    file = home.path.resolve() / "workloads" / "tuned.yaml"
    assert file.read_text(encoding="utf-8") == FILE + "name: tuned\n"
    assert started[0][3:5] == ["up", str(file)]
    for wrong in ("task: none", FILE + "name: ../tuned\n", FILE + "  catalog: [/etc/passwd]\n"):
        assert send(site, {"text": wrong}, "/planner/start", **own).status == 400
    for text, name in ((FILE, "workload"), (FILE + 'name: "tuned"  # quoted\n', "tuned")):
        send(site, {"text": text}, "/planner/start", **own)
        saved = site.home.path / "workloads" / f"{name}.yaml"
        assert open_workspace(saved, home=site.home).workload.name == name
