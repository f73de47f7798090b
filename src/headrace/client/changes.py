"""The changes of a view over HTTP: server-sent events, continued where they ended when the connection is lost."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from headrace.client.calls import Calls
from headrace.client.server_events import EVENT_STREAM, ServerEvents
from headrace.client.wire import read_error
from headrace.language.token_cursor import parse_type
from headrace.serve.question import key_text
from headrace.serve.values import decoder

if TYPE_CHECKING:
    from headrace.follow.change_question import ChangeQuestion
    from headrace.serve.change import Change


class ChangeCalls(Calls):
    """Requests for changes."""

    def changes(self, question: ChangeQuestion) -> Generator[Change, None, None]:
        """The changes of a view as they come. When the connection is lost it continues after the last change."""

        def read() -> Iterator[tuple[Change | None, str | None]]:
            return self._changes_once(question)  # after the last change that came

        for change, cursor in self.reconnecting(read):
            if cursor:  # a batch that was lost in part is read again: its rows are upserts
                question = replace(question, cursor=cursor)
            if change:
                yield change

    def _changes_once(self, question: ChangeQuestion) -> Iterator[tuple[Change | None, str | None]]:
        path = f"/v1/views/{quote(question.view, safe='')}/changes"
        headers = {"accept": EVENT_STREAM} | ({"last-event-id": question.cursor} if question.cursor else {})
        params = _parameters(question)
        with self._reaching(), self._http.stream("GET", path, params=params, headers=headers) as (reply, lines):
            self._reached = True
            if not reply.headers.get("content-type", "").startswith(EVENT_STREAM):
                self.read(replace(reply, content=b"".join(lines)))
            decoders: dict[str, Any] = {}
            for name, id, data in ServerEvents().read(lines):
                content = orjson.loads(data) if data else {}
                if name == "error":
                    raise read_error(content["error"], reply.status)
                if name == "columns":
                    decoders = {each["name"]: decoder(parse_type(each["type"])) for each in content["columns"]}
                elif name == "message" and content.get("op") in ("upsert", "delete", "restart", "caught_up"):
                    yield _read(content, decoders, id), id
                elif id:
                    yield None, id


def _read(content: dict[str, Any], decoders: dict[str, Any], cursor: str | None) -> Change | None:
    if content["op"] == "caught_up":
        return None
    from headrace.serve.change import Change  # only for readers of changes

    row = {
        name: value if value is None or decoders.get(name) is None else decoders[name](value)
        for name, value in content.get("row", {}).items()
    }
    return Change(content["op"], row, content["version"], content["commit"], cursor)


def _parameters(question: ChangeQuestion) -> list[tuple[str, str]]:
    pairs = [(f"key.{name}", key_text(value)) for name, values in question.key for value in values]
    if question.where:
        pairs.append(("where", question.where))
    if not question.snapshot:
        pairs.append(("snapshot", "false"))
    if question.settled_only:
        pairs.append(("settled_only", "true"))
    return pairs
