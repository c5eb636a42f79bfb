"""A table measured before anyone trains on it."""

from gpuyard.datasets.profile.make import profile
from gpuyard.datasets.profile.measures import QUANTILES, Bin, Column, Correlations, Profile, Suspicion, Tie, Value

__all__ = ["QUANTILES", "Bin", "Column", "Correlations", "Profile", "Suspicion", "Tie", "Value", "profile"]
