"""Definitions inferred from files, for `headrace init --from`: one stream per shape of events."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.define.catalog import load, parse
from headrace.errors import WorkspaceError
from headrace.ingest.formats.format_detection import Format, format_of_name, make_layout
from headrace.language.durations import format_duration
from headrace.tools.infer import Draft, draft
from headrace.tools.infer.field_profile import stream_name
from headrace.tools.infer.file_sample import FileSample, read_sample
from headrace.tools.testing.first_test import first_test

MOST_NOTES = 5  # reasons and notes
TEST_LINES = 200  # of the sample, from which the events of the first test come


@dataclass(frozen=True)
class InferredStream:
    """An inferred definition and its files."""

    draft: Draft
    files: list[Path]
    options: str = ""  # of `send`, where it could not detect the format of the files
    test: str | None = None  # a test file of the definition

    def commands(self, where: str) -> list[str]:
        """The next commands, after `headrace up`."""
        files = " ".join(shlex.quote(str(file)) for file in self.files)
        return [
            f"headrace send{where} {self.draft.name} {files}{self.options} --wait",
            f"headrace ask{where} {self.draft.view}",
        ]

    def lines(self) -> list[str]:
        """The definition as text."""
        draft = self.draft
        fields = [
            f"{field.name} {field.type.name}{'<…>' if field.type.is_nested else ''}" for field in draft.stream.fields
        ]
        time = draft.stream.event_time
        lines = [
            f"stream {draft.name}: {', '.join(fields)}",
            f"  event time: {time}, patience {format_duration(draft.stream.patience_ms)}"
            if time
            else "  event time: arrival",
            f"view {draft.view}",
            f"  {draft.fitting:,} of {draft.sampled:,} sampled events fit",
        ]
        reasons = list(draft.refused.items())
        lines += [f"  {count:,} would not: {reason}" for reason, count in reasons[:MOST_NOTES]]
        lines += [f"  note: {note}" for note in draft.notes[:MOST_NOTES]]
        hidden = max(0, len(reasons) - MOST_NOTES) + max(0, len(draft.notes) - MOST_NOTES)
        return [*lines, *([f"  … and {hidden} notes more, in the definition or with --json"] if hidden else [])]

    def as_dict(self) -> dict[str, Any]:
        """The definition as JSON values."""
        draft = self.draft
        return {
            "stream": draft.name,
            "view": draft.view,
            "from": [str(file) for file in self.files],
            "fields": [
                {
                    "name": field.name,
                    "type": str(field.type),
                    "nullable": field.nullable,
                    "computed": field.computed.sql if field.computed else None,
                }
                for field in draft.stream.fields
            ],
            "format": draft.stream.format,
            "event_time": draft.stream.event_time,
            "patience_ms": draft.stream.patience_ms,
            "sampled": draft.sampled,
            "fitting": draft.fitting,
            "refused": draft.refused,
            "left_out": draft.left_out,
            "notes": draft.notes,
        }


def infer(files: list[Path], folder: Path, fields: str | None = None) -> list[InferredStream]:
    """One definition per shape of events: files whose events have the same fields belong to one stream."""
    names = make_layout(None, fields=fields).fields
    shapes: dict[frozenset[str], list[FileSample]] = {}
    for file in dict.fromkeys(files):
        sample = read_sample(file, names)
        shapes.setdefault(sample.shape, []).append(sample)
    catalog = load(folder / "definitions")
    other_names = {name.lower() for name in (*catalog.streams, *catalog.views)}
    streams: list[InferredStream] = []
    for samples in shapes.values():
        paths = [sample.path for sample in samples]
        name = stream_name([path.name for path in paths])
        if name in other_names:
            raise WorkspaceError(
                f"stream or view '{name}' is defined already",
                fix=f"rename '{paths[0].name}', since the stream is named after its file; nothing was written",
            )
        definition = draft(name, samples, other_names)
        other_names |= {name, definition.view.lower()}
        streams.append(
            InferredStream(
                definition,
                [Path(os.path.relpath(path, Path.cwd())) for path in paths],
                _options(samples, fields),
                _first_test(definition, samples[0]),
            )
        )
    return streams


def _first_test(definition: Draft, sample: FileSample) -> str | None:
    lines = sample.as_lines(definition.stream).split(b"\n", TEST_LINES)[:TEST_LINES]
    return first_test(parse(definition.sql), definition.stream, definition.view, b"\n".join(lines) + b"\n")


def _options(samples: list[FileSample], fields: str | None) -> str:
    if not any(sample.texts for sample in samples):
        return ""
    names_end_in_csv = all(format_of_name(sample.path.name) is Format.CSV for sample in samples)
    return ("" if names_end_in_csv else " --format csv") + (f" --fields {shlex.quote(fields)}" if fields else "")
