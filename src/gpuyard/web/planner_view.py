"""The planner: a form, the workload file, limits to vary, and the plan of both."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from gpuyard.app.examples import example_text, examples
from gpuyard.app.planner import (
    WhatIf,
    builtin_catalog,
    deployment_of,
    plan_varied,
    varied,
    workspace_of_text,
)
from gpuyard.app.workspace import Workspace
from gpuyard.document.encode import dump_json
from gpuyard.errors import ExternalError, Infeasible, InputError, Problem
from gpuyard.home import Home
from gpuyard.plan.option import Plan
from gpuyard.report.page import html_table, titled
from gpuyard.report.plan import explain_option, plan_page, plan_sections
from gpuyard.report.plan_tables import comparison
from gpuyard.report.recommendation import recommendation
from gpuyard.web.archive import zipped
from gpuyard.web.planner_form import TASKS, FormField, fields_of_task, form_values, text_with_form
from gpuyard.web.view import (
    Download,
    Fragment,
    NotFoundError,
    PageRequest,
    WebPage,
    options_html,
    plots,
)
from gpuyard.workload.starters import starter

TOP = 12
MOST_PLANS = 16
WAIT_S = 60.0  # for the plan of another request
SLIDERS = (
    ("deadline", "Deadline", "deadline_ratio"),
    ("budget", "Budget", "budget_ratio"),
    ("load", "Tokens, samples or requests", "load_ratio"),
)
WAITING = '<p id="waiting">Planning …</p><noscript>Press “Plan the file”.</noscript>'
LINE = re.compile(r"workload\.yaml:(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedText:
    """A workload text that is valid, and its plan."""

    workspace: Workspace
    plan: Plan | Infeasible
    took_s: float


class PlanCache:
    """The last plans by text and factors, computed one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, PlannedText] = OrderedDict()

    def get(self, key: str) -> PlannedText | None:
        """A plan that is still there."""
        return self._plans.get(key)

    def plan(self, text: str, what_if: WhatIf, home: Home) -> tuple[str, PlannedText]:
        """The key and the plan of a text; InputError if the text is wrong."""
        key = hashlib.blake2b(f"{home.path}{what_if}{text}".encode(), digest_size=8).hexdigest()
        if not self._lock.acquire(timeout=WAIT_S):
            raise ExternalError("planner", "is busy with other plans", "try again")
        try:
            planned = self._plans.get(key)
            if planned is None:
                start_s = time.monotonic()
                workspace = varied(workspace_of_text(text, home), what_if)
                plan = plan_varied(workspace, WhatIf())
                took_s = time.monotonic() - start_s
                planned = PlannedText(workspace=workspace, plan=plan, took_s=took_s)
            self._plans[key] = planned
            self._plans.move_to_end(key)
            while len(self._plans) > MOST_PLANS:
                self._plans.popitem(last=False)
        finally:
            self._lock.release()
        return key, planned


PLANS = PlanCache()


def planner_view(request: PageRequest) -> WebPage:
    """The planner with a starter file, an example, or the file of a plan; its script plans it."""
    text = _first_text(request)
    problems: tuple[Problem, ...] = ()
    try:
        workspace_of_text(text, request.home)
    except InputError as error:
        problems = tuple(error.problems)
    return _planner(text, {}, problems, "", WAITING)


def _first_text(request: PageRequest) -> str:
    name = request.query.get("plan", "")
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        file = request.home.path / "up" / name / "workload.yaml"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    wanted = request.query.get("example", "")
    for example in examples():
        if example.name == wanted and example.file.endswith(".yaml"):
            return example_text(example, Path(example.file))
    task = request.query.get("task", "pretraining")
    return starter(next((name for name in TASKS if name == task), "pretraining"))


def planned_view(request: PageRequest, form: Mapping[str, str]) -> WebPage:
    """The planner after a change of the form, the file, or a slider."""
    text = form.get("text", "").replace("\r\n", "\n")
    if form.get("changed") == "form":
        text = text_with_form(text, form)
    return _page(request, text, form)


def _page(request: PageRequest, text: str, form: Mapping[str, str]) -> WebPage:
    planned, key = None, ""
    problems: tuple[Problem, ...] = ()
    try:
        key, planned = PLANS.plan(text, _what_if(form), request.home)
    except InputError as error:
        problems = tuple(error.problems)
    baseline = key if form.get("changed") == "baseline" else form.get("baseline", "")
    return _planner(text, form, problems, baseline, _answer(planned, baseline, request.acts))


def _planner(
    text: str,
    form: Mapping[str, str],
    problems: tuple[Problem, ...],
    baseline: str,
    answer: str,
) -> WebPage:
    values = form_values(text)
    fragments = (
        Fragment(id="form", html=_form(values, text, form, baseline)),
        Fragment(id="problems", html=_problems(problems)),
        Fragment(id="answer", html=answer),
    )
    return WebPage(
        title="Planner",
        fragments=fragments,
        is_live=False,
        scripts=("planner.js",),
        values={**values, "text": text, "baseline": baseline},
    )


def _what_if(form: Mapping[str, str]) -> WhatIf:
    ratios = {ratio: 2.0 ** _power(form.get(f"{name}-factor", "")) for name, _, ratio in SLIDERS}
    return WhatIf(**ratios)


def _power(text: str) -> float:
    """The position of a slider: a power of two."""
    try:
        return min(3.0, max(-3.0, float(text or 0)))
    except ValueError:
        return 0.0


def _form(values: Mapping[str, str], text: str, form: Mapping[str, str], baseline: str) -> str:
    fields = "".join(_input(field, values[field.name]) for field in fields_of_task(values["task"]))
    names = ("models", "regions", "machines")
    lists = "".join(f'<datalist id="{name}-list">{_suggested(name)}</datalist>' for name in names)
    sliders = "".join(
        f"<label>{label} <output>× {2.0 ** _power(form.get(f'{name}-factor', '')):.3g}</output>"
        f'<input type="range" name="{name}-factor" min="-2" max="2" step="0.25"'
        f' value="{_power(form.get(f"{name}-factor", "")):g}"></label>'
        for name, label, _ in SLIDERS
    )
    starts = "".join(
        f'<a href="/planner?example={escape(example.name)}">{escape(example.name)}</a> '
        for example in examples()
        if example.file.endswith("workload.yaml")
    )
    return f"""<form id="planner" method="post" action="/planner">
<input type="hidden" name="baseline" value="{escape(baseline)}">
<div class="planner"><div><fieldset><legend>What, by when, where</legend>
<label>Task <select name="task">{options_html(TASKS, values["task"])}</select></label>{fields}
</fieldset><fieldset class="sliders"><legend>What if</legend>{sliders}</fieldset>
<noscript><button name="changed" value="form">Plan the form</button></noscript></div>
<div><label for="text">Workload file</label>
<textarea id="text" name="text" rows="24" spellcheck="false">{escape(text)}</textarea>
<noscript><button name="changed" value="text">Plan the file</button></noscript></div></div>{lists}
<details><summary>Start from an example</summary><p>{starts}</p></details></form>"""


def _input(field: FormField, value: str) -> str:
    name, label = escape(field.name), escape(field.label)
    if field.choices:
        options = options_html(("", *field.choices), value)
        return f'<label>{label} <select name="{name}">{options}</select></label>'
    suggested = f' list="{field.suggestions}-list"' if field.suggestions else ""
    return (
        f'<label>{label} <input name="{name}" value="{escape(value)}"'
        f' placeholder="{escape(field.hint)}"{suggested} autocomplete="off"></label>'
    )


def _suggested(kind: str) -> str:
    rows = getattr(builtin_catalog(), kind)
    return "".join(
        f"<option>{escape(name)}</option>" for name in dict.fromkeys(row.name for row in rows)
    )


def _problems(problems: tuple[Problem, ...]) -> str:
    """Every mistake with its line and its fix."""
    if not problems:
        return '<p class="good" role="status">The file is valid.</p>'
    items = []
    for problem in problems:
        line = LINE.match(problem.where)
        at = f'<button type="button" data-line="{line[1]}">line {line[1]}</button> ' if line else ""
        where = problem.where.partition(": ")[2] if line else problem.where
        text = f"{where}: {problem.what}" if where else problem.what
        items.append(f"<li>{at}{escape(text)}<br><small>{escape(problem.fix)}</small></li>")
    return f'<ul class="bad" role="status">{"".join(items)}</ul>'


def _answer(planned: PlannedText | None, baseline: str, acts: bool) -> str:
    if planned is None:
        return ""
    if isinstance(planned.plan, Infeasible):
        return f'<h2>Infeasible</h2><pre class="bad">{escape(str(planned.plan))}</pre>'
    plan = planned.plan
    first, *reasons = recommendation(plan)
    tables = "".join(titled(table) for table in explain_option(plan, 1) if table.rows)
    return "".join(
        (
            f'<p class="headline">{escape(first)}</p>',
            "".join(f"<p>{escape(reason)}</p>" for reason in reasons),
            f"<p>{plan.searched_count:,} candidates in {planned.took_s:.2g} s</p>",
            _buttons(plan, acts),
            _compared(plan, baseline),
            plots("".join(plan_sections(plan, TOP))),
            f"<details><summary>Option 1 in full</summary>{tables}</details>",
        )
    )


def _buttons(plan: Plan, acts: bool) -> str:
    """Downloads of the plan, and what keeps it; the buttons send the planner's form."""
    count = min(len(plan.options), TOP)
    options = options_html([str(number) for number in range(1, count + 1)])
    files = ("workload.yaml", "plan.json", "report.html", "deployment.zip")
    buttons = "".join(f'<button formaction="/planner/{name}">{name}</button>' for name in files)
    start = '<button formaction="/planner/start">Save and run up</button>' if acts else ""
    text = (
        f'<span>Download</span>{buttons}<label>of option <select name="option">{options}</select>'
        '</label><button name="changed" value="baseline">Compare changes with this plan</button>'
    )
    marked = (text + start).replace("<button ", '<button form="planner" ')
    return f'<p class="buttons">{marked.replace("<select ", "<select form=planner ")}</p>'


def _compared(plan: Plan, baseline: str) -> str:
    other = PLANS.get(baseline)
    if other is None or not isinstance(other.plan, Plan) or other.plan is plan:
        return ""
    table = comparison(("before", "now"), (other.plan, plan), 5)
    return f"<h2>Compared</h2>{html_table(table)}"


def planner_file(request: PageRequest, form: Mapping[str, str], name: str) -> Download:
    """A file of the plan in the form: the workload, the plan, its report, or its deployment."""
    text = form.get("text", "").replace("\r\n", "\n")
    if name == "workload.yaml":
        return Download(name=name, kind="application/yaml", body=text.encode())
    _, planned = PLANS.plan(text, _what_if(form), request.home)
    plan = planned.plan
    if isinstance(plan, Infeasible):
        raise InputError.one(plan.binding, plan.what, plan.fix)
    if name == "plan.json":
        return Download(name=name, kind="application/json", body=dump_json(plan).encode())
    if name == "report.html":
        return Download(
            name=name, kind="text/html; charset=utf-8", body=plan_page(plan, TOP).encode()
        )
    if name != "deployment.zip":
        raise NotFoundError
    number = form.get("option", "1")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= len(plan.options):
        raise InputError.one(
            "option", f"there is no option {number[:20]}", "choose one of the list"
        )
    deployment = deployment_of(planned.workspace, plan, int(number))
    if deployment is None:
        fix = "choose another option, or name a platform"
        raise InputError.one(f"option {number}", "no platform suits it", fix)
    return Download(
        name=name,
        kind="application/zip",
        body=zipped({file.name: file.text for file in deployment.files}),
    )
