"""What a workspace cannot do without a server: subscriptions, silences, waiting for views, changes of sinks."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import NotReadyError

if TYPE_CHECKING:
    from headrace.deliver.delivery_status import SilenceStatus, SubscriptionStatus
    from headrace.ingest.receiver import TokenState
    from headrace.server.status import SinkStatus

DOWN = "the server is not running"
START_IT = "start `headrace up`, then try again"


class WithoutServer:
    """Refuses these methods."""

    def wait_token(self, token: str, timeout_s: float) -> TokenState:
        """Not possible without a server."""
        raise NotReadyError(
            "the events are accepted, but no server is running, so views do not have them yet",
            fix="`headrace up` processes them; they need not be sent again",
        )

    def silence(self, alert: str, for_ms: int, values: Mapping[str, object], reason: str = "") -> SilenceStatus:
        """Only a server sends notices."""
        raise NotReadyError(f"alert '{alert}' cannot be silenced: {DOWN}", fix=START_IT)

    def end_silence(self, alert: str, id: str | None = None) -> int:
        """Only a server sends notices."""
        raise NotReadyError(f"alert '{alert}' cannot be changed: {DOWN}", fix=START_IT)

    def change_sink(self, name: str, action: str) -> SinkStatus:
        """Not possible without a server."""
        raise NotReadyError(f"sink '{name}' is not running: {DOWN}", fix=START_IT)

    def subscriptions(self) -> list[SubscriptionStatus]:
        """Not possible without a server."""
        raise needs_server()

    def create_subscription(self, name: str, **terms: Any) -> SubscriptionStatus:
        """Not possible without a server."""
        raise needs_server()

    def drop_subscription(self, name: str) -> None:
        """Not possible without a server."""
        raise needs_server()

    def batches(self, subscription: str, limit: int, credit: int) -> Generator[Mapping[str, Any], None, None]:
        """Not possible without a server."""
        raise needs_server()

    def acknowledge(self, subscription: str, leases: Sequence[str], events: Sequence[str] | None = None) -> None:
        """Not possible without a server."""
        raise needs_server()

    def give_back(self, subscription: str, leases: Sequence[str]) -> None:
        """Not possible without a server."""
        raise needs_server()


def needs_server() -> NotReadyError:
    """The error for a method of subscriptions."""
    return NotReadyError("no server is running, and subscriptions need one", fix="`headrace up` starts one")
