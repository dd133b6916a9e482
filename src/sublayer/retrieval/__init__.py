"""Datastores: contexts of a text by their vectors in a model, each with the token that came next; to be looked up while
the model predicts (Khandelwal et al. 2020, kNN-LM).

from sublayer.retrieval import Mixture, MixtureScorer

mixture = Mixture.open(model, tokenizer, ["stores/book"], neighbours=1024, share=0.25)
score(model, tokens, length=128, scorer=MixtureScorer(mixture, tokens)).perplexity
"""

from sublayer.retrieval.index import Index
from sublayer.retrieval.make_store import Source, build
from sublayer.retrieval.mixture import Mixture, MixtureScorer
from sublayer.retrieval.neighbours import Neighbours
from sublayer.retrieval.store import Store
from sublayer.retrieval.tuning import Tuned, tune

__all__ = ["Index", "Mixture", "MixtureScorer", "Neighbours", "Source", "Store", "Tuned", "build", "tune"]
