"""A model of the workspace: a logistic regression, trained elsewhere. Its numbers are a part of the definitions."""

import numpy as np
import pyarrow as pa

import headrace as hr

MEANS = np.array([61.5, 2.9, 1480.0])  # of temperature, vibration, rpm
DEVIATIONS = np.array([9.2, 1.1, 160.0])
WEIGHTS = np.array([1.35, 2.1, 0.4])
BIAS = -3.2


@hr.udf("temperature DOUBLE, vibration DOUBLE, rpm DOUBLE", gives="DOUBLE")
def failure_risk(temperature, vibration, rpm):
    """Return the probability of a failure within a day, of each reading; NULL where a value is missing."""
    features = np.column_stack([each.to_numpy(zero_copy_only=False) for each in (temperature, vibration, rpm)])
    risks = 1 / (1 + np.exp(-((features - MEANS) / DEVIATIONS @ WEIGHTS + BIAS)))
    return pa.array(np.round(risks, 6), from_pandas=True)  # numpy's last digits differ with the length of an array
