"""Kernel of `closed_form`: throughput and latencies, configuration by configuration."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit
from gpuyard.perf.inference.columns import Row
from gpuyard.perf.inference.step import step_time_s

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@jit
def fill_steady(
    rows: Row,
    which: Ints,
    sequences: Reals,
    max_sequences: Reals,
    prompts: Reals,
    outputs: Reals,
    out: Reals,
) -> None:
    """Fill `out` with throughput, TPOT, TTFT and running sequences.

    Idea: while one sequence decodes its output, every other sequence is replaced once, so its
    decode steps contain the prompts of all others, spread evenly.
    """
    for i in range(len(which)):
        row, prompt, output = rows[which[i]], prompts[i], outputs[i]
        seqs = max(1.0, min(sequences[i], max_sequences[i]))
        context = seqs * (prompt + 0.5 * output)
        decode_s = step_time_s(row, 0.0, 0.0, seqs, context, seqs)
        mixed_s = step_time_s(row, prompt, 0.5 * prompt * (prompt + 1.0), seqs, context, seqs + 1.0)
        share = (seqs - 1.0) / max(output, 1.0)  # prompts of other sequences per token
        if share <= 1.0:  # some steps contain a prompt
            tpot_s = decode_s + share * (mixed_s - decode_s)
        else:  # every step contains prompts
            pairs = share * 0.5 * prompt * (prompt + 1.0)
            tpot_s = step_time_s(row, share * prompt, pairs, seqs, context, seqs + share)
        wait_s = 0.5 * tpot_s * min(1.0, share)  # rest of the current step
        first_s = mixed_s + wait_s
        life_s = first_s + tpot_s * max(output - 1.0, 0.0)
        queue_s = max(0.0, sequences[i] - max_sequences[i]) / seqs * life_s
        out[0, i] = seqs * output / life_s
        out[1, i] = tpot_s
        out[2, i] = first_s + queue_s
        out[3, i] = seqs
