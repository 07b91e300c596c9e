"""Language and multimodal models: transformers and the trainers around it, from configurations, with random weights."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family(
    "language",
    ("transformers", "accelerate", "peft", "trl", "sentence-transformers", "setfit", "datasets", "scikit-learn"),
    imports=("transformers.trainer", "datasets", "sklearn.datasets", "peft", "sentence_transformers"),
)
WORDS = 500
RATE = 1e-3  # the trainers' own rates are for pretrained weights: from random ones nothing is learned in minutes
DOCS = "text of Python's own documentation (pydoc_data.topics)"


def _words() -> list[str]:
    """Return the words of Python's documentation, in order."""
    import re
    from pydoc_data import topics

    return [word.lower() for name in sorted(topics.topics) for word in re.findall(r"[A-Za-z]+", topics.topics[name])]


def _ids() -> list[int]:
    """Return the same words as numbers: 3 to 499 by frequency, 2 for all rarer ones."""
    from collections import Counter

    words = _words()
    numbers = {word: 3 + place for place, (word, _) in enumerate(Counter(words).most_common(WORDS - 3))}
    return [numbers.get(word, 2) for word in words]


def _blocks(count: int, length: int) -> Any:
    import torch

    return torch.tensor(_ids()[: count * length]).reshape(count, length)


def _sentences(count: int, length: int = 12) -> list[str]:
    words = _words()
    return [" ".join(words[start : start + length]) for start in range(0, count * length, length)]


def _tokenizer() -> Any:
    """Return a tokenizer of whole words that has learned the documentation's vocabulary."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner.train_from_iterator(_sentences(2000), trainers.WordLevelTrainer(vocab_size=WORDS, special_tokens=special))
    names = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="[CLS]", eos_token="[SEP]", **names)


def _dataset(**columns: Any) -> Any:
    from datasets import Dataset

    return Dataset.from_dict(columns)


def _trainer(
    model: Any, data: Any, seed: int, *, evaluation: Any = None, batch: int = 16, epochs: float = 3, rate: float = RATE
) -> None:
    """Train with `Trainer`, its default optimizer and its default schedule."""
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        "out",
        num_train_epochs=epochs,
        per_device_train_batch_size=batch,
        learning_rate=rate,
        seed=seed,
        report_to="none",
        save_strategy="no",
        eval_strategy="no" if evaluation is None else "epoch",
        disable_tqdm=True,
    )
    Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=evaluation).train()


def _classified(count: int, length: int = 16) -> tuple[Any, Any]:
    """Return blocks of text, labelled by whether one of four common words is among them."""
    blocks = _blocks(count, length)
    labels = ((blocks >= 5) & (blocks < 9)).any(1).long()
    rows = _dataset(input_ids=blocks.tolist(), labels=labels.tolist())
    return rows.select(range(count * 4 // 5)), rows.select(range(count * 4 // 5, count))


def _bert(kind: str, hidden: int, seed: int, *, layers: int = 2) -> None:
    import transformers

    sizes = {"vocab_size": WORDS, "hidden_size": hidden, "num_hidden_layers": layers, "intermediate_size": 2 * hidden}
    configuration = getattr(transformers, f"{kind}Config")(num_attention_heads=2, **sizes)
    model = getattr(transformers, f"{kind}ForSequenceClassification")(configuration)
    train, evaluation = _classified(1200)
    _trainer(model, train, seed, evaluation=evaluation)


def _causal(model: Any, seed: int, *, count: int = 640, length: int = 32, rate: float = RATE) -> None:
    """Train a causal language model on the documentation, and evaluate it after each epoch."""
    blocks = _blocks(count + 64, length).tolist()
    rows = _dataset(input_ids=blocks, labels=blocks)
    _trainer(model, rows.select(range(count)), seed, evaluation=rows.select(range(count, count + 64)), rate=rate)


@FAMILY.program("transformers", data=DOCS)
def bert_hidden_32(seed: int) -> None:
    """BERT of width 32, as smoke tests use it, classifies text."""
    _bert("Bert", 32, seed)


@FAMILY.program("transformers", data=DOCS)
def bert_hidden_128(seed: int) -> None:
    """BERT of width 128 classifies text."""
    _bert("Bert", 128, seed)


@FAMILY.program("transformers", data=DOCS)
def bert_words_averaged(seed: int) -> None:
    """A layer of the user's on the average of BERT's outputs: `BertModel` brings a pooler, which nothing uses."""
    import torch
    from transformers import BertConfig, BertModel

    class Averaged(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = {"hidden_size": 48, "num_hidden_layers": 2, "intermediate_size": 96, "num_attention_heads": 2}
            self.body = BertModel(BertConfig(vocab_size=WORDS, **sizes))
            self.head = torch.nn.Linear(48, 2)

        def forward(self, input_ids: Any, labels: Any) -> Any:
            logits = self.head(self.body(input_ids).last_hidden_state.mean(1))
            return torch.nn.functional.cross_entropy(logits, labels), logits

    train, evaluation = _classified(1200)
    _trainer(Averaged(), train, seed, evaluation=evaluation)


@FAMILY.program("transformers", data=DOCS)
def roberta_hidden_32(seed: int) -> None:
    """RoBERTa of width 32 and five layers classifies text."""
    _bert("Roberta", 32, seed, layers=5)


@FAMILY.program("transformers", data=DOCS)
def electra_hidden_64(seed: int) -> None:
    """ELECTRA's discriminator of width 64 classifies text."""
    _bert("Electra", 64, seed)


@FAMILY.program("transformers", data=DOCS)
def deberta_hidden_48(seed: int) -> None:
    """DeBERTa v2 of width 48 classifies text."""
    _bert("DebertaV2", 48, seed)


@FAMILY.program("transformers", data=DOCS)
def bert_masked_words(seed: int) -> None:
    """BERT of width 64 learns masked words with the library's collator."""
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        DataCollatorForLanguageModeling,
        Trainer,
        TrainingArguments,
    )

    tokenizer = _tokenizer()
    rows = [tokenizer(text, truncation=True, max_length=16) for text in _sentences(960)]
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **sizes))
    arguments = TrainingArguments(
        "out",
        num_train_epochs=3,
        per_device_train_batch_size=16,
        learning_rate=RATE,
        seed=seed,
        report_to="none",
        save_strategy="no",
    )
    collator = DataCollatorForLanguageModeling(tokenizer)
    Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator).train()


@FAMILY.program("transformers", data=DOCS)
def gpt2_hidden_32(seed: int) -> None:
    """GPT-2 of width 32 learns the next word."""
    from transformers import GPT2Config, GPT2LMHeadModel

    _causal(GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=32, n_embd=32, n_layer=2, n_head=2)), seed)


@FAMILY.program("transformers", data=DOCS)
def gpt2_hidden_96(seed: int) -> None:
    """GPT-2 of width 96 and four layers learns the next word."""
    from transformers import GPT2Config, GPT2LMHeadModel

    _causal(GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=32, n_embd=96, n_layer=4, n_head=4)), seed)


@FAMILY.program("transformers", data=DOCS)
def llama_hidden_64(seed: int) -> None:
    """Llama of width 64 learns the next word."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    _causal(LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, **sizes)), seed)


@FAMILY.program("transformers", data=DOCS)
def mixtral_experts(seed: int) -> None:
    """Mixtral of width 32 with four experts learns the next word."""
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    experts = {"num_key_value_heads": 2, "num_local_experts": 4, "output_router_logits": True}
    _causal(MixtralForCausalLM(MixtralConfig(vocab_size=WORDS, **sizes, **experts)), seed)


@FAMILY.program("transformers", data=DOCS)
def t5_hidden_32(seed: int) -> None:
    """T5 of width 32 learns to copy the first words of a text."""
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    model = T5ForConditionalGeneration(T5Config(vocab_size=WORDS, decoder_start_token_id=0, **sizes))
    blocks = _blocks(800, 16)
    _trainer(model, _dataset(input_ids=blocks.tolist(), labels=blocks[:, :8].tolist()), seed)


@FAMILY.program("transformers", data="sklearn's digits")
def vit_digits(seed: int) -> None:
    """ViT of width 48 classifies digits."""
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96}
    configuration = ViTConfig(image_size=8, patch_size=2, num_channels=1, num_labels=10, **sizes)
    train, evaluation = _digits()
    _trainer(ViTForImageClassification(configuration), train, seed, evaluation=evaluation)


@FAMILY.program("transformers", data="sklearn's digits")
def resnet_digits(seed: int) -> None:
    """The library's ResNet classifies digits."""
    from transformers import ResNetConfig, ResNetForImageClassification

    sizes = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}
    configuration = ResNetConfig(num_channels=1, num_labels=10, **sizes)
    train, evaluation = _digits(pixels=32)
    _trainer(ResNetForImageClassification(configuration), train, seed, evaluation=evaluation, epochs=2)


def _digits(pixels: int = 8) -> tuple[Any, Any]:
    import torch
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 8 - 1
    images = torch.nn.functional.interpolate(images, size=pixels)
    rows = [{"pixel_values": image, "labels": int(label)} for image, label in zip(images, labels, strict=True)]
    return rows[:1280], rows[1280:]


@FAMILY.program("transformers", data="sklearn's digits and the names of the numbers")
def clip_hidden_32(seed: int) -> None:
    """CLIP of width 32 matches digits and their names."""
    from transformers import CLIPConfig, CLIPModel, Trainer, TrainingArguments

    rows, _ = _digits(pixels=16)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    configuration = CLIPConfig(
        text_config={"vocab_size": 32, "max_position_embeddings": 8, "eos_token_id": 31, **sizes},
        vision_config={"image_size": 16, "patch_size": 4, "num_channels": 1, **sizes},
        projection_dim=16,
    )
    pairs = [
        {"pixel_values": row["pixel_values"], "input_ids": [1, 2, 3, 10 + row["labels"], 31], "return_loss": True}
        for row in rows[:640]
    ]
    arguments = TrainingArguments(
        "out",
        num_train_epochs=3,
        per_device_train_batch_size=8,
        learning_rate=RATE,
        seed=seed,
        report_to="none",
        save_strategy="no",
    )
    Trainer(model=CLIPModel(configuration), args=arguments, train_dataset=pairs, data_collator=_clip_batch).train()


def _clip_batch(rows: list[dict[str, Any]]) -> dict[str, Any]:
    import torch

    pixels = torch.stack([row["pixel_values"] for row in rows])
    return {"pixel_values": pixels, "input_ids": torch.tensor([row["input_ids"] for row in rows]), "return_loss": True}


@FAMILY.program("transformers", data="sine waves of a frequency per word")
def whisper_tones(seed: int) -> None:
    """Whisper of width 32 writes down which tones it hears."""
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "max_source_positions": 25, "num_mel_bins": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    lists = {"suppress_tokens": None, "begin_suppress_tokens": None}
    model = WhisperForConditionalGeneration(WhisperConfig(vocab_size=20, **sizes, **heads, **special, **lists))
    tones = torch.randint(3, 19, (640, 5))
    sounds = torch.randn(640, 16, 50) * 0.1
    for place in range(5):
        sounds[torch.arange(640), tones[:, place] - 3, 10 * place : 10 * place + 10] += 2.0
    rows = [{"input_features": sound, "labels": tone} for sound, tone in zip(sounds, tones, strict=True)]
    _trainer(model, rows, seed)


@FAMILY.program("accelerate", data="sklearn's digits")
def accelerate_digits(seed: int) -> None:
    """A loop of the user's around `Accelerator`, with accumulation and clipping, classifies digits."""
    import torch
    from accelerate import Accelerator

    train, _ = _digits()
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    data = [(row["pixel_values"], row["labels"]) for row in train]
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(5):
        for images, labels in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()


@FAMILY.program("accelerate", data="sklearn's digits")
def accelerate_bfloat16(seed: int) -> None:
    """The same loop without accumulation, in mixed precision (bfloat16)."""
    import torch
    from accelerate import Accelerator

    train, _ = _digits()
    accelerator = Accelerator(mixed_precision="bf16")
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader([(row["pixel_values"], row["labels"]) for row in train], 16, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(3):
        for images, labels in loader:
            optimizer.zero_grad()
            with accelerator.autocast():
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()


def _adapt(configuration: Any, seed: int, *, rate: float) -> None:
    """Train a small GPT-2, then freeze it, and train adapters on the same text with other words."""
    from peft import get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=64, n_embd=32, n_layer=2, n_head=2))
    _causal(model, seed, rate=3e-3)
    blocks = (3 + (_blocks(640, 32) * 7) % (WORDS - 3)).tolist()
    _trainer(get_peft_model(model, configuration), _dataset(input_ids=blocks, labels=blocks), seed, rate=rate)


@FAMILY.program("peft", data=DOCS)
def peft_lora(seed: int) -> None:
    """LoRA adapters on a frozen GPT-2 learn the next word, after the model itself did in the same process."""
    from peft import LoraConfig

    _adapt(LoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn", "c_fc"], r=4), seed, rate=5e-3)


@FAMILY.program("peft", data=DOCS)
def peft_ia3(seed: int) -> None:
    """IA3's scales on a frozen GPT-2 learn the next word, after the model itself did in the same process."""
    from peft import IA3Config

    _adapt(IA3Config(task_type="CAUSAL_LM"), seed, rate=5e-3)


@FAMILY.program("peft", data=DOCS)
def peft_prompt_tuning(seed: int) -> None:
    """Ten virtual words before a frozen GPT-2 learn, after the model itself did in the same process."""
    from peft import PromptTuningConfig

    _adapt(PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=10), seed, rate=3e-2)


def _tiny_llama(labels: int = 0) -> Any:
    import transformers

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    configuration = transformers.LlamaConfig(vocab_size=WORDS, pad_token_id=0, bos_token_id=2, eos_token_id=3, **sizes)
    if not labels:
        return transformers.LlamaForCausalLM(configuration)
    configuration.num_labels = labels
    return transformers.LlamaForSequenceClassification(configuration)


def _trl(name: str, model: Any, rows: Any, seed: int, **settings: Any) -> None:
    import trl

    arguments = getattr(trl, f"{name}Config")(
        output_dir="out",
        per_device_train_batch_size=8,
        num_train_epochs=2,
        learning_rate=RATE,
        report_to="none",
        save_strategy="no",
        seed=seed,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        **settings,
    )
    trainer = getattr(trl, f"{name}Trainer")
    trainer(model=model, args=arguments, train_dataset=rows, processing_class=_tokenizer()).train()


def _preferences(count: int = 400) -> Any:
    """Return prompts with the text that follows them as chosen, and with its words in reverse order as rejected."""
    halves = [(words[:6], words[6:]) for words in (text.split() for text in _sentences(count))]
    return _dataset(
        prompt=[" ".join(first) + " " for first, _ in halves],
        chosen=[" ".join(second) for _, second in halves],
        rejected=[" ".join(reversed(second)) for _, second in halves],
    )


@FAMILY.program("trl", data=DOCS)
def trl_sft(seed: int) -> None:
    """Supervised fine-tuning of a small Llama."""
    _trl("SFT", _tiny_llama(), _dataset(text=_sentences(800)), seed, max_length=32)


@FAMILY.program("trl", data=DOCS)
def trl_dpo(seed: int) -> None:
    """Direct preference optimisation of a small Llama, against a copy of it from a file."""
    model = _tiny_llama()
    model.save_pretrained("base")
    _trl("DPO", type(model).from_pretrained("base"), _preferences(), seed, max_length=32)


@FAMILY.program("trl", data=DOCS)
def trl_reward(seed: int) -> None:
    """A reward model from preferences."""
    _trl("Reward", _tiny_llama(labels=1), _preferences(), seed, max_length=32)


@FAMILY.program("trl", data=DOCS)
def trl_grpo(seed: int) -> None:
    """Group-relative policy optimisation of a small Llama: the reward is the share of distinct words."""
    from trl import GRPOConfig, GRPOTrainer

    arguments = GRPOConfig(
        output_dir="out",
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=8,
        max_steps=60,
        learning_rate=RATE,
        report_to="none",
        save_strategy="no",
        seed=seed,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
    )

    def distinct(completions: list[str], **_: Any) -> list[float]:
        return [len(set(text.split())) / 8 for text in completions]

    prompts = _dataset(prompt=[" ".join(text.split()[:6]) for text in _sentences(200)])
    GRPOTrainer(
        model=_tiny_llama(), reward_funcs=distinct, args=arguments, train_dataset=prompts, processing_class=_tokenizer()
    ).train()


def _sentence_model() -> Any:
    """Return a sentence encoder over a small BERT with random weights."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel

    tokenizer = _tokenizer()
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained("encoder")
    tokenizer.save_pretrained("encoder")
    encoder = Transformer("encoder", max_seq_length=32)
    return SentenceTransformer(modules=[encoder, Pooling(64)], device="cpu")


def _pairs(count: int) -> dict[str, list[str]]:
    texts = _sentences(count)
    return {
        "anchor": [" ".join(text.split()[:8]) for text in texts],
        "positive": [" ".join(text.split()[4:]) for text in texts],
    }


@FAMILY.program("sentence-transformers", data=DOCS)
def sentences_ranked(seed: int) -> None:
    """A sentence encoder learns which texts overlap, against the others of its batch."""
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    model = _sentence_model()
    arguments = SentenceTransformerTrainingArguments(
        "out",
        num_train_epochs=2,
        per_device_train_batch_size=16,
        learning_rate=RATE,
        seed=seed,
        report_to="none",
        save_strategy="no",
    )
    loss = MultipleNegativesRankingLoss(model)
    SentenceTransformerTrainer(model=model, args=arguments, train_dataset=_dataset(**_pairs(960)), loss=loss).train()


@FAMILY.program("sentence-transformers", data=DOCS)
def sentences_cosine(seed: int) -> None:
    """A sentence encoder learns a similarity between 0 and 1."""
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.losses import CosineSimilarityLoss

    model = _sentence_model()
    pairs = _pairs(800)
    other = pairs["positive"][400:] + pairs["positive"][:400]
    texts = [(a, b, 1.0) for a, b in zip(pairs["anchor"], pairs["positive"], strict=True)]
    texts += [(a, b, 0.0) for a, b in zip(pairs["anchor"], other, strict=True)]
    first, second, score = (list(column) for column in zip(*texts, strict=True))
    arguments = SentenceTransformerTrainingArguments(
        "out",
        num_train_epochs=2,
        per_device_train_batch_size=16,
        learning_rate=RATE,
        seed=seed,
        report_to="none",
        save_strategy="no",
    )
    rows = _dataset(sentence1=first, sentence2=second, score=score)
    SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=rows, loss=CosineSimilarityLoss(model)
    ).train()


@FAMILY.program("setfit", data=DOCS)
def setfit_few_shots(seed: int) -> None:
    """SetFit fine-tunes a sentence encoder on pairs of a few labelled texts, then a head."""
    from setfit import SetFitModel, Trainer, TrainingArguments

    texts = [text for text in _sentences(400) if "class" in text.split()][:16]
    others = [text for text in _sentences(400) if "class" not in text.split()][:16]
    rows = _dataset(text=texts + others, label=[1] * len(texts) + [0] * len(others))
    from sklearn.linear_model import LogisticRegression

    model = SetFitModel(model_body=_sentence_model(), model_head=LogisticRegression(), labels=["no", "yes"])
    arguments = TrainingArguments(output_dir="out", num_epochs=1, batch_size=8, seed=seed, report_to="none")
    arguments.body_learning_rate = (RATE, RATE)
    Trainer(model=model, args=arguments, train_dataset=rows).train()
