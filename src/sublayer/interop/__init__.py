"""Models from and for other libraries."""

from sublayer.interop import huggingface

__all__ = ["huggingface"]
