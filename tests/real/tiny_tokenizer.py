"""Write a small tokenizer to a folder; run by the Python of a client, which has the `tokenizers` library."""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

folder = Path(sys.argv[1])
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
marks = ["<|bos|>", "<|eos|>", "<|pad|>"]
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=marks, initial_alphabet=alphabet)
lines = [f"prefill decode cache token latency throughput serving request {n}" for n in range(400)]
tokenizer.train_from_iterator(lines, trainer)
folder.mkdir(parents=True, exist_ok=True)
tokenizer.save(str(folder / "tokenizer.json"))
names = dict(zip(("bos_token", "eos_token", "pad_token"), marks, strict=True))
settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192, **names}
(folder / "tokenizer_config.json").write_text(json.dumps(settings))
(folder / "config.json").write_text(json.dumps({"model_type": "qwen3", "vocab_size": 1000}))
