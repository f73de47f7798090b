"""Runs a Python definition file and collects its definitions; the only module that executes a user's code."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.define import model
from headrace.define.python.definition_builder import declared
from headrace.errors import DefinitionError, HeadraceError, Location
from headrace.language.statements.create_view import LogicalStatement

_SPARK = (
    "definitions are no jobs of Spark: docs/guides/moving-from-spark-streaming.md has what to write for "
    "readStream, DataFrames and writeStream"
)


def run_script(path: Path, text: str) -> list[tuple[model.Definition | LogicalStatement, Location]]:
    """Everything that the file declares, and what it imports from other modules."""
    records: list[tuple[model.Definition | LogicalStatement, Location]] = []
    token = declared.set(records)
    namespace: dict[str, Any] = {"__name__": f"definitions.{path.stem}", "__file__": str(path)}
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), namespace)
    except SyntaxError as e:
        where = Location(str(path), e.lineno or 1, e.offset or 1)
        raise DefinitionError(f"not valid Python: {e.msg}", where=where) from None
    except DefinitionError as e:
        e.where = e.where or _place(path, e.__traceback__)
        raise e.with_traceback(None) from None
    except (Exception, SystemExit) as e:
        message = str(e) if isinstance(e, HeadraceError) else f"{type(e).__name__}: {e}"
        fix = _SPARK if isinstance(e, NameError | ImportError) and e.name in ("spark", "dlt") else None
        raise DefinitionError(f"the file raised {message}", fix=fix, where=_place(path, e.__traceback__)) from None
    finally:
        declared.reset(token)
    own_ids = {id(definition) for definition, _ in records}
    bound = {id(value): value for value in namespace.values() if isinstance(value, model.Definition | LogicalStatement)}
    others = [(value, Location(str(path), 1, 1)) for key, value in bound.items() if key not in own_ids]
    return [*others, *records]


def _place(path: Path, traceback: TracebackType | None) -> Location:
    """The last line of the file itself that was running."""
    line = 1
    while traceback:
        if traceback.tb_frame.f_code.co_filename == str(path):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return Location(str(path), line, 1)
