"""What a reader of the changes of a view asks for, from Python values or from the text of a URL or command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import QuestionError, did_you_mean
from headrace.serve.change_batch import ChangeCursor
from headrace.serve.question import read_key

LONGEST = 4_000  # characters of a condition
PARAMETERS = ("where", "snapshot", "settled_only", "cursor")


@dataclass(frozen=True)
class ChangeQuestion:
    """What a reader of changes asks for.

    - `key`: only rows with one of these values of a key; `where`: only rows for which this condition is true. A row
      that was sent and for which it is no longer true is sent as a delete.
    - `snapshot`: begin with all rows; else with the changes from now on. A `cursor` continues after a change.
    - `settled_only`: rows of settled windows, when they settle, and corrections of them.
    """

    view: str
    key: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    where: str | None = None
    snapshot: bool = True
    settled_only: bool = False
    cursor: str | None = None

    @classmethod
    def of(
        cls,
        view: str,
        key: Mapping[str, Any] | None = None,
        where: str | None = None,
        snapshot: Any = True,
        settled_only: Any = False,
        cursor: str | None = None,
    ) -> ChangeQuestion:
        """From Python values; a list of values of a key means any of them."""
        if where is not None and not isinstance(where, str):
            raise QuestionError("where is not a condition", found=repr(where)[:60], expected="text such as 'n > 5'")
        where = where.strip() if where else None
        if where and len(where) > LONGEST:
            raise QuestionError(
                "where is too long", found=f"{len(where):,} characters", expected=f"at most {LONGEST:,}"
            )
        keys = {name: value if isinstance(value, list | tuple) else [value] for name, value in (key or {}).items()}
        if cursor:
            ChangeCursor.from_text(cursor)
        return cls(
            view,
            tuple((name, tuple(values)) for name, values in sorted(keys.items())),
            where or None,
            _flag("snapshot", snapshot),
            _flag("settled_only", settled_only),
            cursor or None,
        )

    @classmethod
    def from_text(cls, view: str, parameters: Iterable[tuple[str, str]]) -> ChangeQuestion:
        """From the parameters of a URL."""
        keys: dict[str, list[Any]] = {}
        options: dict[str, Any] = {}
        for name, text in parameters:
            if name.startswith("key."):
                keys.setdefault(name.removeprefix("key."), []).append(read_key(text))
            elif name not in PARAMETERS:
                raise QuestionError(
                    f"'{name}' is not a parameter of changes",
                    expected=f"key.NAME, {', '.join(PARAMETERS)}",
                    fix=did_you_mean(name, PARAMETERS),
                )
            elif name in options:
                raise QuestionError(f"parameter '{name}' is given twice", fix="give it once")
            else:
                options[name] = text
        return cls.of(view, keys, **options)


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "false": False}.get(str(value).strip().lower())
    if known is None:
        raise QuestionError(f"{name} is neither true nor false", found=repr(value)[:60], expected="true or false")
    return known
