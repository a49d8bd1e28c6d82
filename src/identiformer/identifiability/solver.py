"""The solver of linear programs."""

from __future__ import annotations

import highspy


class SilentHighs(highspy.Highs):
    """A solver that is silent from the start: the constructor of the plain one prints to standard output."""

    def enableCallbacks(self) -> None:
        """What the constructor calls first."""
        self.silent()
        super().enableCallbacks()
