"""Webhooks of alerts reach the hosts that the setting `http_allow` lists, and no other, as HTTP sinks do."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from headrace.deliver.alerts.advance import AlertRules
from headrace.deliver.alerts.alert_watch import ViewWatch, rules_of
from headrace.deliver.alerts.notice_targets import CONNECTOR, NoticeDelivery
from headrace.workspace.settings import Settings, Workspace
from tests.unit.deliver.alerts.watched import Watched, events
from tests.unit.deliver.sinks.sink_bench import Receiver
from tests.unit.serve.workbench import bench, view_of
from tests.waiting import wait_until

WINDOW = "window(at, '1 minute')"


def test_alerts_reach_only_hosts_of_the_setting() -> None:
    with bench() as work, closing(Receiver()) as receiver:
        work.start(view_of(WINDOW))
        watched = Watched(work, f"AS SELECT k0, n FROM v WHERE n > 2 WITH (webhook = '{receiver.url}')", WINDOW)
        rules = rules_of(watched.alert, work.serving().view, AlertRules("a", targets=(CONNECTOR,)))
        watched.watch = ViewWatch(watched.alert, rules, watched.file, work.store)
        assert watched.commit(events("a", 0, 3)) == {"a": "firing"}
        workspace = Workspace(work.folder, Settings(http_allow="example.com, *.internal:8443"))
        delivery = NoticeDelivery(watched.watch, "", workspace)
        try:
            delivery.notify()
            wait_until(lambda: delivery.error)
            refusal = "alert 'a': the setting http_allow does not list the host of its URL; found 127.0.0.1:"
            assert refusal in str(delivery.error)
            assert not receiver.requests
            workspace.settings = replace(workspace.settings, http_allow="127.0.0.*")
            wait_until(lambda: not watched.watch.state.notices, details=lambda: delivery.error)
            assert receiver.requests == 1
        finally:
            delivery.stop()
