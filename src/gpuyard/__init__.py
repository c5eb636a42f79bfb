"""gpuyard: from an AI workload to a running, proven GPU backend."""

__version__ = "0.1.0"
__all__ = ["__version__"]
