"""The supernet: the order of sublayers, searched by gradient (Mandava et al. 2020, after FBNet, Wu et al. 2019).

Every slot of the stack holds a sublayer of every letter; their outputs are mixed by weights drawn from the architecture
parameters by Gumbel-softmax. The model's weights are trained on most of the text, the architecture on the rest, in
turns. The result is the most probable word, one for each seed; each is then trained from scratch as an ordinary run,
beside the base and PAR(p).

base, text = sublayer.config("gpt2", dim=128, layout="(sf)x8"), DataConfig.guess("book.txt")
figures = search(base, text, "supernets/book", SearchConfig(steps=2000), TrainConfig(steps=1000))
"""

from sublayer.nas.supernet.config import SearchConfig
from sublayer.nas.supernet.job import search
from sublayer.nas.supernet.reporters import SupernetReporter
from sublayer.nas.supernet.stack import Supernet, over

__all__ = ["SearchConfig", "Supernet", "SupernetReporter", "over", "search"]
