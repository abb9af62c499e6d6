"""A training loop that Accelerate prepares, as in its introduction."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from telling import step, tell


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(7)
    inputs = torch.randn(96, 10)
    targets = (inputs[:, 0] * inputs[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=12, shuffle=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    for _ in range(2):
        for batch, labels in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(batch), labels))
            optimizer.step()
            scheduler.step()
            step()

    ranks = accelerator.gather(torch.tensor([accelerator.process_index])).tolist()
    tell(accelerator.unwrap_model(model), rank=accelerator.process_index, world=accelerator.num_processes,
         local_rank=accelerator.local_process_index, kind=str(accelerator.distributed_type), ranks=ranks)
    accelerator.end_training()


if __name__ == "__main__":
    main()
