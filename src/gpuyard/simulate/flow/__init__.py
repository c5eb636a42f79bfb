"""The flow engine: flows share links max-min fairly; equal flows are simulated once."""

from gpuyard.simulate.flow.engine import FlowResult, simulate_flows
from gpuyard.simulate.flow.model import FlowModel, flow_model
from gpuyard.simulate.flow.rails import rail_network
from gpuyard.simulate.flow.rounds import RoundsResult, RoundTime, simulate_rounds
from gpuyard.simulate.flow.settings import Balance, FlowSettings

__all__ = [
    "Balance", "FlowModel", "FlowResult", "FlowSettings", "RoundTime", "RoundsResult", "flow_model", "rail_network",
    "simulate_flows", "simulate_rounds",
]  # fmt: skip
