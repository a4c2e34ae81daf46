"""Models that look ahead, or at whole series: what they take, and how they say what they do not."""

import asyncio

import numpy as np
import pytest

from neuralrde import LogSignatureRegressor, NeuralRDERegressor
from neuralrde.paths import Series
from neuralrde.tools.serving import Limits, RequestError, Service
from neuralrde.tools.serving.jobs import Job
from neuralrde.tools.serving.served import ServedModel
from neuralrde.transforms import ScaleEach

from .conftest import SMALL, walks


async def asked(service: Service, *jobs: Job) -> list:
    await service.start()
    while not service.ready:
        await asyncio.sleep(0.02)
    try:
        return [await service.ask(job) for job in jobs]
    finally:
        await service.stop()


@pytest.mark.long
def test_a_transform_that_looks_ahead_takes_whole_series_only():
    X = walks(20, 40)
    model = NeuralRDERegressor(**{**SMALL, "transform": ScaleEach(), "epochs": 1}).fit(X, X[:, -1, 0])
    service = Service({"m": model}, limits=Limits(batch=1))
    [found] = asyncio.run(asked(service, Job("m", service.whole_name(), kind="whole", values=X[3])))
    assert np.isclose(found.prediction.prediction, model.predict(X[3:4])[0], rtol=1e-5)
    with pytest.raises(RequestError, match=r"takes no streams: .*ScaleEach"):
        asyncio.run(asked(Service({"m": model}, limits=Limits(batch=1)), Job("m", "s", values=X[3])))


def test_the_closed_form_keeps_the_last_points():
    X = walks(30, 50)
    model = LogSignatureRegressor(random_state=0).fit(X, X[:, -1, 0])
    service = Service({"m": model}, limits=Limits(batch=2), last=50)
    [x] = walks(1, 120, seed=5)
    jobs = [Job("m", "s", values=x[start : start + 40]) for start in (0, 40, 80)]
    *_, found = asyncio.run(asked(service, *jobs))
    assert found.points == 120
    # The same sums in the same order; only the batch differs.
    assert np.isclose(found.prediction.prediction, model.predict(x[None, -50:])[0], rtol=1e-4)


def test_a_model_knows_its_channels_and_whether_they_had_times():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 12, 2)).cumsum(axis=1)
    for times in (None, np.arange(12.0)):
        series = Series.from_array(values, times=times, channels=["pulse", "ecg"])
        model = LogSignatureRegressor(draws=5, random_state=0).fit(series, values[:, -1, 0])
        served = ServedModel("hearts", model)
        assert served.channels == ["pulse", "ecg"]
        assert served.timed is (None if times is None else True)
