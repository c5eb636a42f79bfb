"""Serving in steady state as a closed form, for searches over very many configurations. Compiled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.perf.inference.step import Row, step_time_s

__all__ = ["Steady", "steady_state"]

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steady:
    """One value a configuration; of one replica (one rank of attention data parallelism)."""

    output_tokens_per_s: Reals
    tpot_s: Reals
    ttft_s: Reals
    sequences: Reals  # that run together: those asked for, or what the cache holds


def steady_state(
    rows: Row, which: Ints, sequences: Reals, room_sequences: Reals, prompt_tokens: Reals, output_tokens: Reals
) -> Steady:
    """Throughput and mean latencies when so many sequences are always there.

    rows: cost rows; which: the row of each configuration; room_sequences: what its cache and engine let run at once.
    """
    out = np.empty((4, len(which)))
    _fill(rows, which, sequences, room_sequences, prompt_tokens, output_tokens, out)
    return Steady(output_tokens_per_s=out[0], tpot_s=out[1], ttft_s=out[2], sequences=out[3])


@compiled
def _fill(rows: Row, which: Ints, sequences: Reals, held: Reals, prompts: Reals, outputs: Reals, out: Reals) -> None:
    """Each configuration on its own.

    While a sequence decodes its output, every other sequence is replaced once: so the steps of its tokens hold the
    prompts of all the others, shared out evenly.
    """
    for i in range(len(which)):
        row, prompt, output = rows[which[i]], prompts[i], outputs[i]
        seqs = max(1.0, min(sequences[i], held[i]))
        context = seqs * (prompt + 0.5 * output)
        decode_s = step_time_s(row, 0.0, 0.0, seqs, context, seqs)
        mixed_s = step_time_s(row, prompt, 0.5 * prompt * (prompt + 1.0), seqs, context, seqs + 1.0)
        share = (seqs - 1.0) / max(output, 1.0)  # prompts of the others, a token
        if share <= 1.0:  # some steps have a prompt, the others none
            tpot_s = decode_s + share * (mixed_s - decode_s)
        else:  # every step has some
            pairs = share * 0.5 * prompt * (prompt + 1.0)
            tpot_s = step_time_s(row, share * prompt, pairs, seqs, context, seqs + share)
        wait_s = 0.5 * tpot_s * min(1.0, share)  # the step under way
        first_s = mixed_s + wait_s
        life_s = first_s + tpot_s * max(output - 1.0, 0.0)
        queue_s = max(0.0, sequences[i] - held[i]) / seqs * life_s
        out[0, i] = seqs * output / life_s
        out[1, i] = tpot_s
        out[2, i] = first_s + queue_s
        out[3, i] = seqs
