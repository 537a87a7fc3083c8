"""Files of source summaries: safetensors with a format and a checksum in them; never a pickle."""

from matcha_gnn.io.tensorfiles import TensorFormat

FORMAT = TensorFormat(
    "source",
    "matcha-gnn source summary 4",
    allowed="a file as mg.summarise_source(net, source).save(path) wrote it",
)
