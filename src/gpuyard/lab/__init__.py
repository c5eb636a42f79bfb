"""The fabric, real: the designed fabric booted on this host, with routing daemons in network namespaces."""

from gpuyard.lab.boot import boot, labs, remove
from gpuyard.lab.scale import scaled
from gpuyard.lab.wires import Lab, Wire, lab_of

__all__ = ["Lab", "Wire", "boot", "lab_of", "labs", "remove", "scaled"]
