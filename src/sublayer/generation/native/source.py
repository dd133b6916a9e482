"""Where the C source of the step is."""

from pathlib import Path

SOURCE = Path(__file__).with_name("step.c")
