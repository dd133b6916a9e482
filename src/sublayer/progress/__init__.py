"""How far work is, shown to people: a bar with the time left on a terminal, a line now and then in a log.

The rooms below report by callbacks and print nothing; what is shown goes to stderr, so that stdout can be piped.
"""

from sublayer.progress.display import Display

__all__ = ["Display"]
