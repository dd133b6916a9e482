"""The one legend of dimension letters.

Suffixes in bodies (`q_BHLK`) and jaxtyping strings in signatures use the same letters.

| letter | axis |
| --- | --- |
| B | batch rows; an array of positions may have 1 here, meaning "all rows alike" |
| L | tokens of the segment being computed |
| M | attended tokens: the memory, then the segment |
| S | tokens of the source, in cross-attention |
| D | model width |
| H | query heads |
| G | key/value heads (H is a multiple of G) |
| K | head size |
| F | inner width of a feed-forward |
| V | vocabulary |
| E | width of a token vector where it differs from D |
| J | global tokens |
| N | tokens, B·L flattened; long tokens, beside global ones |
| R | distinct relative distances |
| C | capacity of a growing buffer; classes of a classifier |
"""
