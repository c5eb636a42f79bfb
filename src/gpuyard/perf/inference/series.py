"""Published runs against each other: rows that contradict their own series, and series that a cache served.

Nothing of the model is used: a run is compared with runs of the same table, or with what kernels were measured to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from gpuyard.perf.inference.case import Case
from gpuyard.perf.inference.cells import number
from gpuyard.perf.inference.screen import peak_share

__all__ = ["by_setting", "doubtful", "with_hits"]

DRAFT_GAIN = 1.3  # from which the source's note on unflagged speculative (MTP) runs of DeepSeek explains a faster row
KERNEL_SHARE = 0.8  # of its peak, the most that products reach in measured kernel tables (the priors of `gemm`)
HIT_RATIO = 0.8  # of prompts in the cache, in series that beat it: read off their times a token
FALL = 0.75  # of a time a token with fewer users, below which one with more of them contradicts it
MISPRINT = 5.0  # times what all other releases have: a digit or a point is lost
OTHERS = 2  # releases that have to agree against one


def doubtful(cases: Sequence[Case]) -> dict[str, str]:
    """Rows that cannot be what they say, by their identity, and why."""
    return {
        **dict.fromkeys(_speculative(cases), "speculative decoding: faster than the same run without"),
        **dict.fromkeys(_contradicting(cases), "its series contradicts itself: more users, yet less time a token"),
        **dict.fromkeys(_misprinted(cases), f"{MISPRINT:.0f} times off every other release's figure"),
    }


def _gathered(cases: Iterable[Case], key: Callable[[Case], Hashable | None]) -> list[list[Case]]:
    """The cases by key; those without one are left out."""
    groups: dict[Hashable, list[Case]] = defaultdict(list)
    for case in cases:
        if (found := key(case)) is not None:
            groups[found].append(case)
    return list(groups.values())


def by_setting(cases: Iterable[Case]) -> list[list[Case]]:
    """Offline runs by all that they share but the release."""

    def key(case: Case) -> Hashable | None:
        """The setting."""
        load = case.load
        if load.kind != "offline":
            return None
        return case.row["model"], case.chip, case.precision, case.layouts, load.prompt_tokens, load.output_tokens

    return _gathered(cases, key)


def _contradicting(cases: Iterable[Case]) -> set[str]:
    """Closed loops of one setting of which one has more users and yet a much shorter time a token than another."""

    def key(case: Case) -> Hashable | None:
        """The series at one layout and pair of lengths."""
        found, load = _series(case), case.load
        return found and (*found, case.layouts[0], load.prompt_tokens, load.output_tokens)

    names: set[str] = set()
    for group in _gathered(cases, key):
        timed = [(number(c.row, "concurrency"), number(c.row, "tpot_ms_mean")) for c in group]
        if any(more > users and token < FALL * before for users, before in timed for more, token in timed):
            names.update(case.row["id"] for case in group)
    return names


def _misprinted(cases: Iterable[Case]) -> set[str]:
    """Offline runs whose rate is far from all other releases' of the same setting, which agree."""
    names: set[str] = set()
    for group in by_setting(cases):
        rates = [(c.row["engine_ver"], number(c.row, "out_tok_s_total"), c.row["id"]) for c in group]
        for release, rate, name in rates:
            others = [other for version, other, _ in rates if version != release]
            far = all(rate * MISPRINT < other or rate > MISPRINT * other for other in others)
            if len(others) >= OTHERS and far and max(others) < MISPRINT * min(others):
                names.add(name)
    return names


def _speculative(cases: Iterable[Case]) -> set[str]:
    """Rows of models that ship a draft layer which are much faster than another row of the same configuration."""

    def key(case: Case) -> Hashable | None:
        """The configuration, whatever the release and the layout of its experts."""
        if _series(case) is None or "DeepSeek" not in case.row["model"]:
            return None
        layout, load = case.layouts[0][0], case.load
        return (
            case.chip, case.row["engine"], case.precision.weights, layout.chips, layout.attention_dp,
            load.prompt_tokens, load.output_tokens, load.users,
        )  # fmt: skip

    names: set[str] = set()
    for group in _gathered(cases, key):
        tokens = {case.row["id"]: number(case.row, "tpot_ms_mean", 0.0) for case in group}
        names.update(name for name, token in tokens.items() if 0.0 < token * DRAFT_GAIN < max(tokens.values()))
    return names


def with_hits(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Closed loops of a series whose fastest run needs more arithmetic than kernels reach: prompts came from a cache.

    vLLM keeps prompts by default; a client that sends the same ones again is served from its cache.
    """
    found = [_series(case) if _beats_kernels(case) else None for case in cases]
    repeated = {key for key in found if key is not None}
    return tuple(
        replace(case, load=replace(case.load, hit_ratio=HIT_RATIO)) if _series(case) in repeated else case
        for case in cases
    )


def _series(case: Case) -> tuple[object, ...] | None:
    """Runs of one client with one engine, model and chip; None where a prompt is no closed loop's."""
    row = case.row
    if case.load.kind != "closed" or case.prefill is not None:
        return None
    return row["model"], row["engine"], row["engine_ver"], row["date"], case.chip.name, case.precision


def _beats_kernels(case: Case) -> bool:
    """Whether a closed loop's rate of requests takes a greater share of the peak than any measured product does."""
    token_s, first_s = number(case.row, "tpot_ms_mean") / 1e3, number(case.row, "ttft_ms_mean") / 1e3
    if _series(case) is None or token_s != token_s or first_s != first_s:
        return False
    load, (layout, replicas) = case.load, case.layouts[0]
    mean = 0.5 * (1.0 + load.low_ratio)
    per_s = load.users / (first_s + mean * load.output_tokens * token_s)
    tokens = mean * (load.prompt_tokens + load.output_tokens)
    share = peak_share(case.shape, case.chip, case.precision, layout.chips * replicas, per_s, tokens)
    return share > KERNEL_SHARE
