"""Links from a page to files of a results folder and of the repository around it."""

from __future__ import annotations

import os
from pathlib import Path


class Places:
    """Where things are, seen from a page."""

    def __init__(self, page: Path, out: Path) -> None:
        self.here, self.out = page.parent.resolve(), out.resolve()

    @property
    def in_repository(self) -> bool:
        """Whether the results folder lies in this project's own repository."""
        return all((self.out.parent / name).exists() for name in ("Makefile", "src/ctlpp", "tests"))

    def of(self, name: str) -> str:
        """A file or folder of the results folder."""
        return Path(os.path.relpath(self.out / name, self.here)).as_posix()

    def figure(self, name: str, alt: str, caption: str) -> str:
        """An image with a caption; nothing if it has not been drawn."""
        if not (self.out / "figures" / f"{name}.png").is_file():
            return ""
        return f"![{alt}]({self.of(f'figures/{name}.png')})\n\n*{caption}*"
