"""Every setting there is: meaning, unit, bounds and default, on one page.

Values come from a YAML file and from `section.key=value` overrides (see `config_file`). Unknown keys, values out of
bounds and values that contradict each other are refused, all in one message, before any work starts. Sources: Vaswani
et al. 2017 unless another one is named.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from transformer.config_augmentation import AugmentationSettings
from transformer.config_corpora import Corpus
from transformer.config_filters import FilterSettings, default_filters
from transformer.config_mixing import MixingSettings
from transformer.config_section import Count, CountOrZero, Name, Probability, Section, Text, Whole
from transformer.config_translate import TranslateSettings


class DataSettings(Section):
    """Which text is read, and which pairs are kept."""

    src_lang: Text = Field("en", description="Source language code; also the key in WMT-style datasets.")
    tgt_lang: Text = Field("de", description="Target language code.")
    train: list[Corpus] = Field([], description="Corpora to train on, one after the other.")
    valid: list[Corpus] = Field([], description="Corpora for validation; never filtered.")
    test: dict[Name, Corpus] = Field({}, description="Test sets by name; never filtered.")
    max_length: Count = Field(256, description="Longest training sentence kept, in pieces, on either side.")
    max_length_ratio: float = Field(
        9.0, ge=1, description="Longest side / shortest side of a kept training pair, in pieces."
    )
    filters: list[FilterSettings] = Field(
        default_filters(), description="What training pairs must pass, in this order; see below for each."
    )
    drop_contamination: bool = Field(
        True, description="Leave out training pairs that are also in validation or test sets, or nearly so."
    )
    mixing: MixingSettings | None = Field(
        None, description="Shares of the training corpora; null: every pair once an epoch. See docs/mixing.md."
    )


class VocabularySettings(Section):
    """The subword vocabulary (§5.1), learnt with sentencepiece on the kept training text."""

    type: Literal["bpe", "unigram"] = Field("bpe", description="Subword algorithm.")
    size: Whole = Field(
        37_000, ge=5, le=10**6, description="Pieces, with pad, unk, bos, eos and, if on, the 256 bytes."
    )
    path: Text | None = Field(
        None,
        description="A vocabulary to use instead of learning one: a folder of prepared data, or a sentencepiece model.",
    )
    joint: bool = Field(True, description="One vocabulary for both languages; false: one each, of `size` pieces.")
    byte_fallback: bool = Field(True, description="Write unknown characters as UTF-8 bytes; nothing is <unk> then.")
    character_coverage: float = Field(
        1.0, gt=0, le=1, description="Share of the characters of the text that become pieces of their own."
    )
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = Field(
        "nmt_nfkc", description="sentencepiece's text normalisation, stored with the vocabulary."
    )
    sample_lines: Count = Field(
        2_000_000,
        description="At most so many lines, evenly chosen per side, are read to learn the vocabulary.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> VocabularySettings:
        if self.byte_fallback and self.size <= 260:
            raise ValueError(
                f"size {self.size} has no room beside the 256 bytes of byte_fallback and the 4 special pieces: "
                "make it larger, or byte_fallback false"
            )
        return self


class ModelSettings(Section):
    """The network (§3). The defaults are the paper's base model."""

    n_encoder_layers: Whole = Field(6, ge=1, le=1000, description="N of the encoder, §3.1.")
    n_decoder_layers: Whole = Field(6, ge=1, le=1000, description="N of the decoder, §3.1.")
    d_model: Count = Field(512, description="Width of embeddings and of every sub-layer's output.")
    d_ff: Count = Field(2048, description="Inner width of the feed-forward sub-layer, §3.3.")
    n_heads: Count = Field(8, description="Attention heads h, §3.2.2.")
    d_head: Count | None = Field(None, description="d_k, width of a query or key; null: d_model / n_heads.")
    d_value: Count | None = Field(None, description="d_v, width of a value; null: d_head.")
    dropout: Probability = Field(0.1, description="Residual and embedding dropout, §5.4.")
    attention_dropout: Probability = Field(0.0, description="Dropout on attention weights (tensor2tensor's addition).")
    feed_forward_dropout: Probability = Field(0.0, description="Dropout inside the feed-forward sub-layer (likewise).")
    layer_drop: Probability = Field(
        0.0, description="Probability that a layer is left out of an update (LayerDrop, Fan et al. 2020); deep stacks."
    )
    norm_position: Literal["post", "pre"] = Field(
        "post",
        description="post: norm(x + sublayer(x)), §3.1; pre: x + sublayer(norm(x)), with a final norm.",
    )
    norm: Literal["layer_norm", "rms_norm"] = Field("layer_norm", description="RMSNorm: Zhang & Sennrich 2019.")
    norm_epsilon: float = Field(1e-6, gt=0, lt=1, description="Added to the variance inside a norm.")
    activation: Literal["relu", "gelu", "silu", "swiglu"] = Field(
        "relu",
        description="Of the feed-forward sub-layer; swiglu (Shazeer 2020) has a third matrix of d_model × d_ff.",
    )
    positions: Literal["sinusoidal", "rotary"] = Field(
        "sinusoidal", description="§3.5, or rotations of self-attention's queries and keys (Su et al. 2021)."
    )
    attention_bias: bool = Field(False, description="Biases in the four projections of attention; the paper has none.")
    projection_bias: bool = Field(
        False, description="A bias per piece in the output projection, as Marian's models have; the paper has none."
    )
    embedding_norm: bool = Field(False, description="A norm after embeddings + positions.")
    scaling: Literal["embedding", "projection", "none"] = Field(
        "embedding", description="embedding: × √d_model, §3.4; projection: logits × 1/√d_model; or neither."
    )
    tie_embeddings: Literal["three_way", "target", "source_target", "none"] = Field(
        "three_way",
        description="Shared matrices among source embedding, target embedding and output projection, §3.4; "
        "target: target embedding = projection; source_target: the two embeddings.",
    )

    @property
    def key_width(self) -> int:
        """K: columns of a query or key of one head."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def value_width(self) -> int:
        """Columns of a value of one head."""
        return self.d_value or self.key_width

    @model_validator(mode="after")
    def _consistent(self) -> ModelSettings:
        problems = []
        if self.d_head is None and self.d_model % self.n_heads:
            problems.append(
                f"d_model {self.d_model} is not divisible by n_heads {self.n_heads}: change one, or give d_head"
            )
        if self.positions == "rotary" and self.key_width % 2:
            problems.append(f"rotary positions turn pairs of columns, but d_head is {self.key_width}: make it even")
        if problems:
            raise ValueError("\n".join(problems))
        return self


class TrainSettings(Section):
    """Optimisation, validation and what is kept (§5)."""

    device: Literal["auto", "cuda", "mps", "cpu"] = Field("auto", description="auto: cuda, else mps, else cpu.")
    parallel: Literal["replicate", "fully_shard"] = Field(
        "replicate",
        description="Of several processes, each holds all weights, or a share of them (FSDP2): for large models.",
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        "auto",
        description="Of the matrix products; weights stay fp32; fp16 scales the loss. auto: fp32 or bf16, timed once, "
        "recorded in the run.",
    )
    attention: Literal["auto", "explicit", "fused"] = Field(
        "auto", description="Which form of attention runs; both compute the same. auto: timed once, recorded."
    )
    batching: Literal["auto", "padded", "packed"] = Field(
        "auto",
        description="packed: sentences one behind the other without padding, in micro-batches of one shape, for GPUs; "
        "a CPU has only a slow reference. auto: packed on CUDA in bf16 or fp16 where nothing speaks against it.",
    )
    compile: bool | Literal["auto"] = Field(
        "auto", description="Training passes through torch.compile; for packed batches. auto: on CUDA."
    )
    threads: Count | None = Field(None, description="CPU threads; null: what PyTorch chooses.")
    batch_tokens: Count = Field(25_000, description="Real target tokens per update, about; a hyper-parameter.")
    max_tokens: Count | Literal["auto"] = Field(
        8192,
        description="Budget of a micro-batch: rows × longest, padding counted, longer side; memory only. auto: the "
        "largest that fits, found at the start, recorded in the run.",
    )
    init_from: Text | None = Field(
        None, description="A model or run directory whose weights training starts from (fine-tuning)."
    )
    freeze: list[Text] = Field([], description="Patterns of parameter names that are not trained, such as 'encoder.*'.")
    on_divergence: Literal["stop", "rollback"] = Field(
        "stop",
        description="When loss or gradient is no finite number: stop, or go back to the last checkpoint and skip the "
        "updates that led there.",
    )
    max_steps: Count = Field(100_000, description="Updates of the whole run.")
    lr: float | None = Field(None, gt=0, le=10, description="Peak rate; null: (d_model · warmup_steps)^-0.5, eq. 3.")
    schedule: Literal["inverse_sqrt", "cosine", "constant"] = Field(
        "inverse_sqrt",
        description="After the warm-up: step^-0.5, eq. 3; half a cosine to zero at max_steps (Loshchilov & Hutter "
        "2017); or the peak, which with cooldown_steps is warm-up–stable–decay (Hägele et al. 2024).",
    )
    warmup_steps: Count = Field(4000, description="Updates of linear warm-up, §5.3.")
    cooldown_steps: CountOrZero = Field(
        0, description="The last so many updates lower the rate linearly to zero (Hägele et al. 2024)."
    )
    optimizer: Literal["adam", "adamw", "muon"] = Field(
        "adam",
        description="adam: §5.3; adamw: with decoupled weight_decay (Loshchilov & Hutter 2019); muon: for the matrices "
        "inside layers (Jordan et al. 2024), adamw for the rest.",
    )
    weight_decay: float = Field(0.0, ge=0, le=1, description="Of adamw and muon, on matrices only.")
    adam_beta1: Probability = Field(0.9, description="Adam's β1, §5.3.")
    adam_beta2: Probability = Field(0.98, description="Adam's β2, §5.3.")
    adam_epsilon: float = Field(1e-9, gt=0, lt=1, description="Adam's ε, §5.3.")
    clip_norm: float | None = Field(None, gt=0, description="Largest gradient norm per update; null: no clipping.")
    label_smoothing: Probability = Field(0.1, description="ε_ls, §5.4, spread evenly over the whole vocabulary.")
    r_drop: float | None = Field(
        None,
        gt=0,
        le=100,
        description="α of R-Drop (Liang et al. 2021): two passes, other dropout, held together; null: one pass.",
    )
    ema_decay: Probability | None = Field(
        None,
        description="Decay per update of a moving average of the weights; null: none. Validated and kept when on.",
    )
    augmentation: AugmentationSettings | None = Field(
        None, description="Changes made to pairs on the fly; null: none. See docs/mixing.md."
    )
    validate_every: Count = Field(1000, description="Updates between validations.")
    validate_beam_size: Count = Field(1, description="Beam of the translations that give validation BLEU.")
    best_by: Literal["bleu", "chrf", "nll"] = Field("bleu", description="What `best` and early stopping look at.")
    patience: Count | None = Field(
        None, description="Stop after so many validations without a new best; null: run to max_steps."
    )
    patience_significance: bool = Field(
        False,
        description="Patience only takes for a new best what paired bootstrap resampling finds better with p < 0.05.",
    )
    save_every: Count = Field(1000, description="Updates between checkpoints.")
    log_every: Count = Field(50, description="Updates between lines of metrics.jsonl.")
    average_checkpoints: Count = Field(
        5, description="k: the newest k checkpoints and the best k are kept (at least 2), to be averaged (§6.1)."
    )
    model_from: Literal["average_last", "average_best", "best", "last"] = Field(
        "average_last", description="Which weights become runs/NAME/model."
    )

    @model_validator(mode="after")
    def _consistent(self) -> TrainSettings:
        if self.cooldown_steps >= self.max_steps:
            raise ValueError(f"cooldown_steps {self.cooldown_steps} must be less than max_steps {self.max_steps}")
        if self.schedule == "cosine" and self.cooldown_steps:
            raise ValueError("schedule cosine falls to zero by itself: set cooldown_steps 0, or another schedule")
        if self.optimizer == "adam" and self.weight_decay:
            raise ValueError("weight_decay is for optimizer adamw or muon: set one of them, or weight_decay 0")
        if self.compile is True and self.batching == "padded":
            raise ValueError("compile true needs batches of one shape: set batching packed, or compile false")
        return self


class Settings(Section):
    """A whole experiment."""

    name: Name = Field("base", description="Names prepared/NAME and runs/NAME.")
    seed: Whole = Field(1, ge=0, lt=2**32, description="Of every random choice: initialisation, order, dropout.")
    data: DataSettings = DataSettings()
    vocabulary: VocabularySettings = VocabularySettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()
    translate: TranslateSettings = TranslateSettings()
    export: list[Literal["ctranslate2", "huggingface", "onnx"]] = Field(
        [],
        description="Programs the model is meant for: train.py says at the start what they cannot express. See "
        "docs/deployment.md.",
    )

    @property
    def packing_problems(self) -> list[str]:
        """What in the settings keeps batches from being packed."""
        problems = []
        if self.model.attention_dropout:
            problems.append("it has no dropout of attention weights: set model.attention_dropout 0")
        if self.train.r_drop is not None:
            problems.append("it knows no train.r_drop: set that to null")
        return problems

    @property
    def compile_problems(self) -> list[str]:
        """What in the settings keeps training passes from being compiled."""
        problems = []
        if self.model.layer_drop:
            problems.append("it needs every layer in every update: set model.layer_drop 0")
        if self.train.parallel == "fully_shard":
            problems.append("it knows no shared weights: set train.parallel replicate")
        return problems

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if not self.vocabulary.joint and self.model.tie_embeddings in ("three_way", "source_target"):
            raise ValueError(
                f"model.tie_embeddings: {self.model.tie_embeddings} needs vocabulary.joint: true; "
                "with separate vocabularies use target or none"
            )
        if self.train.parallel == "fully_shard" and self.model.layer_drop:
            raise ValueError("train.parallel: fully_shard needs every layer in every update: set model.layer_drop 0")
        if self.train.parallel == "fully_shard" and self.train.precision == "fp16":
            raise ValueError(
                "train.parallel: fully_shard does not know the scaled loss of train.precision fp16: use bf16"
            )
        asked_for = {"train.batching: packed": self.packing_problems if self.train.batching == "packed" else []}
        asked_for["train.compile: true"] = self.compile_problems if self.train.compile is True else []
        if contradictions := [f"{what}: {why}" for what, problems in asked_for.items() for why in problems]:
            raise ValueError("\n".join(contradictions))
        if self.train.augmentation and (problems := self.train.augmentation.problems(self.vocabulary.type)):
            raise ValueError("\n".join(problems))
        return self
