"""What can go wrong, said so that the reader knows what to do.

Every error that may reach a person derives from :class:`FlexError`. It names what happened,
to what, and what to do next; the command line prints exactly these three and no traceback.
"""

from __future__ import annotations


class FlexError(Exception):
    """A failure with its reader in mind.

    what:  what happened, one sentence.
    where: the file (with line), path, node, pool or URL it happened to; may be empty.
    fix:   what to do next; may be empty.
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(str(self))

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" if self.where else self.what
        return f"{line} ({self.fix})" if self.fix else line


class InputErrors(FlexError):
    """Everything that is wrong with one input, all at once, in the order of the input."""

    def __init__(self, errors: list[FlexError] | tuple[FlexError, ...]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))
