"""Rendering: one folder for each switch OS, and for servers, cables and the twin."""

from gpuyard.fabric.render.cabling import cabling_csv, materials_csv
from gpuyard.fabric.render.containerlab import TWIN_NODES, twin
from gpuyard.fabric.render.files import File, SwitchOS
from gpuyard.fabric.render.render import SYSTEMS, render, render_switches
from gpuyard.fabric.render.server import servers

__all__ = [
    "SYSTEMS", "TWIN_NODES", "File", "SwitchOS", "cabling_csv", "materials_csv", "render", "render_switches",
    "servers", "twin",
]  # fmt: skip
