"""HTTP for tests: without proxies, and with long timeouts, since a busy machine may be slow."""

from __future__ import annotations

from functools import partial

import httpx2

PATIENT_S = 120

get = partial(httpx2.get, trust_env=False, timeout=PATIENT_S)
post = partial(httpx2.post, trust_env=False, timeout=PATIENT_S)
stream = partial(httpx2.stream, trust_env=False, timeout=PATIENT_S)
Client = partial(httpx2.Client, trust_env=False, timeout=PATIENT_S)
