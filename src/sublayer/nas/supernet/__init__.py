"""The supernet: the order of sublayers, searched by gradient (Mandava et al. 2020, after FBNet, Wu et al. 2019).

Every place of the stack holds every letter, mixed by weights that come from an architecture by Gumbel-softmax. Weights
learn on most of the text; in turn with them, the architecture learns on the rest. Its most probable word is the result,
one a seed; each is then trained from scratch as an ordinary run, beside the base and PAR(p).

base, text = sublayer.config("gpt2", dim=128, layout="(sf)x8"), DataConfig.guess("book.txt")
figures = search(base, text, "supernets/book", SearchConfig(steps=2000), TrainConfig(steps=1000))
"""

from sublayer.nas.supernet.config import SearchConfig
from sublayer.nas.supernet.job import search
from sublayer.nas.supernet.reporters import ProgressReporter
from sublayer.nas.supernet.stack import Supernet, over

__all__ = ["ProgressReporter", "SearchConfig", "Supernet", "over", "search"]
