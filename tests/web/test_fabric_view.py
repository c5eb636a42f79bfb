"""The pages of a plan's fabric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuyard.app.planner import builtin_catalog
from gpuyard.app.up import up
from gpuyard.app.workspace import open_workspace
from gpuyard.catalog.load import Catalog
from gpuyard.document.encode import dump_json
from gpuyard.home import Home
from gpuyard.web.fabric_view import device_view, fabric_document
from gpuyard.web.view import PageRequest

from .conftest import ONPREM


def test_racks_use_the_rows_of_the_workloads_own_catalog(tmp_path: Path) -> None:
    switch = replace(
        builtin_catalog().switch("qfx5240-64od"), name="house-switch", label="House", aliases=()
    )
    (tmp_path / "own.yaml").write_text(dump_json(Catalog(switches=(switch,))), encoding="utf-8")
    where = "switch: house-switch, catalog: [own.yaml]"
    file = tmp_path / "workload.yaml"
    file.write_text(ONPREM.replace("switch: qfx5240-64od", where), encoding="utf-8")
    home = Home(path=tmp_path / "home")
    up(open_workspace(file, home=home), until="fabric")
    words = {"name": "onprem", "drawing": "hall"}
    hall = fabric_document(PageRequest(home=home, words=words))
    assert "House as leaf" in hall
    request = PageRequest(home=home, words={"name": "onprem"}, query={"name": "leaf-1"})
    device = "".join(part.html for part in device_view(request).fragments)
    assert "house-switch" in device
