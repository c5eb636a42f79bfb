"""Published runs that contradict each other, and series with prefix-cache hits.

The performance model is not used: runs are compared with runs of the same table, or with measured
kernel efficiencies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.perf.inference.plausibility import peak_share
from gpuyard.perf.inference.run_columns import number

MIN_SPECULATIVE_SPEEDUP = 1.3  # of DeepSeek runs with unflagged MTP (the source's note)
MAX_KERNEL_EFFICIENCY = 0.8  # best measured GEMM over the peak (the priors of `gemm`)
HIT_RATIO = 0.8  # assumed prefix-cache hit ratio of series above that efficiency, from their TPOT
MIN_TPOT_RATIO = 0.75  # TPOT with more users over TPOT with fewer; lower is a contradiction
MISPRINT_RATIO = 5.0  # off all other releases: a lost digit or decimal point
MIN_OTHER_RELEASES = 2  # that agree with each other against one


def contradicting_rows(cases: Sequence[ServingBenchmark]) -> dict[str, str]:
    """Return the ids of rows that contradict other rows, with the reason."""
    return {
        **dict.fromkeys(
            _speculative(cases), "speculative decoding: faster than the same run without"
        ),
        **dict.fromkeys(
            _contradicting(cases),
            "its series contradicts itself: more users, yet a shorter TPOT",
        ),
        **dict.fromkeys(
            _misprinted(cases), f"{MISPRINT_RATIO:.0f} times off the figure of every other release"
        ),
    }


def _grouped(
    cases: Iterable[ServingBenchmark], key: Callable[[ServingBenchmark], Hashable | None]
) -> list[list[ServingBenchmark]]:
    """Group the cases by key; those without a key are dropped."""
    groups: dict[Hashable, list[ServingBenchmark]] = defaultdict(list)
    for case in cases:
        if (value := key(case)) is not None:
            groups[value].append(case)
    return list(groups.values())


def by_setting(cases: Iterable[ServingBenchmark]) -> list[list[ServingBenchmark]]:
    """Group offline runs that differ in the release only."""

    def key(case: ServingBenchmark) -> Hashable | None:
        load = case.load
        if load.kind != "offline":
            return None
        return (
            case.row["model"],
            case.chip,
            case.precision,
            case.layouts,
            load.prompt_tokens,
            load.output_tokens,
        )

    return _grouped(cases, key)


def _contradicting(cases: Iterable[ServingBenchmark]) -> set[str]:
    """Return closed-loop runs of one setting in which more users have a much shorter TPOT."""

    def key(case: ServingBenchmark) -> Hashable | None:
        """Return the series at one layout and pair of lengths."""
        series, load = _series(case), case.load
        return series and (*series, case.layouts[0], load.prompt_tokens, load.output_tokens)

    names: set[str] = set()
    for group in _grouped(cases, key):
        timed = [(number(c.row, "concurrency"), number(c.row, "tpot_ms_mean")) for c in group]
        if any(
            more > users and token < MIN_TPOT_RATIO * before
            for users, before in timed
            for more, token in timed
        ):
            names.update(case.row["id"] for case in group)
    return names


def _misprinted(cases: Iterable[ServingBenchmark]) -> set[str]:
    """Return offline runs far from all other releases of the same setting, which agree."""
    names: set[str] = set()
    for group in by_setting(cases):
        rates = [
            (c.row["engine_ver"], number(c.row, "out_tok_s_total"), c.row["id"]) for c in group
        ]
        for release, rate, name in rates:
            others = [other for version, other, _ in rates if version != release]
            far = all(
                rate * MISPRINT_RATIO < other or rate > MISPRINT_RATIO * other for other in others
            )
            if (
                len(others) >= MIN_OTHER_RELEASES
                and far
                and max(others) < MISPRINT_RATIO * min(others)
            ):
                names.add(name)
    return names


def _speculative(cases: Iterable[ServingBenchmark]) -> set[str]:
    """Return rows of models with an MTP layer that are much faster than an equal configuration."""

    def key(case: ServingBenchmark) -> Hashable | None:
        """Return the configuration without release and expert layout."""
        if _series(case) is None or "DeepSeek" not in case.row["model"]:
            return None
        layout, load = case.layouts[0][0], case.load
        return (
            case.chip,
            case.row["engine"],
            case.precision.weights,
            layout.chips,
            layout.attention_dp,
            load.prompt_tokens,
            load.output_tokens,
            load.users,
        )

    names: set[str] = set()
    for group in _grouped(cases, key):
        tokens = {case.row["id"]: number(case.row, "tpot_ms_mean", 0.0) for case in group}
        names.update(
            name
            for name, token in tokens.items()
            if 0.0 < token * MIN_SPECULATIVE_SPEEDUP < max(tokens.values())
        )
    return names


def with_prefix_cache_hits(cases: Sequence[ServingBenchmark]) -> tuple[ServingBenchmark, ...]:
    """Set prefix-cache hits on series that need more FLOP/s than kernels sustain.

    vLLM caches prefixes by default, so a client that repeats its prompts hits the prefix cache.
    """
    keys = [_series(case) if _exceeds_kernel_efficiency(case) else None for case in cases]
    repeated = {key for key in keys if key is not None}
    return tuple(
        (
            replace(case, load=replace(case.load, hit_ratio=HIT_RATIO))
            if _series(case) in repeated
            else case
        )
        for case in cases
    )


def _series(case: ServingBenchmark) -> tuple[object, ...] | None:
    """Return the key of a series: one client, engine, model and chip; None for other loads."""
    row = case.row
    if case.load.kind != "closed" or case.prefill is not None:
        return None
    return (
        row["model"],
        row["engine"],
        row["engine_ver"],
        row["date"],
        case.chip.name,
        case.precision,
    )


def _exceeds_kernel_efficiency(case: ServingBenchmark) -> bool:
    """Return whether a closed loop needs more FLOP/s than the best measured GEMM sustains."""
    token_s = number(case.row, "tpot_ms_mean") / 1e3
    first_s = number(case.row, "ttft_ms_mean") / 1e3
    if _series(case) is None or token_s != token_s or first_s != first_s:
        return False
    load, (layout, replicas) = case.load, case.layouts[0]
    mean = 0.5 * (1.0 + load.low_ratio)
    per_s = load.users / (first_s + mean * load.output_tokens * token_s)
    tokens = mean * (load.prompt_tokens + load.output_tokens)
    share = peak_share(
        case.shape, case.chip, case.precision, layout.chips * replicas, per_s, tokens
    )
    return share > MAX_KERNEL_EFFICIENCY
