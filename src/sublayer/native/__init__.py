"""C code beside the Python that it speeds up: compiled on the machine that runs it, and never needed.

Whoever has native code has a slow twin in PyTorch, and goes on with that where there is no compiler.
"""

from sublayer.native.library import load

__all__ = ["load"]
