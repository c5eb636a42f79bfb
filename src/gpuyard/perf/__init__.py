"""How long and how big: the step time and memory of training, as closed forms over arrays of candidates."""

from gpuyard.perf.calibration import Calibration, read_calibration, scalar
from gpuyard.perf.collectives import ClosedForm, Collective, Group, NetworkModel
from gpuyard.perf.constants import Constants
from gpuyard.perf.from_catalog import architecture, nic_bytes_per_s
from gpuyard.perf.layout import Architecture, Layout, Machine, Software
from gpuyard.perf.memory import FIT_RATIO, Memory, memory
from gpuyard.perf.operators import model_flop_per_token
from gpuyard.perf.profiles import Profile, find_profile, read_profiles
from gpuyard.perf.silicon import Precision, Silicon, calibrated, machine, peak_flop_per_s, silicon_of
from gpuyard.perf.software import software
from gpuyard.perf.training import StepTime, step_time

__all__ = [
    "FIT_RATIO", "Architecture", "Calibration", "ClosedForm", "Collective", "Constants", "Group", "Layout", "Machine",
    "Memory", "NetworkModel", "Precision", "Profile", "Silicon", "Software", "StepTime", "architecture", "calibrated",
    "find_profile", "machine", "memory", "model_flop_per_token", "nic_bytes_per_s", "peak_flop_per_s",
    "read_calibration", "read_profiles", "scalar", "silicon_of", "software", "step_time",
]  # fmt: skip
