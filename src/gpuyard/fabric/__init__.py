"""Which network: from a number of servers to switches, cables, addresses, routing and a lossless class."""

from gpuyard.fabric.demand import Cables, Demand, Pools, Purpose, Shape, Tenant
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Device, Fabric, Interface, Rejected, Vrf, by_name
from gpuyard.fabric.labels import Label, cable_labels
from gpuyard.fabric.lossless import Lossless
from gpuyard.fabric.machines import beside, demand_for
from gpuyard.fabric.materials import Item, Materials, materials
from gpuyard.fabric.provider import ProviderFabric, provider_fabric
from gpuyard.fabric.routing import Bfd, Routing
from gpuyard.fabric.saved import from_json, to_json
from gpuyard.fabric.size import Size, Sizing, size

__all__ = [
    "Bfd", "Cables", "Demand", "Device", "Fabric", "Interface", "Item", "Label", "Lossless", "Materials", "Pools",
    "ProviderFabric", "Purpose", "Rejected", "Routing", "Shape", "Size", "Sizing", "Tenant", "Vrf", "beside",
    "by_name", "cable_labels", "demand_for", "design", "from_json", "materials", "provider_fabric", "size", "to_json",
]  # fmt: skip
