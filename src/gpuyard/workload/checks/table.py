"""Every rule that a well-formed workload file must still keep. Adding a rule is adding a row."""

from __future__ import annotations

from gpuyard.workload.checks import graphics, inference, keys, machines, model, training, where
from gpuyard.workload.finding import Check

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    keys.is_called_plainly,
    keys.is_needed_by_the_task,
    keys.is_used_by_the_task,
    keys.is_number_above_zero,
    keys.is_share,
    model.is_shape_whole,
    training.is_data_counted,
    training.is_batch_within_data,
    training.is_method_for_the_task,
    training.is_rank_given,
    inference.has_load,
    inference.is_request_sized,
    inference.is_trace_alone,
    inference.is_request_within_context,
    graphics.has_graphics_numbers,
    graphics.has_hpc_numbers,
    graphics.is_measured_on_something_known,
    where.is_of_the_provider,
    where.has_something_to_run,
    where.is_place_named,
    where.is_zone_in_region,
    where.is_platform_for_the_task,
    where.is_engine_of_the_platform,
    machines.is_machine_known,
    machines.is_allowed_and_not_excluded,
    machines.can_be_had,
    machines.is_on_the_platform,
    machines.can_run_the_framework,
    machines.can_train_quantised,
    machines.is_switch_known,
)
