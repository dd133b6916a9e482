"""Whole models: embedding, stack, head."""

from sublayer.nn.model.base import Model
from sublayer.nn.model.cost import Cost, Flops
from sublayer.nn.model.decoder import Decoder
from sublayer.nn.model.encoder import Encoder
from sublayer.nn.model.encoder_decoder import EncoderDecoder
from sublayer.nn.model.single import SingleStack

__all__ = ["Cost", "Decoder", "Encoder", "EncoderDecoder", "Flops", "Model", "SingleStack"]
