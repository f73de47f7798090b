"""The alerts of a workspace without a running server."""

from __future__ import annotations

import time

from headrace.api.local_folder import WorkspaceFolder
from headrace.api.refusals import DOWN
from headrace.deliver.alerts.alert_condition import describe
from headrace.deliver.alerts.alert_state import read_state, state_file
from headrace.deliver.delivery_status import AlertStatus


def describe_alerts(folder: WorkspaceFolder) -> list[AlertStatus]:
    """All alerts as the server left them."""
    now_us, alerts = time.time_ns() // 1000, folder.catalog.alerts
    states = {name: read_state(state_file(folder.workspace.alerts, name)) for name in alerts}
    return [describe(alert, states[name], now_us, DOWN, None) for name, alert in alerts.items()]
