"""The checker behind the shapes in signatures: beartype, with whole numbers welcome where floats are."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
