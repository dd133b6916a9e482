"""Named spaces: a registry like that of papers; `sublayer search lts-gpt2` finds them here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sublayer.data import Dataset
from sublayer.nas.choice import Choice, chooses
from sublayer.nas.space import Space, changed
from sublayer.nn.config import ConfigError, unknown
from sublayer.nn.feedforward import Dense, Glu
from sublayer.nn.layout import par, sandwich
from sublayer.nn.position import Alibi, Rotary
from sublayer.papers import named

LTS = "Javaheripi et al. 2022, LiteTransformerSearch, arXiv:2203.02094"
WIDE = "f.inner>1.7*dim"


@dataclass(frozen=True)
class NamedSpace:
    name: str
    cite: str
    make: Callable[[], Space]

    @property
    def summary(self) -> str:
        return (self.make.__doc__ or "").strip().splitlines()[0]


SPACES: dict[str, NamedSpace] = {}


def space(name: str, *, cite: str = "") -> Callable[[Callable[[], Space]], Callable[[], Space]]:
    """Enter a function that makes a space under a name."""

    def enter(make: Callable[[], Space]) -> Callable[[], Space]:
        SPACES[name] = NamedSpace(name, cite, make)
        return make

    return enter


def find(name: str) -> Space:
    if name not in SPACES:
        raise ConfigError(unknown("space", name, SPACES))
    return SPACES[name].make()


def read(name: str, changes: Mapping[str, Any] | None = None, rules: Iterable[str] = ()) -> Space:
    """A named space, or a paper or a file to choose from: `read("gpt2", {"dim": "128..512/64", "s.heads": 4})`.

    Values that are choices or their texts are chosen from, all others are fixed.
    """
    choices, fixed = {}, {}
    for key, value in (changes or {}).items():
        chosen = isinstance(value, Choice) or (isinstance(value, str) and chooses(value))
        (choices if chosen else fixed)[key] = value
    if name in SPACES:
        return find(name).but(choices, fixed, rules)
    try:
        base = changed(named.config(name), choices, fixed)
    except ConfigError as error:
        if not str(error).startswith("unknown paper"):
            raise
        end = "" if str(error).endswith("?") else "."
        raise ConfigError(f"{error}{end} Spaces are {', '.join(SPACES)}") from None
    return Space.of(base, choices, rules)


def fit(space: Space, text: Dataset | None, changes: Mapping[str, Any]) -> Space:
    """The space with the vocabulary of the text, which no change may contradict."""
    if text is None:
        return space
    if changes.get("vocab", text.vocab) != text.vocab:
        raise ValueError(f"vocab={changes['vocab']}: the text has {text.vocab:,} tokens; leave vocab out")
    return space.fitted(text.vocab)


def _pairs(fewest: int, most: int) -> Choice:
    return Choice(tuple(f"(sf)x{n}" for n in range(fewest, most + 1)))


def _lts(paper: str, each: bool, **more: str) -> Space:
    """2–16 layers, width 128–1,024, inner size above 1.7 times the width."""
    form = "each({})" if each else "{}"
    sizes = {"dim": "128..1024/64", "s.heads": form.format("2|4|8"), "f.inner": form.format("128..4096/64")}
    return Space.of(named.config(paper), {"layout": _pairs(2, 16), **sizes, **more}, [WIDE])


FACTOR = {"embedding.factor,head.factor": "1|2|4"}
"""How much narrower each cluster of rarer words is."""


@space("lts-transformer-xl", cite=LTS)
def lts_transformer_xl() -> Space:
    """Transformer-XL, each layer with heads and an inner size of its own."""
    return _lts("transformer-xl", each=True, **FACTOR)


@space("lts-transformer-xl-homogeneous", cite=LTS)
def lts_transformer_xl_homogeneous() -> Space:
    """Transformer-XL, all layers alike."""
    return _lts("transformer-xl", each=False, **FACTOR)


@space("lts-gpt2", cite=LTS)
def lts_gpt2() -> Space:
    """GPT-2, each layer with heads and an inner size of its own."""
    return _lts("gpt2", each=True).but(fixed={"vocab": 50264})


@space("lts-gpt2-homogeneous", cite=LTS)
def lts_gpt2_homogeneous() -> Space:
    """GPT-2, all layers alike."""
    return _lts("gpt2", each=False).but(fixed={"vocab": 50264})


@space("lts-opt", cite=LTS)
def lts_opt() -> Space:
    """OPT of about 350 M: 3–29 layers, all alike, with no lower bound on the inner size."""
    sizes = {"dim": "512..1472/64", "s.heads": "2|4|8|16", "f.inner": "512..6080/64"}
    return Space.of(named.config("opt-350m"), {"layout": _pairs(3, 29), **sizes})


def _orders(pairs: int) -> list[str]:
    """Orders of one depth: interleaved, attentions first, one attention in 3 and in 5, more feed-forwards, fewer."""
    plain = f"(sf)x{pairs}"
    orders = [plain, sandwich(plain, pairs // 2), par(plain, 3), par(plain, min(5, 2 * pairs))]
    return [*orders, f"(sff)x{max(1, 2 * pairs // 3)}", f"(ssf)x{max(1, 2 * pairs // 3)}"]


@space("sublayers")
def sublayers() -> Space:
    """Small decoders in any order of sublayers: kinds of feed-forward, positions, windows, shared keys, widths."""
    layouts = dict.fromkeys(order for pairs in (1, 2, 3, 4, 6, 8) for order in _orders(pairs))
    feedforwards = [
        Dense.Config(activation="gelu_tanh", inner=512),
        Dense.Config(activation="relu", inner=512),
        Glu.Config(activation="swish", inner=512),
    ]
    sizes = {"dim": "64..512/64", "s.heads": "2|4|8", "s.kv_heads": "1|null", "f.inner": "each(64..2048/64)"}
    window = [{"kind": "causal"}, {"kind": "window", "size": 64}]
    undropped = dict.fromkeys(("s.dropout", "embedding.dropout", "residual.dropout"), 0.0)
    return Space.of(
        named.config("gpt2").but({"position": Rotary.Config(), "s.heads": 4, **undropped}, vocab=256, dim=128),
        {
            "layout": Choice(tuple(layouts)),
            "position": [one.dump() for one in (Rotary.Config(), Alibi.Config())] + ["none"],
            "f": [one.dump() for one in feedforwards],
            "s.pattern": window,
            **sizes,
        },
    )
