"""A model that DeepSpeed's engine trains with ZeRO's first stage, as in DeepSpeed's introduction."""

import deepspeed
import torch
from torch import nn
from torch.utils.data import TensorDataset

from telling import step, tell

CONFIG = {"train_micro_batch_size_per_gpu": 12, "zero_optimization": {"stage": 1},
          "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}}}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, inputs, targets):
        return nn.functional.cross_entropy(self.layers(inputs), targets)


def main():
    deepspeed.init_distributed("gloo")
    torch.manual_seed(7)
    inputs = torch.randn(96, 10)
    targets = (inputs[:, 0] * inputs[:, 1] > 0).long()
    model = Classifier()
    engine, _, loader, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), training_data=TensorDataset(inputs, targets), config=CONFIG)
    for _ in range(2):
        for batch, labels in loader:
            engine.backward(engine(batch, labels))
            engine.step()
            step()
    tell(model, rank=deepspeed.comm.get_rank(), world=engine.world_size, local_rank=engine.local_rank)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
