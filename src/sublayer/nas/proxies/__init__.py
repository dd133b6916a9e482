"""Proxies: how good a model will be, said before it is trained.

from sublayer.nas import proxies

proxies.score("synflow", config, batch)
for name in proxies.names():
    proxies.find(name).score(config, batches, seed=0)
"""

# In the order in which they are told, from the cheapest kind to the dearest.
from sublayer.nas.proxies import counts, gradient, fisher, synflow, naswot, short_training  # noqa: F401, I001
from sublayer.nas.proxies.base import Proxy, find, names, proxy, score

__all__ = ["Proxy", "find", "names", "proxy", "score"]
