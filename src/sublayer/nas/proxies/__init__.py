"""Proxies: figures of an untrained model that predict how good it will be.

from sublayer.nas import proxies

proxies.score("synflow", config, batch)
for name in proxies.names():
    proxies.find(name).score(config, batches, seed=0)
"""

# In the order in which they are listed, from the cheapest to the most expensive.
from sublayer.nas.proxies import counts, gradient, fisher, synflow, naswot, short_training  # noqa: F401, I001
from sublayer.nas.proxies.base import Proxy, find, names, proxy, score

__all__ = ["Proxy", "find", "names", "proxy", "score"]
