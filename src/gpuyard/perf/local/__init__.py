"""A measured machine: its profile, what a training step does, and how long that takes here."""

from gpuyard.perf.local.compared import Compared, Foreseen
from gpuyard.perf.local.predict import Prediction, fit_probes, plain_bytes, predict_step, product_s
from gpuyard.perf.local.profile import Fit, LocalProfile, Probe, Rate, ServingProbe, Timing
from gpuyard.perf.local.serving import Served, fit_serving
from gpuyard.perf.local.work import Product, ProductKind, Work, mlp_work, transformer_work, trees_work

__all__ = [
    "Compared", "Fit", "Foreseen", "LocalProfile", "Prediction", "Probe", "Product", "ProductKind", "Rate", "Served",
    "ServingProbe", "Timing", "Work", "fit_probes", "fit_serving", "mlp_work", "plain_bytes", "predict_step",
    "product_s", "transformer_work", "trees_work",
]  # fmt: skip
