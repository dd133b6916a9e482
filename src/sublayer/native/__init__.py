"""C code beside the Python that it speeds up: compiled on the machine that runs it, and never required.

All native code has a slow twin in PyTorch, which runs where there is no compiler.
"""

from sublayer.native.library import load

__all__ = ["load"]
