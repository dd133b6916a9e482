"""Images as text: pixels as tokens in raster order, an image a row.

images = Images.Config.named("shapes").but(levels=8).prepare()
for batch in images.batches(16, images.longest("train"), carry=False):
    …

| source | what |
| --- | --- |
| shapes | drawn by a seed, no files needed |
| files | a folder, a pattern or a file, of any format that Pillow reads |
| array | a .npy file, N × height × width (× channels) of uint8 |
"""

from sublayer.data.images.array import ImageArray
from sublayer.data.images.batches import ImageRows, ImageSplit
from sublayer.data.images.files import ImageFiles, read_image
from sublayer.data.images.images import Images
from sublayer.data.images.shapes import Shapes
from sublayer.data.images.source import ImageSource, Survey

__all__ = [
    "ImageArray",
    "ImageFiles",
    "ImageRows",
    "ImageSource",
    "ImageSplit",
    "Images",
    "Shapes",
    "Survey",
    "read_image",
]
