"""Small texts that outlive the database: the progress of sinks, the highest number of each view's versions.

A database that is in use by another process, damaged or of an older format is replaced by an empty one: views can
be computed again. These texts cannot, so each is a file beside it. The folder carries the fence of its writer: who
takes over renames it, and the writer before cannot write any more.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from headrace.disk import replace_file, sync
from headrace.errors import FencedError
from headrace.name_encoding import decode_name, encode_name

PREFIX = "kept-"


class StoredTexts:
    """The texts by kind and name. A reader opens it with `fence` None."""

    def __init__(self, parent: Path, fence: int | None) -> None:
        self._parent, self._fence = parent, fence
        if fence is not None:
            self._take_over(fence)

    def _take_over(self, fence: int) -> None:
        folder = self._folder(fence)
        folders = _folders(self._parent)
        if folders and folders[-1] != folder:
            if _fence_of(folders[-1]) > fence:
                return  # another process has taken over: the first write says so
            folders[-1].rename(folder)
        folder.mkdir(parents=True, exist_ok=True)
        sync(self._parent)
        for left in _folders(self._parent)[:-1]:
            shutil.rmtree(left, ignore_errors=True)

    def _folder(self, fence: int) -> Path:
        return self._parent / f"{PREFIX}{fence:08d}"

    def read(self, kind: str) -> dict[str, str]:
        """The texts of a kind, by name."""
        for _ in range(3):  # the folder may be renamed meanwhile
            folders = _folders(self._parent)
            if not folders:
                return {}
            with suppress(FileNotFoundError):
                return {decode_name(file.stem): file.read_text() for file in (folders[-1] / kind).glob("*.txt")}
        return {}

    def get(self, kind: str, name: str) -> str | None:
        """One of them."""
        for _ in range(3):  # as above
            folders = _folders(self._parent)
            if folders:
                with suppress(FileNotFoundError):
                    return (folders[-1] / kind / f"{name}.txt").read_text()
        return None

    def write(self, kind: str, name: str, value: str | None) -> None:
        """Keep a text in place of the one before; None: no longer. It is on disk when this returns."""
        assert self._fence is not None, "only the writer keeps"
        folder = self._folder(self._fence)
        file = folder / kind / f"{encode_name(name)}.txt"
        try:
            if not folder.is_dir():
                raise FileNotFoundError(folder)
            if value is None:
                file.unlink(missing_ok=True)
                return
            file.parent.mkdir(exist_ok=True)
            replace_file(file, value.encode(), f"the {kind} '{name}' was not recorded")
        except FileNotFoundError:
            folders = _folders(self._parent)
            raise FencedError(
                f"the {kind} '{name}' was not recorded",
                found=f"fence {_fence_of(folders[-1])}" if folders else "no folder",
                expected=f"fence {self._fence}",
                fix="nothing was changed; another process has taken over, so stop this one",
            ) from None


def _folders(parent: Path) -> list[Path]:
    """The folders of all writers, the newest last."""
    return sorted((path for path in parent.glob(f"{PREFIX}*") if path.is_dir()), key=_fence_of)


def _fence_of(folder: Path) -> int:
    digits = folder.name.removeprefix(PREFIX)
    return int(digits) if digits.isdigit() else -1
