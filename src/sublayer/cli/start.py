"""How a verb that needs torch begins."""

import gc


def import_torch() -> None:
    """Faster by a fifth: the objects it makes stay, so nothing is to be found among them, now or later."""
    gc.disable()
    import torch  # noqa: F401

    gc.freeze()
    gc.enable()
