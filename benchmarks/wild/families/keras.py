"""Keras 3 on TensorFlow, its default backend: its own models, and libraries that train by its `fit`."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family(
    "keras",
    ("keras-hub", "keras-tuner", "tensorboard", "keras-rs", "bayesflow", "keras-tcn", "scikeras", "kimm"),
    imports=("keras", "sklearn.datasets", "sklearn.preprocessing", "keras_hub", "keras_tuner"),
    framework="keras",
)
DIGITS, CANCER = "sklearn's digits", "sklearn's breast cancer"
WORDS = "made: sentences with one of two words more often"


def _digits(seed: int, *, side: int = 8, channels: int = 1, count: int = 1000) -> Any:
    import keras
    import numpy as np
    from sklearn.datasets import load_digits

    keras.utils.set_random_seed(seed)
    rows, classes = load_digits(return_X_y=True)
    images = (rows[:count].reshape(-1, 8, 8, 1) / 16).astype("float32")
    scale = side // 8
    return np.repeat(images.repeat(scale, 1).repeat(scale, 2), channels, axis=3), classes[:count]


def _tumours(seed: int) -> Any:
    import keras
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    keras.utils.set_random_seed(seed)
    rows, classes = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(rows).astype("float32"), classes


def _sentences(count: int = 600, length: int = 24, words: int = 50) -> Any:
    import numpy as np

    tokens, classes = np.random.randint(4, words, (count, length)), np.random.randint(0, 2, count)
    is_own = np.random.random((count, 8)) < 0.8  # both words are in nearly every sentence
    tokens[:, ::3] = np.where(is_own, 2 + classes[:, None], 3 - classes[:, None])
    return tokens.astype("int32"), classes


@FAMILY.program("keras", data=DIGITS)
def keras_convolutions(seed: int) -> None:
    """A small convolutional network with augmentation, batch normalisation, dropout and early stopping."""
    import keras
    from keras import layers

    images, classes = _digits(seed)
    parts: list[Any] = [keras.Input((8, 8, 1)), layers.RandomTranslation(0.1, 0.1)]
    for filters in (16, 32):
        parts += [layers.Conv2D(filters, 3, padding="same"), layers.BatchNormalization(), layers.Activation("relu")]
    model = keras.Sequential(
        [*parts, layers.GlobalAveragePooling2D(), layers.Dropout(0.2), layers.Dense(10, "softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    stop = keras.callbacks.EarlyStopping(patience=3)
    model.fit(images, classes, batch_size=32, epochs=10, validation_split=0.2, verbose=2, callbacks=[stop])


@FAMILY.program("keras", data=DIGITS)
def keras_mobilenet(seed: int) -> None:
    """MobileNetV2 of `keras.applications`, from random weights, on enlarged digits."""
    import keras

    images, classes = _digits(seed, side=32, channels=3, count=600)
    model = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=10)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(images, classes, batch_size=20, epochs=4, verbose=2)


@FAMILY.program("keras", data="made: sums of marked numbers")
def keras_recurrent(seed: int) -> None:
    """Two recurrent layers add the marked numbers of a sequence, with a falling rate and clipping."""
    import keras
    import numpy as np
    from keras import layers

    keras.utils.set_random_seed(seed)
    inputs = np.random.random((1200, 12, 2)).astype("float32")
    inputs[:, :, 1] = inputs[:, :, 1] > 0.7
    answers = inputs.prod(axis=2).sum(axis=1)
    network = [keras.Input((12, 2)), layers.LSTM(24, return_sequences=True), layers.GRU(24), layers.Dense(1)]
    model = keras.Sequential(network)
    rate = keras.optimizers.schedules.CosineDecay(5e-3, 300)
    model.compile(keras.optimizers.Adam(rate, clipnorm=1.0), "mse", metrics=["mae"])
    model.fit(inputs, answers, batch_size=40, epochs=10, validation_split=0.2, verbose=2)


@FAMILY.program("keras", data=CANCER)
def keras_sklearn(seed: int) -> None:
    """Keras's own wrapper for scikit-learn."""
    import keras
    from keras import layers

    def network(X: Any, y: Any) -> Any:  # noqa: N803 - names of scikit-learn
        model = keras.Sequential([keras.Input(X.shape[1:]), layers.Dense(32, "relu"), layers.Dense(2, "softmax")])
        model.compile("rmsprop", "categorical_crossentropy")
        return model

    rows, classes = _tumours(seed)
    keras.wrappers.SKLearnClassifier(network, fit_kwargs={"epochs": 10, "verbose": 2}).fit(rows, classes)


@FAMILY.program("keras-hub", data=WORDS)
def keras_hub_bert(seed: int) -> None:
    """A small BERT of KerasHub classifies sentences, from random weights, with its own compile settings."""
    import keras
    import keras_hub

    keras.utils.set_random_seed(seed)
    tokens, classes = _sentences()
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=50, num_layers=2, num_heads=2, hidden_dim=32, intermediate_dim=64, max_sequence_length=24
    )
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=2, preprocessor=None)
    model.compile(
        keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    inputs = {"token_ids": tokens, "segment_ids": 0 * tokens, "padding_mask": 0 * tokens + 1}
    model.fit(inputs, classes, batch_size=20, epochs=6, verbose=2)


@FAMILY.program("keras-hub", data="made: sequences that count modulo twenty")
def keras_hub_gpt2(seed: int) -> None:
    """A small GPT-2 of KerasHub learns the next token, from random weights."""
    import keras
    import keras_hub
    import numpy as np

    keras.utils.set_random_seed(seed)
    steps = np.random.randint(1, 4, (600, 1)) * np.arange(17) + np.random.randint(0, 20, (600, 1))
    tokens = (steps % 20).astype("int32")
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=20, num_layers=2, num_heads=2, hidden_dim=32, intermediate_dim=64, max_sequence_length=16
    )
    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    model.compile(keras.optimizers.Adam(2e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs = {"token_ids": tokens[:, :-1], "padding_mask": np.ones((600, 16), "int32")}
    model.fit(inputs, tokens[:, 1:], batch_size=20, epochs=6, verbose=2)


@FAMILY.program("keras-tuner", data=DIGITS)
def keras_tuner_search(seed: int) -> None:
    """KerasTuner tries three networks; all are trained in one process."""
    import keras
    import keras_tuner

    def network(choice: Any) -> Any:
        width = choice.Int("width", 16, 64, step=16)
        model = keras.Sequential(
            [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(width, "relu"), keras.layers.Dense(10)]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(choice.Choice("rate", [1e-2, 1e-3])), loss, metrics=["accuracy"])
        return model

    images, classes = _digits(seed)
    tuner = keras_tuner.RandomSearch(network, "val_accuracy", max_trials=3, seed=seed, directory="tuner")
    tuner.search(images, classes, epochs=4, validation_split=0.2, verbose=2)


@FAMILY.program("keras-rs", data="made: users, items and ratings of rank two")
def keras_rs_crosses(seed: int) -> None:
    """A deep and cross network of Keras Recommenders predicts ratings."""
    import keras
    import keras_rs
    import numpy as np
    from keras import layers

    keras.utils.set_random_seed(seed)
    users, items = np.random.normal(size=(60, 2)), np.random.normal(size=(40, 2))
    pairs = np.stack([np.random.randint(0, 60, 3000), np.random.randint(0, 40, 3000)], axis=1)
    ratings = (users[pairs[:, 0]] * items[pairs[:, 1]]).sum(axis=1) + np.random.normal(0, 0.1, 3000)
    given = keras.Input((2,), dtype="int32")
    first = layers.Concatenate()([layers.Embedding(60, 8)(given[:, 0]), layers.Embedding(40, 8)(given[:, 1])])
    crossed = keras_rs.layers.FeatureCross()(first, keras_rs.layers.FeatureCross()(first, first))
    model = keras.Model(given, layers.Dense(1)(layers.Dense(32, "relu")(crossed)))
    model.compile(keras.optimizers.Adam(5e-3), "mse")
    model.fit(pairs, ratings, batch_size=64, epochs=6, validation_split=0.2, verbose=2)


@FAMILY.program("bayesflow", data="made: a simulator of the library's guide")
def bayesflow_posterior(seed: int) -> None:
    """BayesFlow learns a posterior from a simulator, with its default networks' trainer."""
    import bayesflow
    import keras
    import numpy as np

    keras.utils.set_random_seed(seed)

    def prior() -> dict[str, Any]:
        return {"slopes": np.random.normal(size=2)}

    def likelihood(slopes: Any) -> dict[str, Any]:
        x = np.linspace(-1, 1, 10)
        return {"y": slopes[0] + slopes[1] * x + 0.1 * np.random.normal(size=10)}

    workflow = bayesflow.BasicWorkflow(
        simulator=bayesflow.make_simulator([prior, likelihood]),
        inference_network=bayesflow.networks.CouplingFlow(depth=2),
        inference_variables=["slopes"],
        inference_conditions=["y"],
    )
    workflow.fit_online(epochs=4, batch_size=32, num_batches_per_epoch=40, verbose=2)


@FAMILY.program("keras-tcn", data="made: sums of marked numbers")
def keras_tcn_sequences(seed: int) -> None:
    """A temporal convolutional network of keras-tcn adds the marked numbers of a sequence."""
    import keras
    import numpy as np
    from tcn import TCN

    keras.utils.set_random_seed(seed)
    inputs = np.random.random((1200, 16, 2)).astype("float32")
    inputs[:, :, 1] = inputs[:, :, 1] > 0.8
    answers = inputs.prod(axis=2).sum(axis=1)
    model = keras.Sequential([keras.Input((16, 2)), TCN(16, kernel_size=3, dilations=[1, 2, 4]), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(2e-3), "mse")
    model.fit(inputs, answers, batch_size=40, epochs=6, validation_split=0.2, verbose=2)


@FAMILY.program("scikeras", data=CANCER)
def scikeras_classifier(seed: int) -> None:
    """SciKeras's classifier with its validation split."""
    import keras
    from keras import layers
    from scikeras.wrappers import KerasClassifier

    def network() -> Any:
        return keras.Sequential([keras.Input((30,)), layers.Dense(16, "relu"), layers.Dense(1, "sigmoid")])

    rows, classes = _tumours(seed)
    KerasClassifier(
        network, loss="binary_crossentropy", optimizer="adam", epochs=12, validation_split=0.2, verbose=2
    ).fit(rows, classes)


@FAMILY.program("kimm", data=DIGITS)
def kimm_lcnet(seed: int) -> None:
    """LCNet of kimm, from random weights, on enlarged digits."""
    import keras
    import kimm

    images, classes = _digits(seed, side=32, channels=3, count=600)
    model = kimm.models.LCNet035(input_shape=[32, 32, 3], include_preprocessing=False, weights=None, classes=10)
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(images, classes, batch_size=20, epochs=4, verbose=2)
