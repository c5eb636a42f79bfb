"""SONiC: config_db.json for ports, queues and memory, and frr.conf for routing."""

from gpuyard.fabric.render.sonic.config_db import Sonic

__all__ = ["Sonic"]
