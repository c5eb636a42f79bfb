"""FRR on Linux: frr.conf, and what the kernel must be told before."""

from gpuyard.fabric.render.frr.bgp import frr_conf
from gpuyard.fabric.render.frr.system import FRR

__all__ = ["FRR", "frr_conf"]
