"""Optuna's tree-structured Parzen estimator (Bergstra et al. 2011) through Ray Tune's searcher, as a function of the trials so far."""

from collections.abc import Sequence

from optuna.samplers import TPESampler
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from orchestrator.specs.sweep import LARGER_IS_BETTER
from orchestrator.specs.tune import TuneSpec


def suggest(dimensions: int, known: Sequence[tuple[Sequence[float], float | None]], spec: TuneSpec) -> list[float]:
    """The next point in the unit cube, from (point, value) of the arm's trials; None: a trial without a value.

    The searcher is made anew and told everything again, so that a resumed search goes on as an uninterrupted one.
    """
    names = [f"x{i}" for i in range(dimensions)]
    sampler = TPESampler(seed=spec.draw_seed, n_startup_trials=max(2, spec.trials // 3))
    mode = "max" if spec.select in LARGER_IS_BETTER else "min"
    searcher = OptunaSearch({n: tune.uniform(0.0, 1.0) for n in names}, metric="value", mode=mode, sampler=sampler)
    for number, (point, value) in enumerate(known):
        searcher.suggest(str(number))  # moves the generator on; the point may be another one, if a trial without a value got one later
        searcher.on_trial_complete(str(number), error=True)
        if value is not None:
            searcher.add_evaluated_point(dict(zip(names, point, strict=True)), value)
    found = searcher.suggest("next")
    assert isinstance(found, dict)
    return [float(found[name]) for name in names]
