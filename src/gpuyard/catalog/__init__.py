"""What exists: chips, machines, platforms, storage, switches, prices and models, every number with its source."""

from gpuyard.catalog.chips import Chip, ChipKind, Framework, Rates, ScaleUp
from gpuyard.catalog.graphics import GraphicsEngine
from gpuyard.catalog.guidance import Guidance
from gpuyard.catalog.huggingface import read_config
from gpuyard.catalog.interruptions import Interruption
from gpuyard.catalog.load import Catalog, Row, find, load_catalog
from gpuyard.catalog.machines import Consumption, Machine, Network, PlatformSupport, Provider
from gpuyard.catalog.models import LatentAttention, MixtureOfExperts, Model, ModelKind, Transformer
from gpuyard.catalog.platforms import Platform, PlatformName, Task
from gpuyard.catalog.prices import Price
from gpuyard.catalog.regions import Region
from gpuyard.catalog.rows import Source
from gpuyard.catalog.storage import Storage
from gpuyard.catalog.switches import Asic, Headroom, HeadroomLookup, PauseResponse, Switch, SwitchOs

__all__ = [
    "Asic", "Catalog", "Chip", "ChipKind", "Consumption", "Framework", "GraphicsEngine", "Guidance", "Headroom",
    "HeadroomLookup", "Interruption", "LatentAttention", "Machine", "MixtureOfExperts", "Model", "ModelKind",
    "Network", "PauseResponse", "Platform", "PlatformName", "PlatformSupport", "Price", "Provider", "Rates", "Region",
    "Row", "ScaleUp", "Source", "Storage", "Switch", "SwitchOs", "Task", "Transformer", "find", "load_catalog",
    "read_config",
]  # fmt: skip
