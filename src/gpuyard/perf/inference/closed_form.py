"""Steady-state serving throughput and latency in closed form, compiled for large searches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference.columns import Row

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steady:
    """One value per configuration, for one replica (one rank of attention data parallelism)."""

    output_tokens_per_s: Reals
    tpot_s: Reals
    ttft_s: Reals
    sequences: Reals  # in the running batch: as requested, or as KV cache and engine allow


def steady_state(
    rows: Row,
    which: Ints,
    sequences: Reals,
    max_sequences: Reals,
    prompt_tokens: Reals,
    output_tokens: Reals,
) -> Steady:
    """Return throughput and mean latencies in a closed loop with a constant number of sequences.

    Args:
        rows: coefficients of replicas.
        which: the row of each configuration.
        sequences: sequences in the closed loop.
        max_sequences: sequences that KV cache and engine allow in the running batch.
        prompt_tokens: prompt length.
        output_tokens: output length.
    """
    from gpuyard.perf.inference.closed_form_kernel import fill_steady  # imports Numba

    out = np.empty((4, len(which)))
    fill_steady(rows, which, sequences, max_sequences, prompt_tokens, output_tokens, out)
    return Steady(output_tokens_per_s=out[0], tpot_s=out[1], ttft_s=out[2], sequences=out[3])
