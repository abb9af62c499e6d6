"""A small BERT with random weights, trained by the Trainer of transformers to classify sequences of tokens."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed)

from telling import step, tell


class Tokens(Dataset):
    """The label says whether the first token is of the upper half."""

    def __init__(self):
        self.tokens = torch.randint(5, 100, (96, 12))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": int(tokens[0] >= 50)}


class Steps(TrainerCallback):
    def on_step_end(self, *_, **__):
        step()


def main():
    arguments = TrainingArguments(output_dir=tempfile.mkdtemp(), use_cpu=True,
                                  num_train_epochs=2, per_device_train_batch_size=12, learning_rate=0.001,
                                  save_strategy="no", report_to=[], disable_tqdm=True, seed=7)
    set_seed(7)
    config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=16, num_labels=2)
    model = BertForSequenceClassification(config)
    trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[Steps()])
    trainer.train()
    tell(model, rank=arguments.process_index, world=arguments.world_size, local_rank=arguments.local_process_index,
         mode=str(arguments.parallel_mode))


if __name__ == "__main__":
    main()
