"""Definitions inferred from files, for `headrace init --from`: one stream per shape of events."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.define.catalog import load
from headrace.define.durations import format_duration
from headrace.errors import WorkspaceError
from headrace.infer import Drafted, draft
from headrace.infer.names import stream_name
from headrace.infer.sample import Sample, read_sample
from headrace.ingest.formats.layout import Format, format_of_name, make_layout

SHOWN = 5  # reasons and notes


@dataclass(frozen=True)
class Inferred:
    """A drafted definition and the files that it is of."""

    drafted: Drafted
    files: list[Path]
    options: str = ""  # what `send` has to be told, since neither names nor looks of the files say it

    def commands(self, where: str) -> list[str]:
        """What to type next, behind `headrace up`."""
        files = " ".join(shlex.quote(str(file)) for file in self.files)
        return [
            f"headrace send{where} {self.drafted.name} {files}{self.options} --wait",
            f"headrace ask{where} {self.drafted.view}",
        ]

    def lines(self) -> list[str]:
        """What was found, for people."""
        found = self.drafted
        fields = [
            f"{field.name} {field.type.name}{'<…>' if field.type.is_nested else ''}" for field in found.stream.fields
        ]
        time = found.stream.event_time
        said = [
            f"stream {found.name}: {', '.join(fields)}",
            f"  event time: {time}, patience {format_duration(found.stream.patience_ms)}"
            if time
            else "  event time: arrival",
            f"view {found.view}",
            f"  {found.fitting:,} of {found.sampled:,} sampled events fit",
        ]
        reasons = list(found.refused.items())
        said += [f"  {count:,} would not: {reason}" for reason, count in reasons[:SHOWN]]
        said += [f"  note: {note}" for note in found.notes[:SHOWN]]
        hidden = max(0, len(reasons) - SHOWN) + max(0, len(found.notes) - SHOWN)
        return [*said, *([f"  … and {hidden} notes more, in the definition or with --json"] if hidden else [])]

    def as_dict(self) -> dict[str, Any]:
        """The same, for programs."""
        found = self.drafted
        return {
            "stream": found.name,
            "view": found.view,
            "from": [str(file) for file in self.files],
            "fields": [
                {
                    "name": field.name,
                    "type": str(field.type),
                    "nullable": field.nullable,
                    "computed": field.computed.sql if field.computed else None,
                }
                for field in found.stream.fields
            ],
            "format": found.stream.format,
            "event_time": found.stream.event_time,
            "patience_ms": found.stream.patience_ms,
            "sampled": found.sampled,
            "fitting": found.fitting,
            "refused": found.refused,
            "left_out": found.left_out,
            "notes": found.notes,
        }


def infer(files: list[Path], folder: Path, fields: str | None = None) -> list[Inferred]:
    """One definition per shape of events: files whose events have the same fields are of one stream."""
    names = make_layout(None, fields=fields).fields
    shapes: dict[frozenset[str], list[Sample]] = {}
    for file in dict.fromkeys(files):
        sample = read_sample(file, names)
        shapes.setdefault(sample.shape, []).append(sample)
    known = load(folder / "definitions")
    taken = {name.lower() for name in (*known.streams, *known.views)}
    made: list[Inferred] = []
    for samples in shapes.values():
        paths = [sample.path for sample in samples]
        name = stream_name([path.name for path in paths])
        if name in taken:
            raise WorkspaceError(
                f"stream or view '{name}' is defined already",
                fix=f"rename '{paths[0].name}', since the stream is named after its file; nothing was written",
            )
        drafted = draft(name, samples, taken)
        taken |= {name, drafted.view.lower()}
        made.append(
            Inferred(drafted, [Path(os.path.relpath(path, Path.cwd())) for path in paths], _options(samples, fields))
        )
    return made


def _options(samples: list[Sample], fields: str | None) -> str:
    if not any(sample.texts for sample in samples):
        return ""
    named = all(format_of_name(sample.path.name) is Format.CSV for sample in samples)
    return ("" if named else " --format csv") + (f" --fields {shlex.quote(fields)}" if fields else "")
