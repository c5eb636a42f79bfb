"""Families of scikit-learn models by name: the estimator for classes and for values."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass

from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
)
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from gpuyard.learn.trainers.sklearn_models.sklearn_settings import SklearnSpec

Estimator: typing.TypeAlias = typing.Any  # scikit-learn has no type for all estimators
MAX_ITERATIONS = 1000
# Half of the rows and few columns per tree: a stack of many classes fits thousands of trees.
FAST_BOOSTING = {"subsample": 0.5, "max_features": "sqrt"}
STACK_FOLDS = 5  # of the predictions that the last model of a stack learns from


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily:
    """One family; None where it does not exist for classes or for values."""

    name: str
    classes: Callable[[SklearnSpec, int], Estimator] | None
    values: Callable[[SklearnSpec, int], Estimator] | None


def _logistic(l1_ratio: float | None, penalised: bool) -> Callable[[SklearnSpec, int], Estimator]:
    def make(spec: SklearnSpec, seed: int) -> Estimator:
        ratio = spec.l1_ratio if l1_ratio is None else l1_ratio
        strength = spec.alpha if penalised else 0.0
        return LogisticRegression(
            C=1.0 / strength if strength else float("inf"),
            l1_ratio=ratio,
            solver="saga" if ratio else "lbfgs",
            max_iter=MAX_ITERATIONS,
            random_state=seed,
        )

    return make


def _forest(estimator: type) -> Callable[[SklearnSpec, int], Estimator]:
    def make(spec: SklearnSpec, seed: int) -> Estimator:
        return estimator(
            n_estimators=spec.trees,
            max_depth=spec.depth,
            min_samples_leaf=spec.min_rows,
            n_jobs=spec.threads or None,
            random_state=seed,
        )

    return make


def _neighbours(estimator: type) -> Callable[[SklearnSpec, int], Estimator]:
    return lambda spec, _seed: estimator(n_neighbors=spec.neighbours)


def _stack(classes: bool) -> Callable[[SklearnSpec, int], Estimator]:
    """A linear model over the out-of-fold predictions of three different ones."""
    linear, forest, boosting = (
        (
            LogisticRegression(max_iter=MAX_ITERATIONS),
            ExtraTreesClassifier,
            GradientBoostingClassifier,
        )
        if classes
        else (Ridge(), ExtraTreesRegressor, GradientBoostingRegressor)
    )

    def make(spec: SklearnSpec, seed: int) -> Estimator:
        stacked = StackingClassifier if classes else StackingRegressor
        final = LogisticRegression(max_iter=MAX_ITERATIONS) if classes else Ridge(positive=True)
        trees = forest(n_estimators=spec.trees, min_samples_leaf=spec.min_rows, random_state=seed)
        return stacked(
            [
                ("linear", make_pipeline(StandardScaler(), linear)),
                ("forest", trees),
                ("boosting", boosting(n_estimators=spec.trees, random_state=seed, **FAST_BOOSTING)),
            ],
            final_estimator=final,
            cv=STACK_FOLDS,
        )

    return make


FAMILIES = (
    ModelFamily(
        name="linear", classes=_logistic(0.0, False), values=lambda _spec, _seed: LinearRegression()
    ),
    ModelFamily(
        name="ridge",
        classes=_logistic(0.0, True),
        values=lambda spec, _seed: Ridge(alpha=spec.alpha),
    ),
    ModelFamily(
        name="lasso",
        classes=_logistic(1.0, True),
        values=lambda spec, _seed: Lasso(alpha=spec.alpha, max_iter=MAX_ITERATIONS),
    ),
    ModelFamily(
        name="elastic_net",
        classes=_logistic(None, True),
        values=lambda spec, _seed: ElasticNet(
            alpha=spec.alpha, l1_ratio=spec.l1_ratio, max_iter=MAX_ITERATIONS
        ),
    ),
    ModelFamily(
        name="random_forest",
        classes=_forest(RandomForestClassifier),
        values=_forest(RandomForestRegressor),
    ),
    ModelFamily(
        name="extra_trees",
        classes=_forest(ExtraTreesClassifier),
        values=_forest(ExtraTreesRegressor),
    ),
    ModelFamily(
        name="svm",
        # Platt's scaling on folds turns distances into probabilities.
        classes=lambda spec, _seed: CalibratedClassifierCV(SVC(C=spec.c), ensemble=False),
        values=lambda spec, _seed: SVR(C=spec.c),
    ),
    ModelFamily(
        name="neighbours",
        classes=_neighbours(KNeighborsClassifier),
        values=_neighbours(KNeighborsRegressor),
    ),
    ModelFamily(name="naive_bayes", classes=lambda _spec, _seed: GaussianNB(), values=None),
    ModelFamily(name="stack", classes=_stack(True), values=_stack(False)),
)


def family_named(name: str) -> ModelFamily:
    """Return the family of that name."""
    return next(family for family in FAMILIES if family.name == name)
