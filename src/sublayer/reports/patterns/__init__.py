"""Pictures of who sees whom: for a terminal, as SVG, as lists of keys."""

from sublayer.reports.patterns.cells import Cells
from sublayer.reports.patterns.drawing import MOST_TOKENS, Drawing, draw
from sublayer.reports.patterns.panels import Panel, panels

__all__ = ["MOST_TOKENS", "Cells", "Drawing", "Panel", "draw", "panels"]
