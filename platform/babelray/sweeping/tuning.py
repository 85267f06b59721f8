"""Trials on Ray Tune: its searcher, scheduler and callback as views of the sweep's own search, records and driver."""

from __future__ import annotations

import logging
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from babelray.storage.lock import Check
from babelray.sweeping.records import Record, Trial
from babelray.sweeping.trial import SCHEDULED, STEP, TrialContext, trainable

if TYPE_CHECKING:
    from babelray.pipeline.plan import Digests
    from babelray.sweeping.driver import SweepDriver
    from babelray.sweeping.search import Search
    from babelray.sweeping.space import Space, Sweep

RESTARTS = 3
"""How often a trial whose process or node was lost is started again."""
DEFAULTS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the records hold everything
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Tune would take an interrupt for the end of the sweep
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # most events are not for the scheduler
    "TUNE_WARN_THRESHOLD_S": "60",
    "RAY_AIR_NEW_OUTPUT": "0",
}
"""Settings of Tune that are read from the environment; what the user has set is kept."""


def tune_trials(driver: SweepDriver, digests: Digests, check_lock_held: Check) -> None:
    """Run the trials that the search hands out."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    import ray

    if not os.environ.get("BABELRAY_DEBUG"):
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # the board reports lost processes
    tuner = _tuner(driver, digests)
    with driver.board:
        try:
            tuner.fit()
        finally:
            ray.kill(driver.locks)
            check_lock_held()  # otherwise the folder is another process's now
            driver.abandon()
            (driver.location / "tune").delete()
    if driver.error:
        raise driver.error


def _tuner(driver: SweepDriver, digests: Digests) -> Any:
    from ray import tune

    from babelray.storage.arrow import run_config_storage

    space = driver.sweep.space
    context = TrialContext(driver.sweep, digests, driver.locks)
    # A byte of memory: Tune must ask for something, and whole CPUs are left for the stages.
    function = tune.with_resources(tune.with_parameters(trainable, context=context), {"cpu": 0, "memory": 1})
    return tune.Tuner(
        function,
        tune_config=tune.TuneConfig(
            search_alg=_searcher(driver.search),
            scheduler=_scheduler(space, driver.records, _training_steps(driver.sweep)),
            num_samples=driver.search.remaining,
            max_concurrent_trials=driver.concurrent,
            reuse_actors=space.scheduler == "fifo",  # a stopped one is killed, with all that it started
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name="tune",
            **run_config_storage(driver.location),
            callbacks=[_callback(driver)],
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=RESTARTS),
        ),
    )


def _training_steps(sweep: Sweep) -> int:
    training = getattr(sweep.recipe, "pretrain", None)
    return training.steps if training else 1


def _searcher(search: Search) -> Any:
    """The search as a searcher of Tune."""
    from ray.tune.search import Searcher

    class TuneSearcher(Searcher):  # type: ignore[misc]
        def set_search_properties(self, metric: Any, mode: Any, config: Any, **spec: Any) -> bool:
            return True

        def suggest(self, trial_id: str) -> dict[str, Any] | str:
            trial = search.next()
            if trial is None:
                return str(Searcher.FINISHED)
            return {"trial": {"point": trial.point, "values": trial.values, "seed": trial.seed}}

        def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
            pass

        def save(self, checkpoint_path: str) -> None:
            pass

        def restore(self, checkpoint_path: str) -> None:
            pass

        def __reduce__(self) -> Any:
            """Tune pickles it in order to restore it; here the records do that."""
            return Searcher, ()

    return TuneSearcher()


def _scheduler(space: Space, records: dict[str, Record], steps: int) -> Any:
    """The scheduler that stops trainings, with the reports of earlier ones."""
    from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler

    if space.scheduler == "fifo":
        return FIFOScheduler()
    asha = space.asha
    scheduler = AsyncHyperBandScheduler(
        time_attr=STEP,
        metric=SCHEDULED,
        mode=asha.metric.mode,
        max_t=max(steps, asha.grace),
        grace_period=asha.grace,
        reduction_factor=asha.factor,
        stop_last_trials=False,
    )
    for key, record in records.items():
        if record.state in ("done", "stopped"):
            earlier = SimpleNamespace(trial_id=key)
            scheduler.on_trial_add(None, earlier)
            for step, value in record.reports:
                scheduler.on_trial_result(None, earlier, {STEP: step, SCHEDULED: value})
    return scheduler


def _callback(driver: SweepDriver) -> Any:
    """The driver as a callback of Tune."""
    from ray.tune import Callback

    def trial_of(trial: Any) -> Trial:
        return Trial(**trial.config["trial"])

    class TuneCallback(Callback):  # type: ignore[misc]
        def on_trial_start(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            driver.on_start(trial_of(trial))

        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            driver.on_event(trial_of(trial), result.get("event", {}))

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            driver.on_end(trial_of(trial), trial.trial_id)

        def on_trial_recover(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            driver.board.notify(f"process lost, starting the trial again: {trial_of(trial).label()}")

        def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            driver.on_end(trial_of(trial), trial.trial_id, f"its process was lost {RESTARTS + 1} times")

        def __reduce__(self) -> Any:
            return Callback, ()

    return TuneCallback()
