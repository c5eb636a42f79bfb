"""The time of one engine step of a replica that serves a model, and what its memory holds. Needs Numba."""

from gpuyard.perf.inference.calibration import Calibration, read_calibration
from gpuyard.perf.inference.case import Ceiling
from gpuyard.perf.inference.chip import ServingChip, chip_named, serving_chip
from gpuyard.perf.inference.costs import costs_row, request_s
from gpuyard.perf.inference.engine import Engine, choose_engine, find_engine, read_engines
from gpuyard.perf.inference.interval import Interval, interval
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import Limits, Room, limits, room, weight_bytes, with_graphs
from gpuyard.perf.inference.precision import KvFormat, Precision, WeightFormat
from gpuyard.perf.inference.shape import Shape, shape_of
from gpuyard.perf.inference.steady import Steady, steady_state
from gpuyard.perf.inference.step import COLUMNS, PARTS, Row, step_parts_s, step_time_s

__all__ = [
    "COLUMNS", "PARTS", "Calibration", "Ceiling", "Engine", "Interval", "KvFormat", "Limits", "Precision",
    "ReplicaLayout", "Room", "Row", "ServingChip", "Shape", "Steady", "WeightFormat", "chip_named", "choose_engine",
    "costs_row", "find_engine", "interval", "limits", "read_calibration", "read_engines", "request_s", "room",
    "serving_chip", "shape_of", "steady_state", "step_parts_s", "step_time_s", "weight_bytes", "with_graphs",
]  # fmt: skip
