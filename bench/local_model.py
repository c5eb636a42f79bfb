"""Step times on this machine, predicted from its profile, of sizes that the profile has not seen; and serving costs.

    python bench/local_model.py [--trainer jax_mlp] …

Measures the machine first (a quiet one gives the best profile), then trains other sizes for a moment and compares.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from gpuyard.app.measure import measure_rates, trainers_here
from gpuyard.app.serving_cost import measure_serving, served_cost_s, work_of
from gpuyard.app.training_probes import ProbeShape, probes_of, shapes_of
from gpuyard.document.encode import dump_json, load_json
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainers.network_settings import MlpSpec
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.perf.local.predict import fit_probes, predict_step
from gpuyard.perf.local.profile import MachineProfile

MLPS = (
    (48, 2, 64, 20),
    (128, 2, 128, 100),
    (384, 2, 96, 32),
    (768, 3, 128, 64),
    (1536, 2, 64, 128),
    (96, 4, 512, 40),
)
TRANSFORMERS = (
    (96, 3, 4, 65, 512),
    (160, 4, 4, 97, 1024),
    (224, 3, 8, 65, 512),
    (288, 4, 4, 129, 2048),
    (448, 2, 2, 193, 1024),
)
TREES = (
    (150, 30, 31),
    (455, 30, 31),
    (800, 8, 15),
    (1000, 20, 31),
    (3000, 100, 63),
    (10000, 30, 15),
    (30000, 20, 31),
)
SERVED = (
    (TrainSpec(jax_mlp=MlpSpec(hidden=128, layers=2, steps=2)), 20),
    (TrainSpec(jax_mlp=MlpSpec(hidden=384, layers=2, steps=2)), 60),
    (TrainSpec(trees=TreesSpec(rounds=100, leaves=31, min_rows=1)), 20),
)


def unseen(trainer: str) -> tuple[ProbeShape, ...]:
    """Sizes that are not among the probes."""
    if trainer == "trees":
        return tuple(
            ProbeShape(trainer=trainer, width=w, layers=1, batch=b, inputs=f) for b, f, w in TREES
        )
    if trainer.endswith("mlp"):
        return tuple(
            ProbeShape(trainer=trainer, width=w, layers=d, batch=b, inputs=f) for w, d, b, f in MLPS
        )
    return tuple(
        ProbeShape(trainer=trainer, width=w, layers=d, batch=b, inputs=s, vocab=v)
        for w, d, b, s, v in TRANSFORMERS
    )


def main() -> None:
    """Prints predicted beside measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--trainer", action="append", help="only these; default: all that are installed"
    )
    parser.add_argument(
        "--rates",
        type=Path,
        help="rates of a call before this one; the first call only writes them",
    )
    parser.add_argument("--keep", type=Path, help="write the rates and all trainings to this file")
    parser.add_argument("--no-serving", action="store_true")
    asked = parser.parse_args()
    trainers = asked.trainer or trainers_here()
    if asked.rates is not None and asked.rates.exists():
        profile = load_json(
            asked.rates.read_text(encoding="utf-8"), MachineProfile, str(asked.rates)
        )
    else:
        with tempfile.TemporaryDirectory() as folder:
            profile = measure_rates(
                Path(folder), trainers, on_progress=lambda text: print(text, file=sys.stderr)
            )
    if asked.rates is not None and not asked.rates.exists():
        asked.rates.write_text(dump_json(profile), encoding="utf-8")
        return
    for trainer in trainers:
        profile = judge(profile, trainer)
    if asked.keep is not None:
        asked.keep.write_text(dump_json(profile), encoding="utf-8")
    if asked.no_serving:
        return
    serving = measure_serving()
    for spec, features in SERVED:
        flop, visits = work_of(spec, features, 2)
        predicted_s, measured_s = (
            serving.cost_s(features, flop, visits),
            served_cost_s(spec, features),
        )
        print(
            f"serving {features} features, {flop:,.0f} flop, {visits:,.0f} nodes: predicted {1 / predicted_s:,.0f} "
            f"requests a core-second, measured {1 / measured_s:,.0f}: {measured_s / predicted_s - 1:+.0%}"
        )


def judge(profile: MachineProfile, trainer: str) -> MachineProfile:
    """Tries the usual sizes and the others in turn, fits the constants to the usual ones alone, and predicts the rest.

    In turn, because the speed of a shared machine drifts: both kinds see the same hours of it.
    """
    usual = shapes_of(trainer)
    probes = probes_of(trainer, (*usual, *unseen(trainer)))
    known = {shape.label for shape in usual}
    fit = fit_probes(profile, trainer, [probe for probe in probes if probe.label in known])
    fitted, errors = replace(profile, fits=(fit,)), []
    print(f"{trainer}: left-one-out {fit.error_ratio:.1%} of {len(usual)} sizes")
    for probe in probes:
        if probe.label in known:
            continue
        step = predict_step(probe.work, fitted, trainer)
        errors.append(abs(step.step_s / probe.step_s - 1))
        print(
            f"  {probe.label:<50} predicted {step.step_s * 1e3:9.3f} ms, measured {probe.step_s * 1e3:9.3f} ms: "
            f"{step.step_s / probe.step_s - 1:+.0%}; memory {step.memory_bytes / probe.memory_bytes - 1:+.0%}"
        )
    print(f"  mean absolute error {statistics.mean(errors):.1%}, largest {max(errors):.0%}")
    return replace(profile, probes=(*profile.probes, *probes))


if __name__ == "__main__":
    main()
