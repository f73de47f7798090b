"""What a workspace cannot do without a server: named subscriptions."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import NotReadyError

if TYPE_CHECKING:
    from headrace.follow.terms import SubscriptionStatus


class WithoutServer:
    """Refuses these methods."""

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
    """The error for a method that needs a server."""
    return NotReadyError("no server is running, and subscriptions need one", fix="`headrace up` starts one")
