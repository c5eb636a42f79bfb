"""Junos: one file of `set` commands a switch, after Juniper's validated design for AI back ends."""

from gpuyard.fabric.render.junos.system import Junos

__all__ = ["Junos"]
