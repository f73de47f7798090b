"""Collects the mistakes of one statement, so that all of them are reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from headrace.errors import DefinitionError, DefinitionErrors, Location


class FollowUpError(DefinitionError):
    """Something cannot be checked because of another mistake; only that one is reported."""


class Mistakes:
    """The mistakes collected so far."""

    def __init__(self, errors: Iterable[DefinitionError] = ()) -> None:
        self.errors = list(errors)

    def __bool__(self) -> bool:
        return bool(self.errors)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect the mistakes of a block and continue after it."""
        try:
            yield
        except DefinitionError as error:
            self.errors += each(error)

    def check(self) -> None:
        """Raise what was collected, if anything was."""
        if self.errors:
            raise join(self.errors)


def each(error: DefinitionError) -> list[DefinitionError]:
    """The single mistakes of an error."""
    return error.errors if isinstance(error, DefinitionErrors) else [error]


def join(errors: list[DefinitionError]) -> DefinitionError:
    """One error for all of them, by place; the same mistake at the same place is reported once."""
    causes = [error for error in errors if not isinstance(error, FollowUpError)] or errors
    by_place = {(str(error.where), error.message): error for error in causes}
    errors = sorted(by_place.values(), key=_place)
    return errors[0] if len(errors) == 1 else DefinitionErrors(errors)


@contextmanager
def placed(where: Location) -> Iterator[None]:
    """Set the place of mistakes that have none."""
    try:
        yield
    except DefinitionError as error:
        for one in each(error):
            one.where = one.where or where
        raise


def _place(error: DefinitionError) -> tuple[str, int, int]:
    return (error.where.file, error.where.line, error.where.column) if error.where else ("", 0, 0)
